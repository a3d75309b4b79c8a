"""Hosts for a virtual address: each has its own network, configuration of keepalived, and nginx. Needs root."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path
from typing import Self

from tests.support.namespace_hosts import Machine, Switch, ip
from tests.support.process import tool
from tests.support.waiting import eventually

NGINX = """\
user root;
worker_processes 2;
pid {root}/nginx.pid;
error_log {root}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    server {{
        listen 80;
        location / {{ return 200 "{name}\\n"; }}
        location /broken {{ return 503; }}
    }}
}}
"""


@dataclass
class WebHost:
    """One host with keepalived and nginx; both have folders of their own below `root`."""

    name: str
    root: Path
    machine: Machine

    @property
    def configuration(self) -> Path:
        """The folder that the host sees as /etc/keepalived."""
        return self.root / "keepalived"

    def inside(self, *argv: str, check: bool = True) -> str:
        enter = [tool("nsenter"), "--target", f"{self.machine.first_process}", "--net", "--mount", "--pid", "--"]
        return subprocess.run([*enter, *argv], check=check, capture_output=True, text=True).stdout

    def prepare(self) -> None:
        for name in ("keepalived", "run", "run/sshd"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
            (self.root / name).chmod(0o755)
        self.inside(tool("mount"), "--bind", str(self.configuration), "/etc/keepalived")
        self.inside(tool("mount"), "--bind", str(self.root / "run"), "/run")
        (self.root / "nginx.conf").write_text(NGINX.format(root=self.root, name=self.name))
        self.start_nginx()

    def start_nginx(self) -> None:
        self.inside(tool("nginx"), "-p", str(self.root), "-c", str(self.root / "nginx.conf"))

    def kill_nginx(self) -> None:
        """Kill the master and its workers at once, as systemd does when the master ends."""
        self.inside(tool("pkill"), "-KILL", "nginx")

    def kill_keepalived(self) -> None:
        self.inside(tool("pkill"), "-KILL", "-o", "keepalived")

    def reload_keepalived(self) -> None:
        self.inside(tool("pkill"), "-HUP", "-o", "keepalived")

    def keepalived_runs(self) -> bool:
        return bool(self.inside(tool("pgrep"), "-x", "keepalived", check=False))

    def unplug(self) -> None:
        ip("link", "set", self.machine.port, "down")

    def plug_in(self) -> None:
        ip("link", "set", self.machine.port, "up")

    def has(self, address: str) -> bool:
        return f" {address}/" in self.inside(tool("ip"), "-o", "address", "show")


@dataclass
class Poll:
    """Requests to the virtual address every 100 ms from a client in the same network."""

    address: str
    rows: list[tuple[float, str]] = field(default_factory=list)  # time, name of the host that responded, "" for none

    def __enter__(self) -> Self:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_rest: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.1):
            self.rows.append((time.monotonic(), asked(self.address)))

    def longest_gap_s(self) -> float:
        """Longest time between two responses."""
        times = [at for at, name in self.rows if name]
        return max(later - earlier for earlier, later in pairwise(times))


def asked(address: str, timeout_s: float = 0.3) -> str:
    """Body of the response at this address, "" without a response of status 200."""
    connection = HTTPConnection(address, 80, timeout=timeout_s)
    try:
        connection.request("GET", "/")
        response = connection.getresponse()
        return response.read().decode().strip() if response.status == 200 else ""
    except OSError:
        return ""
    finally:
        connection.close()


def _responds(address: str, name: str) -> bool:
    return asked(address) == name


@contextmanager
def keepalived_hosts(root: Path, *names: str) -> Iterator[list[WebHost]]:
    with ExitStack() as ended:
        switch = ended.enter_context(Switch())
        hosts = []
        for name in names:
            state = root / name / "state"
            machine = ended.enter_context(Machine(root / name, switch, PADDOCK_AGENT_STATE=str(state)))
            hosts.append(WebHost(name, root / name, machine))
            hosts[-1].prepare()
            assert eventually(partial(_responds, machine.address, name))
        yield hosts
