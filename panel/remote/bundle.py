"""The host agent as one file: a zip archive of modules, named by its content.

Reproducible: the same sources and the same Python make the same bytes, so every worker uploads the same file and a
host needs it once. Each module is there as source, which any Python from 3.8 on can run, and compiled for the Python
that the panel runs on, which a host with the same version starts several milliseconds faster with.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import marshal
import os
import sys
import tempfile
import threading
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

AGENTS = Path(__file__).resolve().parents[2] / "agents"
# Python is told to import from the archive instead of to run it: that takes the module `runpy`, whose imports cost
# more than the agent's own. Fixed words; the archive's path is an argument of theirs.
STUB = "import os, sys; sys.path.insert(0, os.path.abspath(sys.argv[1])); import start"
NOT_THERE = "No module named 'start'"  # what Python says then
START = """\
import sys

if sys.version_info < (3, 8):
    sys.exit("Python 3.8 or newer is needed, this is %d.%d." % sys.version_info[:2])

from agents.host.main import main

main()
"""
EPOCH = (1980, 1, 1, 0, 0, 0)
# Format 2 has no back references, whose presence depends on reference counts and so on what else the process did.
# Python 3.14 has constants that format 2 cannot hold.
MARSHAL_FORMAT = 2 if sys.version_info < (3, 14) else marshal.version


@dataclass(frozen=True)
class Bundle:
    """`name` is agent-<SHA-256 of content>.pyz: sixty-four hexadecimal digits between fixed words."""

    name: str
    content: bytes


def argv(python: str, path: str) -> list[str]:
    """What starts the agent that lies at `path`."""
    return [python, "-ISBc", STUB, path]


def _sources() -> dict[str, str]:
    files = [AGENTS / "__init__.py", AGENTS / "wire.py", *(AGENTS / "host").rglob("*.py")]
    named = {f"agents/{path.relative_to(AGENTS).as_posix()}": path.read_text(encoding="utf-8") for path in files}
    return {"start.py": START, **dict(sorted(named.items()))}


def _compiled(name: str, source: str) -> bytes:
    """A .pyc that is never checked against its source (PEP 552): both lie in the same immutable file."""
    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    unchecked_hash = b"\x01\x00\x00\x00"
    return (
        importlib.util.MAGIC_NUMBER
        + unchecked_hash
        + importlib.util.source_hash(source.encode())
        + marshal.dumps(code, MARSHAL_FORMAT)
    )


_making = threading.Lock()


def bundle() -> Bundle:
    """The agent of this version of the panel, made once: many threads ask for it when a panel has just started."""
    with _making:
        return _made()


@cache
def _made() -> Bundle:
    """Stored, not deflated: a host inflates nothing to start it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, source in _sources().items():
            archive.writestr(zipfile.ZipInfo(name + "c", EPOCH), _compiled(name, source))
            archive.writestr(zipfile.ZipInfo(name, EPOCH), source)
    content = buffer.getvalue()
    return Bundle(f"agent-{hashlib.sha256(content).hexdigest()}.pyz", content)


def written_to(folder: Path) -> Path:
    """The bundle as a file in `folder` of this machine, written once and whole."""
    made = bundle()
    path = folder / made.name
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=folder, prefix=".agent-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(made.content)
        Path(draft).chmod(0o700)
        Path(draft).replace(path)
    return path
