"""Commands inside an isolated file system: a copy of this machine, or a Debian that has booted in a container."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from pathlib import Path

ENVIRONMENT = (
    "HOME=/root",
    "LC_ALL=C.UTF-8",
    "DEBIAN_FRONTEND=noninteractive",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
)
# Mounts a writable copy of this machine's file system at "$1"/root. The copy is in memory: the end of the mount
# namespace removes everything that was written there.
OVERLAY = """
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
"""


class Isolated(ABC):
    """A file system with processes of its own, in which tests run commands as root."""

    @abstractmethod
    def _enter(self) -> list[str]:
        """The command that runs its arguments inside."""

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """A process inside; its output, errors included, can be read from `stdout`."""
        return subprocess.Popen(
            [*self._enter(), "env", "-i", *ENVIRONMENT, *argv],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def run(self, *argv: str, code: int = 0) -> str:
        """Output of the command. AssertionError if it ends with another exit code."""
        process = self.start(*argv)
        output, _ = process.communicate(timeout=300)
        assert process.returncode == code, f"{' '.join(argv)} ended with {process.returncode}:\n{output}"
        return output

    def shell(self, command: str, *, code: int = 0) -> str:
        """Output of a line of root's shell. AssertionError if it ends with another exit code."""
        return self.run("sh", "-c", command, code=code)


def children_of(pid: int) -> list[str]:
    """Ids of the child processes; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []
