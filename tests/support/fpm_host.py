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
    version: str = VERSION  # another one is the same php-fpm under another name

    @property
    def pools(self) -> Path:
        """The folder that the host sees as /etc/php/8.2/fpm/pool.d."""
        return self.root / "php" / self.version / "fpm" / "pool.d"

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
        if self.version != VERSION:
            self._rename_php()
        main = self.pools.parent / "php-fpm.conf"
        log = f"/var/log/php{self.version}-fpm.log"
        main.write_text(main.read_text().replace(log, str(self.root / "fpm.log")))
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
        if self.version != VERSION:
            self.inside(tool("mount"), "--bind", str(self.root / "bin"), "/usr/local/sbin")
        self.inside(
            f"php-fpm{self.version}", "--daemonize", "--fpm-config", f"/etc/php/{self.version}/fpm/php-fpm.conf"
        )
        assert eventually(lambda: self.runs())

    def _rename_php(self) -> None:
        """Give PHP another version: its folder in /etc/php, and its program. Extensions stay where PHP loads them."""
        former = self.root / "php" / VERSION
        shutil.copytree(former, self.root / "php" / self.version, symlinks=True)
        shutil.rmtree(former / "fpm" / "pool.d")
        for path in (self.pools.parent / "php-fpm.conf", self.pools / "www.conf"):
            path.write_text(path.read_text().replace(VERSION, self.version))
        (self.root / "bin").mkdir()
        shutil.copy2(tool(f"php-fpm{VERSION}"), self.root / "bin" / f"php-fpm{self.version}")

    def _with_accounts(self, place: str) -> str:
        text = Path("/etc", place).read_text()
        if place == "group":
            return text + "".join(f"{name}:x:{number}:\n" for name, number in ACCOUNTS.items()) + "sudo:x:27:boss\n"
        lines = (f"{name}:x:{number}:{number}::/nonexistent:/bin/false\n" for name, number in ACCOUNTS.items())
        return text + "".join(lines)

    def runs(self) -> bool:
        """Return whether php-fpm runs, with the pool that Debian brings."""
        return (self.sockets / f"php{self.version}-fpm.sock").exists() and bool(self._masters())

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
    with fpm_hosts(root, VERSION) as (host,):
        yield host


@contextmanager
def fpm_hosts(root: Path, *versions: str) -> Iterator[list[FpmHost]]:
    """Start one host for each PHP version, in the folders `host`, `host-2`, ... of `root`, on one network."""
    with ExitStack() as ended:
        switch = ended.enter_context(Switch())
        hosts = []
        for number, version in enumerate(versions, 1):
            name = "" if number == 1 else f"-{number}"
            folder, state = root / f"host{name}", root / f"state{name}"
            machine = ended.enter_context(Machine(folder, switch, PADDOCK_AGENT_STATE=str(state)))
            host = FpmHost(folder, machine, version)
            host.prepare()
            hosts.append(host)
        yield hosts
