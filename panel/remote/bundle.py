"""Build the host agent as one zip archive that Python runs.

The archive contains the sources, and their bytecode as compiled by the panel's Python (PEP 552, unchecked). A host with
the same version of Python loads the bytecode. A host with another version, 3.8 or later, loads the sources, because
zipimport checks the version. The archive's name contains the digest of the sources. So all workers use the same name,
and a host needs only one upload.
"""

from __future__ import annotations

import compileall
import hashlib
import os
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import IO

AGENTS = Path(__file__).resolve().parents[2] / "agents"
NOT_THERE = "can't open file"  # what Python says when the archive is not there
PART_BYTES = 1 << 16
EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Bundle:
    """The agent's archive. `name` is agent-<SHA-256 of the sources>.pyz, with 64 hexadecimal digits."""

    name: str
    file: IO[bytes]

    def parts(self) -> Iterator[bytes]:
        """Yield the archive in parts of PART_BYTES, read from a temporary file. The archive is not kept in memory,
        because each host needs only one upload. Many threads can read the file at once.
        """
        at = 0
        while part := os.pread(self.file.fileno(), PART_BYTES, at):
            yield part
            at += len(part)


def argv(python: str, path: str) -> list[str]:
    """Return the command that runs the agent's archive at `path` with Python, without the user's settings, site
    packages and bytecode caches.
    """
    return [python, "-ISB", path]


_making = threading.Lock()


def bundle() -> Bundle:
    """Return the agent's archive for this version of the panel, built once per process, even if many
    threads need it.
    """
    with _making:
        return _made()


@cache
def _made() -> Bundle:
    sources = _sources()
    digest = hashlib.sha256(sys.implementation.cache_tag.encode())
    for name, source in sources.items():
        digest.update(b"%s\0%d\0%s" % (name.encode(), len(source), source))
    file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process lives
    with tempfile.TemporaryDirectory() as folder:
        _write_archive(Path(folder), sources, file)
    return Bundle(f"agent-{digest.hexdigest()}.pyz", file)


def _sources() -> dict[str, bytes]:
    """Return {name in the archive: path of the source file} for the agent's archive. Python runs `__main__.py`."""
    files = [AGENTS / "__init__.py", AGENTS / "wire.py", *sorted((AGENTS / "host").rglob("*.py"))]
    named = {f"agents/{path.relative_to(AGENTS).as_posix()}": path.read_bytes() for path in files}
    return {"__main__.py": (AGENTS / "__main__.py").read_bytes(), **named}


def _write_archive(folder: Path, sources: dict[str, bytes], file: IO[bytes]) -> None:
    """Compile the sources in `folder` and write the agent's archive, uncompressed, so that hosts start it faster."""
    for name, source in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(source)
    mode = PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(folder, quiet=1, legacy=True, stripdir=str(folder), invalidation_mode=mode):
        raise RuntimeError("The sources of the agent do not compile. See the errors in the panel's log.")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(item for item in folder.rglob("*") if item.is_file()):
            archive.writestr(zipfile.ZipInfo(path.relative_to(folder).as_posix(), EPOCH), path.read_bytes())
    file.flush()


def written_to(folder: Path) -> Path:
    """Write the agent's archive to `folder` on the panel's machine, atomically and only once; return its path."""
    made = bundle()
    path = folder / made.name
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=folder, prefix=".agent-")
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(made.parts())
        Path(draft).chmod(0o700)
        Path(draft).replace(path)
    return path
