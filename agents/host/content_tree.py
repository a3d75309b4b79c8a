"""Trees of published files: unpack them from an archive, list them, and compare them with their records.

Folders are walked by descriptor, without following links, because a site's account may own their content.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tarfile
from typing import IO, Any, Collection, Dict, List, Tuple

from agents.host import safe
from agents.host.errors import Refusal

MOST_FILES = 100_000
MOST_BYTES = 4 * 1024**3
MAX_DEPTH = 100
_CHUNK = 1 << 20

Files = Dict[str, List[int]]  # relative path -> [size, mtime in ns]; of a link, its own


def unpack(archive: IO[bytes], tree: int, owner: Tuple[int, int] | None) -> None:
    """Unpack files, folders and links of a tar.gz archive into an open, empty folder. With `owner`, they belong to
    this account.

    Raises OSError. Raises Refusal for entries of other types, for names that lead outside the folder, and above
    MOST_FILES or MOST_BYTES.
    """
    count = size = 0
    with tarfile.open(fileobj=archive, mode="r:gz") as members:
        for member in members:
            count, size = count + 1, size + member.size
            if count > MOST_FILES or size > MOST_BYTES:
                raise Refusal("refused", "the archive has more than %d files or %d bytes" % (MOST_FILES, MOST_BYTES))
            parts = _parts(member.name)
            if not parts:
                continue
            folder = _made(tree, parts[:-1], owner)
            try:
                _write(members, member, parts[-1], folder, owner)
            finally:
                os.close(folder)


def _write(
    members: tarfile.TarFile, member: tarfile.TarInfo, name: str, folder: int, owner: Tuple[int, int] | None
) -> None:
    if member.isdir():
        os.close(_made(folder, [name], owner))
    elif member.issym():
        _parts(member.name, member.linkname)
        os.symlink(member.linkname, name, dir_fd=folder)
        if owner is not None:
            os.chown(name, *owner, dir_fd=folder, follow_symlinks=False)
    elif member.isreg():
        source = members.extractfile(member)
        assert source is not None
        _copy(source, name, folder, 0o755 if member.mode & 0o100 else 0o644, owner)
    else:
        raise Refusal("refused", "the archive has an entry that is neither a file, a folder, nor a symbolic link")


def _copy(source: IO[bytes], name: str, folder: int, mode: int, owner: Tuple[int, int] | None) -> None:
    descriptor = os.open(name, safe.NEW, 0o600, dir_fd=folder)
    with open(descriptor, "wb", buffering=0) as sink:
        while True:
            part = source.read(_CHUNK)
            if not part:
                break
            left = memoryview(part)
            while left:
                left = left[sink.write(left) :]
        if owner is not None:
            os.fchown(descriptor, *owner)
        os.fchmod(descriptor, mode)


def _parts(name: str, link: str | None = None) -> List[str]:
    """Split an archive entry's name into its path segments. Raise Refusal if the name leads outside the unpacked
    folder, or if the target of the entry does (`link`, for a symbolic link).
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    target = parts[:-1] + link.split("/") if link is not None else parts
    depth = 0
    for part in target:
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 0 or (part == ".." and link is None):
            raise Refusal("refused", "the archive has an entry that points outside the folder: %r" % name[:200])
    if name.startswith("/") or (link or "").startswith("/") or len(parts) > MAX_DEPTH or "\0" in name:
        raise Refusal("refused", "the archive has an entry that points outside the folder: %r" % name[:200])
    return parts


def _made(folder: int, parts: List[str], owner: Tuple[int, int] | None) -> int:
    """Open the folder `parts` below an open folder, and create missing folders on the way; return its descriptor."""
    at = os.dup(folder)
    for part in parts:
        try:
            inner = safe.new_folder(part, at, 0o755, owner)
        except FileExistsError:
            inner = os.open(part, safe.FOLDER, dir_fd=at)
        os.close(at)
        at = inner
    return at


def listed(tree: int, without: Collection[str] = ()) -> Files:
    """Return {relative path: [size, mtime in ns]} of all files and links below an open folder, except the paths in
    `without`. Raise Refusal for more than MOST_FILES.
    """
    found: Files = {}
    _list(tree, "", found, MAX_DEPTH, without)
    return found


def _list(folder: int, before: str, found: Files, depth: int, without: Collection[str]) -> None:
    for name in os.listdir(folder):
        path = before + name
        if path in without:
            continue
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode) and depth:
                inner = os.open(name, safe.FOLDER, dir_fd=folder)
                try:
                    _list(inner, path + "/", found, depth - 1, without)
                finally:
                    os.close(inner)
                continue
        except FileNotFoundError:
            continue  # removed meanwhile
        found[path] = [info.st_size, info.st_mtime_ns]
        if len(found) > MOST_FILES:
            raise Refusal("refused", "the folder has more than %d files" % MOST_FILES)


def digest(tree: int, path: str) -> str:
    """Return the SHA-256 of a file below an open folder; "" for anything but a regular file."""
    folder = opened(tree, path.split("/")[:-1])
    try:
        descriptor = os.open(path.rpartition("/")[2], safe.READ, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return ""
            return hashlib.sha256(safe.content(descriptor)).hexdigest()
        finally:
            os.close(descriptor)
    except OSError:
        return ""
    finally:
        os.close(folder)


def move(path: str, source: int, target: int) -> None:
    """Move a file or folder from one open tree to the same path in another tree, where it replaces an existing entry.

    If the first tree does not have the path, do nothing. Raises OSError if the containing folder in the other tree
    cannot be created.
    """
    parts = path.split("/")
    try:
        above = opened(source, parts[:-1])
    except OSError:
        return
    try:
        os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
        there = _made(target, parts[:-1], None)
        try:
            safe.remove_tree(parts[-1], there)
            os.rename(parts[-1], parts[-1], src_dir_fd=above, dst_dir_fd=there)
        finally:
            os.close(there)
    except FileNotFoundError:
        return
    finally:
        os.close(above)


def has(tree: int, path: str) -> bool:
    """Return whether the open tree has a file, folder or link at this path."""
    parts = path.split("/")
    try:
        above = opened(tree, parts[:-1])
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        return False
    finally:
        os.close(above)
    return True


def opened(tree: int, parts: List[str]) -> int:
    """Open the folder `parts` below an open folder without following links; return its descriptor."""
    at = os.dup(tree)
    for part in parts:
        try:
            inner = os.open(part, safe.FOLDER, dir_fd=at)
        finally:
            os.close(at)
        at = inner
    return at


def identity(tree: int) -> List[int]:
    """Return device and inode of an open folder, which stay the same when the folder is renamed."""
    info = os.fstat(tree)
    return [info.st_dev, info.st_ino]


def manifest(tree: int) -> bytes:
    """Return the record of a published tree as JSON: its identity, and its files as in `listed`."""
    return json.dumps({"identity": identity(tree), "files": listed(tree)}).encode()


def recorded(record: bytes) -> Dict[str, Any]:
    """Parse a record that `manifest` returned; {} if `record` is empty or damaged."""
    try:
        found = json.loads(record)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
