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

from tests.support.disk import Disk
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.process import ServerProcess, tool
from tests.support.sshd import SshServer

KINDS = ("files", "app", "tls")
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
        return self.host.nginx.root / "conf.d" / f"{self.name}.conf"


@dataclass
class TruthHost:
    name: str
    disk: Disk
    sshd: SshServer
    nginx: NginxInstance
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
    """Processes below `pid`; nginx is not among them, because it left its parent."""
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
    sshd, nginx = SshServer(disk.path / "ssh"), NginxInstance(disk.path / "nginx")
    (disk.path / "app").mkdir()
    host = TruthHost(name, disk, sshd, nginx, Application(disk.path / "app"))
    base = f"server {{ listen 127.0.0.1:{free_port()} default_server; return 200 base; }}\n"
    (nginx.root / "conf.d" / "base.conf").write_text(base)
    for kind in KINDS:
        site_root = nginx.root / "www" / kind
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
            ended.callback(host.nginx.stop)
            ended.callback(host.app.stop)
            host.sshd.start()
            host.nginx.start()
            host.app.start()
        yield found
