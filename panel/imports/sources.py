"""Find configuration files on a host, through its agent, or in an uploaded archive, which is read in memory."""

from __future__ import annotations

import bz2
import fnmatch
import gzip
import hashlib
import io
import lzma
import posixpath
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from panel.core.errors import ApplicationError
from panel.imports.reading import SourceFile, is_pattern
from panel.remote.pool import Session

READ_TIMEOUT_S = 30.0
# Folders in which distributions and admins keep included files. The agent follows links only within these.
READ_ROOTS = ("/etc", "/usr", "/opt", "/srv", "/home", "/var/lib", "/var/www", "/root/.acme.sh")
MAX_ARCHIVE_BYTES = 16 * 1024 * 1024
MAX_FILE_BYTES = 1024 * 1024
MAX_TOTAL_BYTES = 32 * 1024 * 1024
MAX_UNPACKED_BYTES = 64 * 1024 * 1024
MAX_ENTRIES = 5000
MAX_LINKS = 8
MAINS = {
    "nginx": ("nginx.conf",),
    "native": ("gallop.conf", "nginx.conf"),
    "apache": ("apache2.conf", "httpd.conf"),
    "openlitespeed": ("httpd_config.conf",),
}
_PACKED: dict[bytes, Callable[[io.BytesIO], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
}
USUAL_ROOTS = {
    "nginx": ("/etc/nginx", "/usr/local/nginx/conf"),
    "native": ("/etc/nginx",),
    "apache": ("/etc/apache2", "/etc/httpd"),
    "openlitespeed": ("/usr/local/lsws",),
}


class HostFiles:
    """Reader of one host's configuration files, through its agent; each pattern is requested once. `roots`: folders
    that may be read in addition to READ_ROOTS.
    """

    def __init__(self, agent: Session, roots: Iterable[str]) -> None:
        self.agent = agent
        self.roots = sorted({*READ_ROOTS, *roots} - {"", "/"})
        self.skipped: dict[str, str] = {}
        self._known: dict[str, list[SourceFile]] = {}

    def find(self, pattern: str) -> list[SourceFile]:
        """Return the files on the host that match a path or pattern. Raises RemoteError."""
        if pattern not in self._known:
            args = {"patterns": [pattern], "roots": self.roots}
            answer = self.agent.call("read", args, timeout=READ_TIMEOUT_S)
            self.skipped |= {item["path"]: item["why"] for item in answer["skipped"]}
            self._known[pattern] = [_source(item) for item in answer["files"]]
        return self._known[pattern]


def _source(item: dict[str, object]) -> SourceFile:
    text, real = str(item["text"]), str(item["real"])
    exact = hashlib.sha256(text.encode()).hexdigest() == item["sha256"]
    mode = item["mode"] if isinstance(item["mode"], int) else 0o644
    link = str(item["link"])
    path = str(item["path"])
    # The real path also differs for a file below a linked folder.
    return SourceFile(path, text, real if real != path else "", link, mode & 0o777, exact)


@dataclass(frozen=True)
class _Entry:
    data: bytes = b""
    link: str = ""


class UploadedFiles:
    """Files of an archive, found by the paths that they have on a host. `main` is the path of the main file; "" if the
    archive has no main file, and each file is read as a configuration of its own.
    """

    def __init__(self, engine: str, filename: str, data: bytes) -> None:
        self.engine = engine
        self.entries = _entries(filename, data)
        names = [name for name in self.entries if posixpath.basename(name) in MAINS[engine]]
        self.main = min(names, key=lambda name: (name.count("/"), name), default="")
        self.root = posixpath.dirname(self.main) if self.main else "/"
        if engine == "openlitespeed" and self.root.endswith("/conf"):
            self.root = posixpath.dirname(self.root)

    def find(self, pattern: str) -> list[SourceFile]:
        found = self._named(pattern)
        for usual in USUAL_ROOTS[self.engine]:
            if not found and (pattern + "/").startswith(usual + "/"):
                found = self._named(posixpath.normpath(self.root + pattern[len(usual) :]))
        return found

    def all(self) -> list[SourceFile]:
        """Return all text files of the archive, in order of name."""
        found = [self._file(name) for name in sorted(self.entries) if not self.entries[name].link]
        return [file for file in found if file is not None and "\0" not in file.text]

    def _named(self, pattern: str) -> list[SourceFile]:
        if is_pattern(pattern):
            depth = pattern.count("/")
            names = [name for name in self.entries if name.count("/") == depth and fnmatch.fnmatchcase(name, pattern)]
        elif pattern in self.entries:
            names = [pattern]
        else:
            names = [name for name in self.entries if name.startswith(pattern.rstrip("/") + "/")]
        found = [self._file(name) for name in sorted(names)]
        return [file for file in found if file is not None]

    def _file(self, name: str) -> SourceFile | None:
        """Return the file with a name, following links within the archive; None if there is none."""
        place, entry = name, self.entries.get(name)
        for _step in range(MAX_LINKS):
            if entry is None or not entry.link:
                break
            place = posixpath.normpath(posixpath.join(posixpath.dirname(place), entry.link))
            entry = self.entries.get(place)
        if entry is None or entry.link:
            return None
        return SourceFile(name, entry.data.decode("utf-8", "replace"), place if place != name else "")


def _entries(filename: str, data: bytes) -> dict[str, _Entry]:
    """Unpack an archive in memory; return its files and links by absolute names. Raises ApplicationError."""
    if len(data) > MAX_ARCHIVE_BYTES:
        raise _refused(
            f"The archive is larger than {MAX_ARCHIVE_BYTES // 1024**2} MiB. Leave out files that are "
            "not configuration."
        )
    read = _zip if data[:4] == b"PK\x03\x04" else _tar
    found: dict[str, _Entry] = {}
    total = 0
    try:
        for name, entry in read(data):
            total += len(entry.data)
            if len(found) >= MAX_ENTRIES or total > MAX_TOTAL_BYTES:
                raise _refused("The archive is too large when unpacked. Leave out files that are not configuration.")
            found[_name(name)] = entry
    except (
        zipfile.BadZipFile,
        tarfile.TarError,
        EOFError,
        OSError,
        lzma.LZMAError,
        zlib.error,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise _refused(
            f"The archive cannot be read as a zip or tar archive ({error}). Create the archive again."
        ) from error
    if not found:
        raise _refused(f"{filename or 'The archive'} contains no files. Pack the configuration folder.")
    return found


def _refused(words: str) -> ApplicationError:
    return ApplicationError(words, field="archive")


def _name(name: str) -> str:
    """Return the path of an archive entry, below /. Raises ApplicationError if the entry points outside the archive."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    if ".." in parts or name.startswith(("/", "\\")) or any(ord(character) < 32 for character in name):
        raise _refused(
            f"The archive contains an entry that points outside the archive: {name[:100]!r}. Create "
            "the archive without this entry."
        )
    return "/" + "/".join(parts)


def _zip(data: bytes) -> Iterator[tuple[str, _Entry]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            if info.file_size > MAX_FILE_BYTES:
                continue
            with archive.open(info) as file:
                content = file.read(MAX_FILE_BYTES + 1)
            is_link = (info.external_attr >> 16) & 0o170000 == 0o120000
            if len(content) <= MAX_FILE_BYTES:
                yield info.filename, _Entry(link=content.decode("utf-8", "replace")) if is_link else _Entry(content)


def _unpacked(data: bytes) -> bytes:
    """Decompress gzip, bzip2 or xz. Raises ApplicationError above MAX_UNPACKED_BYTES: 16 MiB can expand
    to terabytes.
    """
    opened = next((opener for magic, opener in _PACKED.items() if data.startswith(magic)), None)
    if opened is None:
        return data
    with opened(io.BytesIO(data)) as packed:
        found: bytes = packed.read(MAX_UNPACKED_BYTES + 1)
    if len(found) > MAX_UNPACKED_BYTES:
        raise _refused("The archive is too large when unpacked. Leave out files that are not configuration.")
    return found


def _tar(data: bytes) -> Iterator[tuple[str, _Entry]]:
    with tarfile.open(fileobj=io.BytesIO(_unpacked(data)), mode="r:") as archive:
        for count, member in enumerate(archive):
            if count > MAX_ENTRIES:
                raise _refused("The archive contains too many entries. Leave out files that are not configuration.")
            if member.issym():
                yield member.name, _Entry(link=member.linkname)
            elif member.isreg() and member.size <= MAX_FILE_BYTES:
                file = archive.extractfile(member)
                yield member.name, _Entry(file.read() if file else b"")
