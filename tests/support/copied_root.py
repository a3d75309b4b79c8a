"""A writable copy of this machine's file system with processes and a network of its own, to install packages into.

The copy is an overlay in memory: what is written there is gone at the end. Needs root.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.isolated import OVERLAY, Isolated, children_of
from tests.support.process import tool
from tests.support.waiting import eventually

# Mounts the copy at "$1" and then stays as the first process of its namespaces.
START = f"""{OVERLAY}
mount --rbind /dev "$1/root/dev"
mount -t proc proc "$1/root/proc"
mount -t tmpfs tmpfs "$1/root/run"
mount -t tmpfs tmpfs "$1/root/tmp"
mkdir "$1/root/tmp/packages"
mount --bind "$2" "$1/root/tmp/packages"
ip link set lo up
echo ready > "$1/root/run/ready"
exec sleep infinity
"""


class CopiedRoot(Isolated):
    """The copy; `packages` is a folder that it sees as /tmp/packages. With `own_network` false it uses this machine's
    network, or that of the process `network`.
    """

    def __init__(self, folder: Path, packages: Path, *, own_network: bool = True, network: int = 0) -> None:
        self._mount, self._packages = folder / "copy", packages
        self._outside = [tool("nsenter"), "-t", str(network), "--net", "--"] if network else []
        self._namespaces = ["--mount", "--pid", "--uts", *(["--net"] if own_network else [])]

    def __enter__(self) -> Self:
        self._mount.mkdir()
        how = ("--propagation", "private", "--fork", "--kill-child")
        self._first = subprocess.Popen(
            [
                *self._outside,
                tool("unshare"),
                *self._namespaces,
                *how,
                "sh",
                "-c",
                START,
                "sh",
                str(self._mount),
                str(self._packages),
            ]
        )
        assert eventually(self._is_ready)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._first.kill()  # and so every process of the copy
        self._first.wait()

    def _namespaces_of_copy(self) -> list[str]:
        """The command that enters the copy's namespaces: those of the child of `unshare`."""
        children = children_of(self._first.pid)
        assert children, "the copy of the file system was not made"
        return [*self._outside, tool("nsenter"), "-t", children[0], *self._namespaces]

    def _enter(self) -> list[str]:
        return [*self._namespaces_of_copy(), "chroot", f"{self._mount}/root"]

    def _is_ready(self) -> bool:
        assert self._first.poll() is None, "the copy of the file system could not be mounted"
        if not children_of(self._first.pid):
            return False
        ready = [*self._namespaces_of_copy(), "test", "-e", f"{self._mount}/root/run/ready"]
        return subprocess.run(ready).returncode == 0
