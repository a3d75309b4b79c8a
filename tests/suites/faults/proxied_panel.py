"""Two web processes of one panel behind nginx, with the commands and the configuration that the guide prints."""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet

from tests.support.expiring_certificates import certificate
from tests.support.guide import printed, replaced
from tests.support.https_browser import HttpsBrowser
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.process import ServerProcess
from tests.support.redis import Redis
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
DOMAIN = "panel.example.com"
BROWSER = "127.0.0.77"
PASSWORD = "correct horse battery staple"
WEB_ADDRESS = "127.0.0.5"  # the guide lets the web processes listen on an address that the proxy reaches

# A site with content, and a job that no worker begins.
ROWS = """
import json
from panel.accounts.models import Team, User
from panel.hosts.models import Host, HostJob, WebServer
from panel.websites.services import site_create
host = Host.objects.create(name="web-1", address="127.0.0.1", port=9, username="root", site_roots=["/srv/www"])
web_server = WebServer.objects.create(host=host, engine="nginx", layout="conf_d", version="1.22.1", paths={})
values = {"name": "shop", "domains": ["shop.example"], "port": 80, "address": "", "root": "/srv/www/shop"}
site_create(actor=User.objects.get(), team=Team.objects.get(), web_server=web_server, **values)
print(json.dumps(str(HostJob.objects.create(host=host, kind="check").uuid)))
"""


class ProxiedPanel:
    """`machines` are two web processes, each with a data folder of its own. `stop_all` ends what was started."""

    def __init__(self, folder: Path, ended: ExitStack, copy_of: Path) -> None:
        self.folder = folder
        postgres = ended.enter_context(Postgres(folder / "postgres", copy_of=copy_of))
        redis = ended.enter_context(Redis(folder / "redis"))
        names = {"PADDOCK_SECRET_KEY": "s" * 60, "PADDOCK_ENCRYPTION_KEYS": Fernet.generate_key().decode()}
        names |= {"PADDOCK_DATABASE_URL": postgres.url, "PADDOCK_REDIS_URL": redis.url, "PADDOCK_LOCAL_HOST": "0"}
        names |= {"PADDOCK_HTTPS": "1", "PADDOCK_ALLOWED_HOSTS": DOMAIN, "PADDOCK_TRUSTED_PROXIES": "127.0.0.1"}
        self.env = os.environ | names | {"PADDOCK_STATIC_MANIFEST": "0"}
        self.ports = [free_port(), free_port()]
        self.machines = [self._machine(number) for number in range(2)]
        for number, machine in enumerate(self.machines):
            ended.callback(machine.stop)
            self.manage(number, "prepare")
            machine.start()
        for machine, port in zip(self.machines, self.ports, strict=True):
            machine.wait_for_port(port, address=WEB_ADDRESS)

    def _machine(self, number: int) -> ServerProcess:
        argv = [sys.executable, str(ROOT / "manage.py"), "web", "--address", WEB_ADDRESS]
        env = self.env | self._home(number)
        return ServerProcess([*argv, "--port", f"{self.ports[number]}"], self.folder / f"web-{number}.log", env=env)

    def _home(self, number: int) -> dict[str, str]:
        return {"PADDOCK_HOME": str(self.folder / f"home-{number}")}

    def manage(self, number: int, *arguments: str) -> str:
        """Output of a command on one of the machines."""
        argv = [sys.executable, str(ROOT / "manage.py"), *arguments]
        env = self.env | self._home(number)
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def rows(self) -> str:
        """The job's id, of rows that exist once there is an account."""
        return str(json.loads(self.manage(0, "shell", "--no-imports", "-c", ROWS).splitlines()[-1]))

    @contextmanager
    def proxy(self, section: str) -> Iterator[HttpsBrowser]:
        """nginx with the configuration of this section of the guide; yields a browser in front of it."""
        nginx = NginxInstance(self.folder / section.replace(" ", "-"))
        crt, key, port = nginx.root / "panel.crt", nginx.root / "panel.key", free_port()
        for path, text in zip((crt, key), certificate(DOMAIN, dt.timedelta(days=30)), strict=True):
            path.write_text(text)
        ours = {"listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;", "/etc/ssl/panel.example.com.crt": str(crt)}
        ours |= {"/etc/ssl/private/panel.example.com.key": str(key)} | self._upstreams(section)
        text = replaced(printed("production.md", section, "server {"), ours)
        (nginx.root / "conf.d" / "panel.conf").write_text(text)
        with nginx:
            yield HttpsBrowser(DOMAIN, port, crt, BROWSER)

    def _upstreams(self, section: str) -> dict[str, str]:
        first, second = (f"{WEB_ADDRESS}:{port}" for port in self.ports)
        if section == "The TLS proxy":
            return {"127.0.0.1:8000": first}
        return {"panel-1.internal:8000": first, "panel-2.internal:8000": second}

    @contextmanager
    def killed(self, number: int) -> Iterator[None]:
        """One web process is killed, and starts again in the end."""
        process = self.machines[number].process
        assert process
        process.kill()
        process.wait(10)
        try:
            yield
        finally:
            self.machines[number].start()
            self.machines[number].wait_for_port(self.ports[number], address=WEB_ADDRESS)

    @contextmanager
    def silent(self, number: int) -> Iterator[None]:
        """The machine of a killed web process has no power: nothing answers at its port, not even a refusal."""
        place = (WEB_ADDRESS, self.ports[number])
        with ExitStack() as open_sockets:
            listener = open_sockets.enter_context(socket.socket())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            listener.listen(0)
            for _ in range(3):  # with a full queue, the kernel drops what else arrives
                waiting = open_sockets.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(place)
            assert eventually(lambda: not _connects(place)), "the port still accepts connections"
            yield


def _connects(place: tuple[str, int]) -> bool:
    try:
        socket.create_connection(place, timeout=0.3).close()
    except OSError:
        return False
    return True


def first_account(browser: HttpsBrowser, panel: ProxiedPanel) -> None:
    """Create the account by the link that the documented command prints."""
    path = panel.manage(0, "make_setup_link").splitlines()[-1]
    values: dict[str, Any] = {"username": "ada", "email": "", "password": PASSWORD, "again": PASSWORD}
    answer = browser.submit(path, values)
    assert answer.status == 302, answer.text
