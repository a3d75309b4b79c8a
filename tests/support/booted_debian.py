"""A Debian that boots with systemd in a container (systemd-nspawn). Needs root."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.isolated import Isolated, children_of
from tests.support.process import tool
from tests.support.waiting import eventually

BOOT_S = 60.0
NSPAWN = ("--quiet", "--boot", "--register=no", "--keep-unit", "--console=read-only")
# The cgroups of systemd on a machine that was not booted by systemd. Containers that shared one would see each other's
# services in it, and could not end their processes.
CGROUPS = (Path("/sys/fs/cgroup/systemd"), Path("/sys/fs/cgroup/unified"))
ENTER = """for folder in $1; do mkdir -p "$folder" && echo $$ > "$folder/cgroup.procs"; done
shift
exec "$@"
"""
NAMESPACES = ("--mount", "--uts", "--ipc", "--pid", "--net", "--cgroup")


class BootedDebian(Isolated):
    """The file system `root`, booted with `options` of systemd-nspawn. `before` is the command that starts
    systemd-nspawn, if it must run in other namespaces; `console` is the file for the messages of the boot.
    """

    def __init__(
        self, root: Path, options: Sequence[str], *, before: Sequence[str] = (), console: Path = Path(os.devnull)
    ) -> None:
        self._cgroups = [place / f"paddock-{os.getpid()}-{id(self)}" for place in CGROUPS if place.is_dir()]
        enter = [tool("sh"), "-ec", ENTER, "sh", " ".join(map(str, self._cgroups))]
        self._argv = [*enter, *before, tool("systemd-nspawn"), *NSPAWN, "--directory", str(root), *options]
        self._console = console
        self._container: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.power_on()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._container is not None:
            self.power_off()

    def power_on(self) -> None:
        """Boot, and wait until systemd has started every unit."""
        with self._console.open("ab") as console:
            self._container = subprocess.Popen(self._argv, stdin=subprocess.DEVNULL, stdout=console, stderr=console)
        assert eventually(self._has_booted, timeout_s=BOOT_S), f"the container did not boot; see {self._console}"

    def _has_booted(self) -> bool:
        assert self._container is not None and self._container.poll() is None, "the container ended while it booted"
        if not self._first_processes():
            return False
        return self.start("systemctl", "is-system-running").communicate()[0].strip() in ("running", "degraded")

    def power_off(self) -> None:
        """End every process at once, as a power failure does."""
        assert self._container is not None
        for child in self._first_processes() or [self._container.pid]:
            os.kill(int(child), signal.SIGKILL)
        self._container.wait(timeout=30)
        self._container = None
        for place in self._cgroups:
            assert eventually(lambda place=place: _removed(place)), place

    def _first_processes(self) -> list[str]:
        """Id of systemd in the container, as this machine numbers it; empty before it runs.

        The shell and systemd-nspawn have other children before, which end at once.
        """
        assert self._container is not None
        return [child for child in children_of(self._container.pid) if _is_first_of_namespace(child)]

    def _enter(self, *namespaces: str) -> list[str]:
        return [tool("nsenter"), "--target", self._first_processes()[0], *(namespaces or NAMESPACES)]


def _is_first_of_namespace(pid: str) -> bool:
    """Return whether the process has the id 1 in a PID namespace below that of this machine (NSpid in proc(5))."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    ids = next(line for line in lines if line.startswith("NSpid:")).split()[1:]
    return len(ids) > 1 and ids[-1] == "1"


def _removed(cgroup: Path) -> bool:
    """Remove a cgroup with those below; False while a process in it has not quite ended."""
    try:
        for folder, _folders, _files in os.walk(cgroup, topdown=False):
            os.rmdir(folder)
    except OSError:
        return False
    return True
