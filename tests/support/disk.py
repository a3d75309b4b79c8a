"""A small file system of its own, filled to any level. Needs root, as mounting does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Self

BLOCK = 1024


class Disk:
    """Mounted at `path` while the context lasts. `kind` is tmpfs, or ext4 with blocks of 1 KB in the file `image`."""

    def __init__(self, path: Path, kind: str, *, image: Path, size_kb: int = 4096, inodes: int = 600) -> None:
        self.path, self.kind, self.image, self.size_kb, self.inodes = path, kind, image, size_kb, inodes

    def __enter__(self) -> Self:
        self.path.mkdir(parents=True, exist_ok=True)
        options, source = f"size={self.size_kb}k,nr_inodes={self.inodes},mode=755", "paddock-test"
        if self.kind == "ext4":
            self.image.write_bytes(b"")
            os.truncate(self.image, self.size_kb * 1024)
            make = ["mkfs.ext4", "-q", "-b", str(BLOCK), "-m", "0", "-N", str(self.inodes), str(self.image)]
            subprocess.run(make, check=True, capture_output=True)
            options, source = "loop", str(self.image)
        subprocess.run(["mount", "-t", self.kind, "-o", options, source, str(self.path)], check=True)
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "-l", str(self.path)], check=True)

    @property
    def _filler(self) -> Path:
        return self.path / "filler"

    def free_kb(self) -> int:
        info = os.statvfs(self.path)
        return info.f_bavail * info.f_frsize // 1024

    def fill(self, leave_kb: int) -> None:
        """Takes the space, apart from `leave_kb` or one block more."""
        self.empty()
        with self._filler.open("wb", buffering=0) as file:
            size = 0
            while (more := self.free_kb() - leave_kb) > 0:
                size += more * 1024
                try:
                    os.posix_fallocate(file.fileno(), 0, size)
                except OSError:
                    break

    def fill_inodes(self, leave: int) -> None:
        """Takes the inodes, apart from `leave`."""
        self.empty()
        folder = self.path / "fillers"
        folder.mkdir()
        for number in range(os.statvfs(self.path).f_favail - leave):
            (folder / str(number)).touch()

    def empty(self) -> None:
        """Frees what was taken."""
        self._filler.unlink(missing_ok=True)
        for path in (self.path / "fillers").glob("*"):
            path.unlink()
        if (self.path / "fillers").exists():
            (self.path / "fillers").rmdir()
