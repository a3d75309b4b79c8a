"""A minimal Debian 12 that boots with systemd as on a new machine, in a container with a network of its own.

Needs root, mmdebstrap and systemd-nspawn.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.process import tool
from tests.support.waiting import eventually

RELEASE = "bookworm"
BOOT_S = 60.0
# What a Debian server has besides the essential packages: systemd and its bus.
BASE = ("systemd", "systemd-sysv", "dbus")


def debian_root(target: Path, packages: tuple[str, ...] = ()) -> None:
    """Unpack a minimal Debian into the folder `target`, with `packages` and their dependencies."""
    include = ",".join((*BASE, *packages))
    subprocess.run([tool("mmdebstrap"), "--quiet", "--variant=minbase", f"--include={include}", RELEASE, str(target)],
                   check=True)  # fmt: skip


class DebianMachine:
    """A booted machine; `packages` is a folder that it sees as /packages. Its loopback is its only network."""

    def __init__(self, root: Path, packages: Path) -> None:
        self._root, self._packages = root, packages
        self._container: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        try:
            self.power_on()
        except BaseException:
            self.power_off()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.power_off()

    def power_on(self) -> None:
        """Boot, and wait until systemd has started every unit."""
        self._container = subprocess.Popen(
            [tool("systemd-nspawn"), "--quiet", "--directory", str(self._root), "--boot", "--private-network",
             "--register=no", "--keep-unit", "--console=read-only", "--bind-ro", f"{self._packages}:/packages"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert eventually(self._has_booted, timeout_s=BOOT_S)

    def _has_booted(self) -> bool:
        assert self._container is not None and self._container.poll() is None, "the container ended while it booted"
        if not self._children():
            return False
        state = self.start("systemctl", "is-system-running").communicate()[0].strip()
        return state in ("running", "degraded")

    def power_off(self) -> None:
        """End every process at once, as a power failure does."""
        assert self._container is not None
        for child in self._children():
            os.kill(int(child), signal.SIGKILL)
        self._container.wait(timeout=30)

    def _children(self) -> list[str]:
        assert self._container is not None
        pid = self._container.pid
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """A process inside; its output, errors included, can be read from `stdout`."""
        namespaces = ("--mount", "--uts", "--ipc", "--pid", "--net", "--cgroup")
        return subprocess.Popen(
            [tool("nsenter"), "--target", self._children()[0], *namespaces, "env", "-i",
             "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *argv],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def run(self, *argv: str, code: int = 0) -> str:
        """What the command prints. AssertionError when it ends with another code."""
        process = self.start(*argv)
        said, _ = process.communicate(timeout=300)
        assert process.returncode == code, f"{' '.join(argv)} ended with {process.returncode}:\n{said}"
        return said

    def status_of(self, url: str) -> str:
        """The status of a GET by this machine's curl in the container's network; 000 without a response."""
        argv = [tool("nsenter"), "--target", self._children()[0], "--net", tool("curl"), "--silent"]
        argv += ["--output", "/dev/null", "--write-out", "%{http_code}", "--max-time", "10", url]
        return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout.strip()
