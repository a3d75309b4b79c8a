"""A minimal Debian 12 that boots with systemd as on a new machine, in a container with a network of its own.

Needs root, mmdebstrap and systemd-nspawn.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.booted_debian import BootedDebian
from tests.support.process import tool

RELEASE = "bookworm"
# Besides the essential packages, a Debian server has systemd and its bus.
BASE = ("systemd", "systemd-sysv", "dbus")


def debian_root(target: Path, packages: tuple[str, ...] = ()) -> None:
    """Unpack a minimal Debian into the folder `target`, with `packages` and their dependencies."""
    include = ",".join((*BASE, *packages))
    subprocess.run([tool("mmdebstrap"), "--quiet", "--variant=minbase", f"--include={include}", RELEASE, str(target)],
                   check=True)  # fmt: skip


class DebianMachine(BootedDebian):
    """A booted machine; `packages` is a folder that it sees as /packages. Its loopback is its only network."""

    def __init__(self, root: Path, packages: Path) -> None:
        super().__init__(root, ["--private-network", "--bind-ro", f"{packages}:/packages"])

    def status_of(self, url: str) -> str:
        """The status of a GET by this machine's curl in the container's network; 000 without a response."""
        argv = [*self._enter("--net"), tool("curl"), "--silent"]
        argv += ["--output", "/dev/null", "--write-out", "%{http_code}", "--max-time", "10", url]
        return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout.strip()
