"""Archives of a site's files: zip and tar archives are checked and rewritten as tar.gz. Pure: no files or database.

The new archive has files, folders, and links that do not lead outside the archive. An archive with anything else is
rejected as a whole, so that nothing is published in part.
"""

from __future__ import annotations

import lzma
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

from django.utils.translation import gettext as _

from panel.core.errors import ApplicationError

MIB = 1024 * 1024
MAX_UPLOAD_BYTES = 64 * MIB
MAX_PACKED_BYTES = 128 * MIB
MAX_UNPACKED_BYTES = 1024 * MIB
MAX_FILES = 50_000
MAX_DEPTH = 60
_JUNK = re.compile(r"(^|/)(\.git|\.svn|\.hg|__MACOSX)(/|$)|(^|/)(\.DS_Store|Thumbs\.db)$")
_SECRET = re.compile(
    r"(^|/)(\.env(\..*)?|\.htpasswd|id_rsa|id_ed25519|[^/]+\.(pem|key|sql|sqlite3?|bak))$", re.IGNORECASE
)
_MOST_NOTED = 5
_ERRORS = (
    *(zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, lzma.LZMAError),
    *(zlib.error, NotImplementedError, RuntimeError, UnicodeError, ValueError),
)


@dataclass(frozen=True)
class Entry:
    """A file, folder or link of an archive, independent of its format."""

    name: str
    is_folder: bool = False
    target: str = ""  # of a link
    size: int = 0
    is_executable: bool = False
    index: object = None


@dataclass
class Packed:
    """Result of writing a release's archive: the number and size of its files.
    `notes` are about files whose names should not be public.
    """

    files: int = 0
    unpacked_bytes: int = 0
    notes: list[str] = field(default_factory=list)


def packed(source: IO[bytes], target: IO[bytes], folder: str = "") -> Packed:
    """Write the files below `folder` of a zip or tar archive to `target` as tar.gz; return their number and size.

    If one top folder contains all files, as in downloads from GitHub, names are written without this folder. Raises
    ApplicationError at the field `archive` or `folder` if the archive is rejected.
    """
    source.seek(0)
    try:
        reader = _Zip(source) if source.read(4) == b"PK\x03\x04" else _Tar(source)
        return _written(reader, target, _prefix(reader.entries, _plain_folder(folder)))
    except ApplicationError:
        raise
    except _ERRORS as error:
        raise refused(
            _("The archive cannot be read as a zip or tar archive (%s). Create the archive again.")
            % str(error).split("\n")[0][:200]
        ) from error


def refused(words: str, where: str = "archive") -> ApplicationError:
    return ApplicationError(words, field=where)


def _plain_folder(folder: str) -> str:
    parts = [part for part in folder.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ApplicationError(_("Enter a folder inside the archive, for example dist."), field="folder")
    return "/".join(parts)


class _Zip:
    def __init__(self, source: IO[bytes]) -> None:
        source.seek(0)
        self._archive = zipfile.ZipFile(source)
        self.entries = checked(self._read())

    def _read(self) -> Iterator[Entry]:
        for info in self._archive.infolist():
            mode = info.external_attr >> 16
            kind = stat.S_IFMT(mode)
            name = info.filename.replace("\\", "/")
            if info.is_dir() or name.endswith("/"):
                yield Entry(name, is_folder=True)
            elif kind == stat.S_IFLNK:
                if info.file_size > 4096:
                    raise refused(
                        _(
                            "The archive contains a symbolic link with a target of more than 4,096 bytes. "
                            "Remove the link."
                        )
                    )
                yield Entry(name, target=self._archive.read(info).decode())
            elif kind in (0, stat.S_IFREG):
                yield Entry(name, size=info.file_size, is_executable=bool(mode & 0o100), index=info)
            else:
                raise _strange(name)

    def opened(self, entry: Entry) -> IO[bytes]:
        assert isinstance(entry.index, zipfile.ZipInfo)
        return self._archive.open(entry.index)


class _Tar:
    def __init__(self, source: IO[bytes]) -> None:
        source.seek(0)
        self._archive = tarfile.open(fileobj=source, mode="r:*")  # noqa: SIM115 - read until the new archive is written
        self.entries = checked(self._read())

    def _read(self) -> Iterator[Entry]:
        for member in self._archive:
            if member.isdir():
                yield Entry(member.name, is_folder=True)
            elif member.issym():
                yield Entry(member.name, target=member.linkname)
            elif member.isreg():
                yield Entry(member.name, size=member.size, is_executable=bool(member.mode & 0o100), index=member)
            elif member.type not in (tarfile.XGLTYPE, tarfile.XHDTYPE):
                raise _strange(member.name)

    def opened(self, entry: Entry) -> IO[bytes]:
        assert isinstance(entry.index, tarfile.TarInfo)
        found = self._archive.extractfile(entry.index)
        assert found is not None
        return found


def _strange(name: str) -> ApplicationError:
    return refused(
        _("The archive contains %s, which is neither a file, a folder, nor a symbolic link. Remove this entry.")
        % repr(name[:100])
    )


def checked(entries: Iterator[Entry]) -> dict[str, Entry]:
    """Check the entries of an archive; return {normalized name: entry}, or raise ApplicationError.

    Names must not occur twice or point outside the archive. The number of entries and the sizes that they announce are
    limited before anything is unpacked.
    """
    found: dict[str, Entry] = {}
    size = 0
    for entry in entries:
        name = _plain(entry.name)
        size += entry.size
        if len(found) >= MAX_FILES or size > MAX_UNPACKED_BYTES:
            most = {"files": f"{MAX_FILES:,}", "mib": MAX_UNPACKED_BYTES // MIB}
            raise refused(
                _(
                    "The archive has more than %(files)s entries or more than %(mib)s MiB when unpacked. "
                    "Leave out files."
                )
                % most
            )
        if not name or _JUNK.search(name):
            continue
        if entry.target:
            _check_link(name, entry.target)
        if name in found and not (found[name].is_folder and entry.is_folder):
            raise refused(_("The archive contains %s twice. Remove one of the two entries.") % repr(name[:100]))
        found[name] = entry
    files = {name for name, entry in found.items() if not entry.is_folder}
    for name in found:
        parts = name.split("/")
        if any("/".join(parts[:count]) in files for count in range(1, len(parts))):
            raise refused(
                _("The archive contains %s below a path that is a file or a symbolic link. Correct the archive.")
                % repr(name[:100])
            )
    return found


def _plain(name: str) -> str:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    is_bad = name.startswith("/") or ".." in parts or len(parts) > MAX_DEPTH
    if is_bad or any(ord(character) < 32 or 0xD800 <= ord(character) < 0xE000 for character in name):
        raise refused(
            _(
                "The archive contains an entry that points outside the archive or has an invalid name: %s. Remove "
                "this entry."
            )
            % repr(name[:100])
        )
    if any(len(part.encode()) > 255 for part in parts) or len(name.encode()) > 2000:
        raise refused(_("The archive contains a name that is too long: %s. Shorten the name.") % repr(name[:100]))
    return "/".join(parts)


def _check_link(name: str, target: str) -> None:
    depth = name.count("/")
    for part in target.split("/"):
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 0:
            break
    if depth < 0 or target.startswith("/") or not target.isprintable() or len(target) > 1000:
        raise refused(
            _("The archive contains a symbolic link that points outside the archive: %s. Remove the link.")
            % repr(name[:100])
        )


def _prefix(entries: dict[str, Entry], folder: str) -> str:
    """Return the folder of the archive whose files to publish, with a final slash; "" for the whole archive.

    `folder` is the folder that the user chose. Raises ApplicationError if no file is in the folder.
    """
    tops = {name.split("/")[0] for name in entries}
    only = next(iter(tops)) if len(tops) == 1 else ""
    base = f"{only}/" if only and (only not in entries or entries[only].is_folder) else ""
    wanted = [f"{base}{folder}/", f"{folder}/"] if folder else [base]
    for prefix in wanted:
        if any(name.startswith(prefix) and not entry.is_folder for name, entry in entries.items()):
            return prefix
    if folder:
        folders = sorted({name[len(base) :].split("/")[0] for name in entries if "/" in name[len(base) :]})
        words = _("The archive has no files in the folder %(folder)s. Choose one of the folders %(folders)s.")
        shown = ", ".join(folders[:10]) or "–"
        raise ApplicationError(words % {"folder": folder, "folders": shown}, field="folder")
    raise refused(_("The archive contains no files."))


def _written(reader: _Zip | _Tar, target: IO[bytes], prefix: str) -> Packed:
    result = Packed()
    secrets = []
    with tarfile.open(fileobj=target, mode="w:gz", compresslevel=6, format=tarfile.PAX_FORMAT) as archive:
        for name, entry in reader.entries.items():
            if not name.startswith(prefix):
                continue
            info = tarfile.TarInfo(name[len(prefix) :])
            if not info.name:
                continue
            _add(archive, info, entry, reader, result)
            if not entry.is_folder and _SECRET.search(info.name):
                secrets.append(info.name)
            if target.tell() > MAX_PACKED_BYTES:
                raise refused(
                    _("The archive has more than %d MiB when compressed. Leave out files.") % (MAX_PACKED_BYTES // MIB)
                )
    if secrets:
        shown = ", ".join(secrets[:_MOST_NOTED])
        result.notes.append(_("Visitors could request these files unless a location denies them: %s.") % shown)
    return result


def _add(archive: tarfile.TarFile, info: tarfile.TarInfo, entry: Entry, reader: _Zip | _Tar, result: Packed) -> None:
    if entry.is_folder:
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(info)
        return
    result.files += 1
    if entry.target:
        info.type, info.linkname = tarfile.SYMTYPE, entry.target
        archive.addfile(info)
        return
    info.size, info.mode = entry.size, 0o755 if entry.is_executable else 0o644
    with reader.opened(entry) as file:
        archive.addfile(info, file)  # raises for fewer bytes than announced, and reads no more
    result.unpacked_bytes += entry.size
