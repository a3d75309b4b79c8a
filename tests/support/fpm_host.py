"""A host with PHP-FPM of its own, as Debian lays it out, and a web server; reached over SSH. Needs root.

It has its own /etc/php, /run and accounts: `shop` and `blog` of people, and `boss`, who may use sudo.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from tests.support.namespace_hosts import Machine, Switch
from tests.support.process import tool
from tests.support.waiting import eventually

VERSION = "8.2"
ACCOUNTS = {"shop": 5001, "blog": 5002, "boss": 5003}


@dataclass
class FpmHost:
    root: Path
    machine: Machine

    @property
    def pools(self) -> Path:
        """The folder that the host sees as /etc/php/8.2/fpm/pool.d."""
        return self.root / "php" / VERSION / "fpm" / "pool.d"

    @property
    def sockets(self) -> Path:
        return self.root / "run" / "php"

    def inside(self, *argv: str, check: bool = True) -> str:
        enter = [tool("nsenter"), "--target", f"{self.machine.first_process}", "--net", "--mount", "--pid", "--"]
        return subprocess.run([*enter, *argv], check=check, capture_output=True, text=True).stdout

    def prepare(self) -> None:
        shutil.copytree("/etc/php", self.root / "php", symlinks=True)
        for name in ("run", "run/sshd", "run/php", "lib"):
            (self.root / name).mkdir(mode=0o755)
        shutil.chown(self.sockets, "www-data", "www-data")  # as php-common does
        main = self.pools.parent / "php-fpm.conf"
        main.write_text(main.read_text().replace("/var/log/php8.2-fpm.log", str(self.root / "fpm.log")))
        for place in ("passwd", "group"):
            (self.root / place).write_text(self._with_accounts(place))
        places = {
            "php": "/etc/php",
            "run": "/run",
            "lib": "/var/lib/php",
            "passwd": "/etc/passwd",
            "group": "/etc/group",
        }
        for mine, place in places.items():
            self.inside(tool("mount"), "--bind", str(self.root / mine), place)
        self.inside(tool(f"php-fpm{VERSION}"), "--daemonize")
        assert eventually(lambda: self.runs())

    def _with_accounts(self, place: str) -> str:
        text = Path("/etc", place).read_text()
        if place == "group":
            return text + "".join(f"{name}:x:{number}:\n" for name, number in ACCOUNTS.items()) + "sudo:x:27:boss\n"
        lines = (f"{name}:x:{number}:{number}::/nonexistent:/bin/false\n" for name, number in ACCOUNTS.items())
        return text + "".join(lines)

    def runs(self) -> bool:
        """Return whether php-fpm runs, with the pool that Debian brings."""
        return (self.sockets / f"php{VERSION}-fpm.sock").exists() and bool(self._masters())

    def _masters(self) -> str:
        return self.inside(tool("pgrep"), "-f", "^php-fpm: master", check=False).strip()

    def end_pool_of_debian(self) -> None:
        """Remove www.conf, as an administrator does who has pools of his own."""
        (self.pools / "www.conf").unlink()
        self.inside(tool("pkill"), "-USR2", "-f", "^php-fpm: master")
        assert eventually(lambda: not (self.sockets / f"php{VERSION}-fpm.sock").exists())

    def files_of(self, folder: Path, account: str) -> None:
        """Give a folder to an account of this host."""
        for path in (folder, *folder.rglob("*")):
            os.chown(path, ACCOUNTS[account], ACCOUNTS[account])

    def get(self, port: int, name: str, path: str) -> tuple[int, str]:
        connection = HTTPConnection(self.machine.address, port, timeout=30)
        try:
            connection.request("GET", path, headers={"Host": name})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()


@contextmanager
def fpm_host(root: Path) -> Iterator[FpmHost]:
    with ExitStack() as ended:
        switch = ended.enter_context(Switch())
        machine = ended.enter_context(Machine(root / "host", switch, PADDOCK_AGENT_STATE=str(root / "state")))
        host = FpmHost(root / "host", machine)
        host.prepare()
        yield host
