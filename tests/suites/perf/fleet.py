"""Many hosts on one machine: each an sshd with its own host key and an nginx of its own, all on loopback."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.suites.perf.account import cpu_seconds
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.sshd import SshServer, make_key


@dataclass
class FleetHost:
    name: str
    sshd: SshServer
    nginx: NginxInstance
    http_port: int

    @property
    def site_file(self) -> Path:
        return self.nginx.root / "conf.d" / "site.conf"


def _host(root: Path, number: int, client_key: Path) -> FleetHost:
    sshd = SshServer(root / "ssh")
    for suffix in ("", ".pub"):
        shutil.copy(f"{client_key}{suffix}", root / "ssh" / f"client_key{suffix}")
    (root / "ssh" / "authorized_keys").write_text(Path(f"{client_key}.pub").read_text())
    # bash sources ~/.bashrc for sshd's outermost shell: what this machine's account has there (150 ms of version
    # managers, say) is no part of what is measured, for any of the tools.
    sshd.environment["SHLVL"] = "1"
    nginx = NginxInstance(root / "nginx")
    port = free_port()
    (nginx.root / "conf.d" / "base.conf").write_text(
        f"server {{ listen 127.0.0.1:{port} default_server; location / {{ return 200 base; }} }}\n"
    )
    return FleetHost(f"host{number:02}", sshd, nginx, port)


@contextmanager
def fleet(root: Path, size: int) -> Iterator[list[FleetHost]]:
    """`size` running hosts; all of them are ended and removed afterwards."""
    root.mkdir(parents=True, exist_ok=True)
    root.chmod(0o755)
    make_key(root / "client_key")
    hosts = [_host(root / f"h{number:02}", number, root / "client_key") for number in range(size)]
    with ExitStack() as ended:
        ended.callback(shutil.rmtree, root, ignore_errors=True)
        for host in hosts:
            ended.callback(host.sshd.stop)
            ended.callback(host.nginx.stop)
            # A site without an index would be a failing one.
            (host.nginx.root / "www" / "index.html").write_text("the site\n")
            host.sshd.start()
            host.nginx.start()
        yield hosts


def lower_priority(hosts: Iterable[FleetHost], niceness: int) -> None:
    """Let the hosts' servers, and the agents that they start from now on, use only what the rest of the computer leaves
    of its CPUs: a host of a real fleet has CPUs of its own, and takes none from the panel.
    """
    for host in hosts:
        assert host.sshd.process.process is not None and host.nginx.pid is not None
        for group in (host.sshd.process.process.pid, host.nginx.pid):
            os.setpriority(os.PRIO_PGRP, group, niceness)


def site_text(host: FleetHost, mark: str) -> str:
    """A 1.5 KB site file whose answer at /version is `mark`."""
    filler = "\n".join(f"    # {'-' * 70} {line:02}" for line in range(16))
    return (
        f"server {{\n    listen 127.0.0.1:{host.http_port};\n    server_name site.example;\n{filler}\n"
        f"    location = /version {{ return 200 {mark}; }}\n}}\n"
    )


def run_measured(argv: list[str], env: dict[str, str]) -> tuple[float, float, float, int]:
    """Wall, own CPU and machine CPU seconds, and peak resident bytes of one command; AssertionError if it fails."""
    machine, began = cpu_seconds(), time.monotonic()
    process = subprocess.Popen(
        argv, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        assert process.stdout
        output = process.stdout.read()
    except BaseException:
        process.send_signal(signal.SIGTERM)
        raise
    _pid, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - began
    assert process.returncode == 0, f"{argv[0]} ended with {process.returncode}:\n{output.decode(errors='replace')}"
    return wall, usage.ru_utime + usage.ru_stime, cpu_seconds() - machine, usage.ru_maxrss * 1024
