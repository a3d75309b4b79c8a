"""The host agent as one file, named by its content.

Reproducible: the same sources and the same Python give the same bytes, so every worker uploads the same file, once per
host. The file begins with modules compiled for the panel's Python version, used by hosts with the same version
(agents/start.py), followed by a zip archive of the sources, for any other Python from 3.8 on.

the compiled modules' Python (importlib.util.MAGIC_NUMBER, 4 bytes), the next part's length (12 digits)
    marshalled: the code of agents/start.py, and the position of each module
    the marshalled code of each module
    the zip archive
"""

from __future__ import annotations
import __future__ as future

import ast
import hashlib
import importlib.util
import io
import marshal
import os
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType
from typing import IO, cast

AGENTS = Path(__file__).resolve().parents[2] / "agents"
# Constant text; the archive's path is its argument. Running the archive itself would import `runpy`, which costs more
# than the agent's own imports.
STUB = (
    "import sys, marshal, posix; archive = posix.open(sys.argv[1], posix.O_RDONLY); head = posix.read(archive, 16); "
    "same = head[:4] == sys.modules['_frozen_importlib_external'].MAGIC_NUMBER; size = 16 + int(head[4:]); "
    "code, modules = marshal.loads(posix.read(archive, size - 16)) if same else "
    "('import os; sys.path.insert(0, os.path.abspath(sys.argv[1])); import start', {}); exec(code); "
    "begin(archive, size, modules)"
)
NOT_THERE = "FileNotFoundError"  # Python's error message for a missing archive
START = """\
import sys

if sys.version_info < (3, 8):
    sys.exit("Python 3.8 or newer is needed, this is %d.%d." % sys.version_info[:2])

from agents.host.main import main

main()
"""
PART_BYTES = 1 << 16
EPOCH = (1980, 1, 1, 0, 0, 0)
# Format 2 has no back-references, which depend on reference counts and would make the bytes unreproducible. Python 3.14
# has constants that format 2 cannot hold.
MARSHAL_FORMAT = 2 if sys.version_info < (3, 14) else marshal.version


@dataclass(frozen=True)
class Bundle:
    """The bundle. `name` is agent-<SHA-256 of content>.pyz: 64 hexadecimal digits between fixed words."""

    name: str
    file: IO[bytes]

    def parts(self) -> Iterator[bytes]:
        """Content in pieces from an unnamed file, so that no process keeps it in memory, and fifty concurrent uploads
        do not hold fifty copies.
        """
        at = 0
        while part := os.pread(self.file.fileno(), PART_BYTES, at):
            yield part
            at += len(part)

    @property
    def content(self) -> bytes:
        return b"".join(self.parts())


def argv(python: str, path: str) -> list[str]:
    """Arguments that start the agent at `path`."""
    return [python, "-ISBc", STUB, path]


def _sources() -> dict[str, str]:
    files = [AGENTS / "__init__.py", AGENTS / "wire.py", *(AGENTS / "host").rglob("*.py")]
    named = {f"agents/{path.relative_to(AGENTS).as_posix()}": path.read_text(encoding="utf-8") for path in files}
    return dict(sorted(named.items()))


def _compiled(name: str, source: str) -> CodeType:
    """Compiled code without docstrings and the import of `annotations`, which a flag replaces."""
    tree = ast.parse(source, name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [part for part in node.body if not _is_for_people(part)] or [ast.Pass(lineno=1, col_offset=0)]
    flags = future.annotations.compiler_flag
    return cast(CodeType, compile(tree, name, "exec", flags=flags, dont_inherit=True, optimize=0))


def _is_for_people(part: ast.stmt) -> bool:
    if isinstance(part, ast.ImportFrom):
        return part.module == "__future__"
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)


def _compiled_first(sources: Mapping[str, str]) -> bytes:
    """Beginning of the archive with the compiled modules."""
    index: dict[str, tuple[bool, int, int]] = {}
    codes = b""
    for path, source in sources.items():
        folder, _, file = path.removesuffix(".py").rpartition("/")
        is_package = file == "__init__"
        code = marshal.dumps(_compiled(path, source), MARSHAL_FORMAT)
        name = (folder if is_package else f"{folder}/{file}").replace("/", ".")
        index[name] = (is_package, len(codes), len(code))
        codes += code
    start = _compiled("agents/start.py", (AGENTS / "start.py").read_text(encoding="utf-8"))
    head = marshal.dumps((start, index), MARSHAL_FORMAT)
    return importlib.util.MAGIC_NUMBER + b"%12d" % len(head) + head + codes


_making = threading.Lock()


def bundle() -> Bundle:
    """The agent of this panel version, built once even if many threads request it at the start."""
    with _making:
        return _made()


@cache
def _made() -> Bundle:
    """Build the bundle, uncompressed, so that hosts need not decompress it."""
    sources = _sources()
    buffer = io.BytesIO()
    buffer.write(_compiled_first(sources))
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, source in {"start.py": START, **sources}.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), source)
    content = buffer.getvalue()
    file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process lives
    file.write(content)
    file.flush()
    return Bundle(f"agent-{hashlib.sha256(content).hexdigest()}.pyz", file)


def written_to(folder: Path) -> Path:
    """The bundle as a file in `folder` of this machine, written once and atomically."""
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
