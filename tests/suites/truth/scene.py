"""Hosts with sites of three kinds: files, an application behind a proxy, and HTTPS. Needs root, because every host has
a small disk of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.apache import ApacheInstance
from tests.support.daemon import Daemon
from tests.support.disk import Disk
from tests.support.gallop import GallopInstance
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.process import ServerProcess, tool
from tests.support.sshd import SshServer

KINDS = ("files", "app", "tls")
SERVERS: tuple[type[NginxInstance] | type[ApacheInstance], ...] = (NginxInstance, ApacheInstance, GallopInstance)
# Apache does not start without a port of its own.
BASE = dict.fromkeys(("nginx", "native"), "server {{ listen 127.0.0.1:{port} default_server; return 200 base; }}\n")
BASE["apache"] = "Listen 127.0.0.1:{port}\n"
DISK_KB = 48 * 1024


class Application:
    """A small HTTP server of the folder `root`, which a site is a proxy for."""

    def __init__(self, root: Path) -> None:
        self.port = free_port()
        (root / "index.html").write_text("application\n")
        argv = [sys.executable, "-m", "http.server", str(self.port), "--bind", "127.0.0.1", "--directory", str(root)]
        self.process = ServerProcess(argv, root.parent / "app.log")

    def start(self) -> None:
        self.process.start()
        self.process.wait_for_port(self.port)

    def stop(self) -> None:
        self.process.stop(sig=signal.SIGKILL)

    def pause(self, is_paused: bool) -> None:
        """Keep it from responding, or let it go on: its port accepts connections all the time."""
        assert self.process.process
        self.process.process.send_signal(signal.SIGSTOP if is_paused else signal.SIGCONT)


@dataclass
class TruthSite:
    name: str
    kind: str
    host: TruthHost
    port: int
    root: Path
    mark: str = ""  # of its live version, by the panel's word

    @property
    def domain(self) -> str:
        return f"{self.name}.example"

    @property
    def config(self) -> Path:
        """Its live file, if it was deployed; Apache's have a number in front, which is their order."""
        folder = self.host.server.root / "conf.d"
        return next(folder.glob(f"*{self.name}.conf"), folder / f"{self.name}.conf")


@dataclass
class TruthHost:
    name: str
    disk: Disk
    sshd: SshServer
    server: Daemon
    app: Application
    sites: list[TruthSite] = field(default_factory=list)

    def cut(self) -> None:
        """End sshd and every session of it."""
        pids = _descendants(self.sshd.process.process.pid) if self.sshd.process.process else []
        self.sshd.stop()
        for pid in pids:
            _kill(pid, signal.SIGKILL)

    def hang(self, is_hanging: bool) -> None:
        """Stop sshd and its sessions from responding, or let them go on."""
        assert self.sshd.process.process
        parent = self.sshd.process.process.pid
        for pid in [parent, *_descendants(parent)]:
            _kill(pid, signal.SIGSTOP if is_hanging else signal.SIGCONT)


def _kill(pid: int, sig: signal.Signals) -> None:
    try:
        os.kill(pid, sig)
    except ProcessLookupError:
        return


def _descendants(pid: int) -> list[int]:
    """Processes below `pid`; a web server is not among them, because it left its parent."""
    done = subprocess.run([tool("ps"), "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
    children: dict[int, list[int]] = {}
    for line in done.stdout.splitlines():
        own, parent = (int(word) for word in line.split())
        children.setdefault(parent, []).append(own)
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _host(root: Path, number: int, ended: ExitStack) -> TruthHost:
    name = f"truth-{number}"
    disk = Disk(root / name, "ext4", image=root / f"{name}.img", size_kb=DISK_KB, inodes=20_000)
    ended.enter_context(disk)
    sshd, server = SshServer(disk.path / "ssh"), SERVERS[(number - 1) % len(SERVERS)](disk.path / "web")
    (disk.path / "app").mkdir()
    host = TruthHost(name, disk, sshd, server, Application(disk.path / "app"))
    (server.root / "conf.d" / "base.conf").write_text(BASE[server.engine].format(port=free_port()))
    for kind in KINDS:
        site_root = server.root / "www" / kind
        site_root.mkdir()
        (site_root / "index.html").write_text(f"{name} {kind}\n")
        host.sites.append(TruthSite(f"{kind}-{number}", kind, host, free_port(), site_root))
    return host


@contextmanager
def hosts(root: Path, count: int) -> Iterator[list[TruthHost]]:
    """Running hosts; all of them are ended and their disks unmounted afterwards."""
    root.mkdir(parents=True, exist_ok=True)
    root.chmod(0o755)
    with ExitStack() as ended:
        ended.callback(shutil.rmtree, root, ignore_errors=True)
        found = [_host(root, number, ended) for number in range(1, count + 1)]
        for host in found:
            ended.callback(host.sshd.stop)
            ended.callback(host.server.stop)
            ended.callback(host.app.stop)
            host.sshd.start()
            host.server.start()
            host.app.start()
        yield found
