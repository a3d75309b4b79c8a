"""Access files safely if other accounts may change the folders around them.

Root and the agent's account are trusted. Files that only they can write are safe; any other file may be replaced by a
link, a FIFO or another file between two system calls. So a folder is opened once and then used by its descriptor, links
of other accounts are not followed, and files to be trusted or run must be writable only by trusted accounts
(docs/decisions/0203-files-beside-other-accounts.md).
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from typing import Iterable, Tuple

from agents.host.errors import Refusal

Writer = Tuple[str, int, str]  # "user", "group" or "everybody", its id, and the folder or file

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: do not block on a FIFO in place of a file; O_NOCTTY: do not adopt a terminal.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_LINKS = 40
MAX_DEPTH = 200
_TRIES = 20
MAX_FILE = 64 * 1024 * 1024
_NOBODY: frozenset[int] = frozenset()

_known: set[tuple[int, ...]] = set()  # folders already verified as writable only by trusted accounts
_groups: dict[int, bool] = {}


def is_trusted(uid: int, also: Iterable[int] = _NOBODY) -> bool:
    return uid == 0 or uid == os.geteuid() or uid in also


def _is_trusted_group(gid: int, also: Iterable[int]) -> bool:
    """Return whether all members of a group are trusted accounts, as is usual for the group `staff`."""
    if gid == 0:
        return True
    if gid not in _groups:
        try:
            members = [pwd.getpwnam(name).pw_uid for name in grp.getgrgid(gid).gr_mem]
        except KeyError:
            members = []
        members += [entry.pw_uid for entry in pwd.getpwall() if entry.pw_gid == gid]
        _groups[gid] = all(is_trusted(uid, also) for uid in members)
    return _groups[gid]


def _writers(info: os.stat_result, path: str, also: Iterable[int]) -> list[Writer]:
    """Return the untrusted accounts that, by owner and mode in `info`, can write to the file or folder `path`."""
    found = [] if is_trusted(info.st_uid, also) else [("user", info.st_uid, path)]
    if info.st_mode & 0o020 and not _is_trusted_group(info.st_gid, also):
        found.append(("group", info.st_gid, path))
    if info.st_mode & 0o002:
        found.append(("everybody", 0, path))
    return found


def _keeps(folder: os.stat_result, entry: os.stat_result, also: Iterable[int]) -> bool:
    """Return whether only trusted accounts can rename or remove `entry` of `folder`, although other accounts can write
    to the folder.

    The folder must be like /tmp, with the sticky bit, and both the folder and the entry must belong to trusted
    accounts.
    """
    return bool(folder.st_mode & stat.S_ISVTX) and is_trusted(folder.st_uid, also) and is_trusted(entry.st_uid, also)


def writers(folder: int, path: str, also: Iterable[int] = _NOBODY) -> list[Writer]:
    """Return the untrusted accounts that can change the open folder `path`, or replace one of its parents."""
    info = os.fstat(folder)
    key = (info.st_dev, info.st_ino, info.st_ctime_ns, info.st_mode, info.st_uid, info.st_gid)
    if key in _known:
        return []
    found, inner, up = _writers(info, path, also), info, ".."
    while True:
        above = os.stat(up, dir_fd=folder)
        if (above.st_dev, above.st_ino) == (inner.st_dev, inner.st_ino):
            break
        path = os.path.dirname(path)
        found += [] if _keeps(above, inner, also) else _writers(above, path, also)
        inner, up = above, up + "/.."
    if not found and not also:
        _known.add(key)
    return found


def require_own(folder: int, path: str, also: Iterable[int] = _NOBODY) -> None:
    """Raise Refusal unless only trusted accounts can change the open folder `path`. Accounts in `also`
    are trusted too.
    """
    found = writers(folder, path, also)
    if found:
        raise refusal(found[0], path)


def refusal(writer: Writer, path: str) -> Refusal:
    kind, number, place = writer
    words = "%s can be changed by %s" % (place, _named(kind, number))
    if place != path:
        words = "%s is in %s" % (path, words.replace(" can be", ", which can be", 1))
    return Refusal(
        "refused",
        (
            "%s, so the agent does not use it. On the host, let only the agent's account write to it: chown %s %s && "
            "chmod go-w %s"
        )
        % (words, _named("user", os.geteuid(), ""), place, place),
        path=path,
    )


def _named(kind: str, number: int, before: str = "the account ") -> str:
    if kind == "everybody":
        return "every account"
    try:
        if kind == "group":
            return "the group %s" % grp.getgrgid(number).gr_name
        return before + pwd.getpwuid(number).pw_name
    except KeyError:
        return "%s%d" % ("the group " if kind == "group" else before, number)


def true_path(path: str, also: Iterable[int] = _NOBODY, *, for_files: bool = False) -> str:
    """Return the absolute `path` without symbolic links.

    Raises FileNotFoundError for a missing part, and Refusal if untrusted accounts can change any part of the path, so
    that a returned path stays valid until use. With `for_files`, the path may be a folder like /tmp, with the sticky
    bit.
    """
    parts, at, links = path.split("/")[::-1], "", 0
    above = os.lstat("/")
    while parts:
        part = parts.pop()
        if part in ("", "."):
            continue
        if part == "..":
            at = os.path.dirname(at) if at != "/" else ""
            above = os.lstat(at or "/")
            continue
        here = "%s/%s" % (at, part)
        info = os.lstat(here)
        in_shared = bool(_writers(above, at or "/", also))
        if in_shared and not _keeps(above, info, also):
            raise refusal(_writers(above, at or "/", also)[0], path)
        if stat.S_ISLNK(info.st_mode):
            links += 1
            if links > MAX_LINKS:
                raise Refusal("refused", "%s contains too many symbolic links" % path, path=path)
            target = os.readlink(here)
            parts += target.split("/")[::-1]
            if target.startswith("/"):
                at, above = "", os.lstat("/")
            continue
        at, above = here, info
    found = _writers(above, at or "/", also)
    if found and not (for_files and above.st_mode & stat.S_ISVTX and is_trusted(above.st_uid)):
        raise refusal(found[0], path)
    return at or "/"


def temporary_folder() -> str:
    """Return the folder in which to create private temporary folders: TMPDIR, or /tmp. Raise Refusal if other accounts
    could replace entries there.
    """
    path = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - checked, and only for names made by mkdtemp(3)
    return true_path(path, for_files=True)


def new_private_folder(prefix: str) -> tuple[str, int]:
    """Create a folder for this account only, like mkdtemp(3), in `temporary_folder`; return its path and descriptor.

    Raises OSError if all tried names exist.
    """
    base = temporary_folder()
    above = os.open(base, FOLDER)
    try:
        for number in range(_TRIES, -1, -1):
            name = prefix + os.urandom(8).hex()
            try:
                return os.path.join(base, name), new_folder(name, above, 0o700)
            except FileExistsError:
                if not number:
                    raise
    finally:
        os.close(above)
    raise AssertionError


def open_regular(name: str, folder: int, path: str) -> int:
    """Return a descriptor of the regular file `name` in the open folder `folder`, for reading. `path` is the file's
    path, for messages.

    Raises OSError if the file cannot be opened. Raises Refusal if it is not a regular file, or if an account that
    cannot read the file could have put it there by a hard link.
    """
    descriptor = os.open(name, READ, dir_fd=folder)
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise Refusal("refused", "%s is not a regular file" % path, path=path)
        require_readable_by(writers(folder, os.path.dirname(path)), descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def require_readable_by(found: list[Writer], descriptor: int, path: str) -> None:
    """Raise Refusal unless each account in `found` can read the open file itself. `found` are the accounts that control
    to which file `path` leads.
    """
    info = os.fstat(descriptor)
    for writer in found:
        if not _may_read(writer, info):
            raise Refusal(
                "refused",
                (
                    "the agent does not read %s: %s can write to the folder, but may not read the file, which could be "
                    "a link to another file. Allow reading the file, or forbid writing to the folder."
                )
                % (path, _named(writer[0], writer[1])),
                path=path,
            )


def leaders(path: str) -> list[Writer]:
    """Return the untrusted accounts that control to which file a path leads.

    These accounts can change the last folder, or a folder that contains a symbolic link on the way.
    """
    found: list[Writer] = []
    parts, at, links = path.split("/")[::-1], os.open("/", os.O_PATH | os.O_DIRECTORY), 0
    try:
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            inner = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            is_link = stat.S_ISLNK(os.fstat(inner).st_mode)
            if is_link or not parts:
                found += writers(at, os.path.dirname(path))
            if is_link:
                target = os.readlink("", dir_fd=inner)
                os.close(inner)
                links += 1
                if links > MAX_LINKS:
                    raise Refusal("refused", "%s contains too many symbolic links" % path, path=path)
                parts += target.split("/")[::-1]
                if not target.startswith("/"):
                    continue
                inner = os.open("/", os.O_PATH | os.O_DIRECTORY)
            os.close(at)
            at = inner
    finally:
        os.close(at)
    return found


def _may_read(writer: Writer, info: os.stat_result) -> bool:
    kind, number, _place = writer
    if info.st_mode & 0o004:
        return True
    if kind == "user":
        return info.st_uid == number
    return kind == "group" and info.st_gid == number and bool(info.st_mode & 0o040)


def content(descriptor: int, limit: int = MAX_FILE) -> bytes:
    """Return the content of an open file, at most `limit` bytes."""
    parts: list[bytes] = []
    while limit > 0:
        part = os.read(descriptor, min(limit, 1 << 20))
        if not part:
            break
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def write_new(name: str, folder: int, data: bytes, mode: int, owner: tuple[int, int] | None = None) -> None:
    """Write a new file. It belongs to `owner` (uid, gid), or to the agent's account if that is None. Raises OSError,
    for example if the file exists.
    """
    descriptor = os.open(name, NEW, 0o600, dir_fd=folder)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        if owner is not None:
            os.fchown(descriptor, *owner)
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def new_folder(name: str, folder: int, mode: int, owner: tuple[int, int] | None = None) -> int:
    """Create a folder below an open folder, and return its descriptor. Raise Refusal if another account replaced the
    new folder meanwhile.
    """
    os.mkdir(name, 0o700, dir_fd=folder)
    descriptor = os.open(name, FOLDER, dir_fd=folder)
    if os.fstat(descriptor).st_uid != os.geteuid():
        os.close(descriptor)
        raise Refusal(
            "refused", ("the folder %s was replaced by a folder of another account while the agent created it") % name
        )
    if owner is not None:
        os.fchown(descriptor, *owner)
    os.fchmod(descriptor, mode)
    return descriptor


def discard(path: str) -> None:
    """Remove a private folder that the agent created, without following links. Entries that cannot be removed stay."""
    above = os.open(os.path.dirname(path), FOLDER)
    try:
        remove_tree(os.path.basename(path), above)
    finally:
        os.close(above)


def remove_tree(name: str, folder: int) -> None:
    """Remove a file, or a folder with its contents, without following links. Entries that cannot be removed stay."""
    try:
        os.unlink(name, dir_fd=folder)
        return
    except FileNotFoundError:
        return
    except OSError:
        pass  # it is a folder
    try:
        inner = os.open(name, FOLDER, dir_fd=folder)
    except OSError:
        return
    try:
        _empty(inner, MAX_DEPTH)
        os.rmdir(name, dir_fd=folder)
    except OSError:
        return
    finally:
        os.close(inner)


def _empty(folder: int, depth: int) -> None:
    for name in os.listdir(folder):
        try:
            os.unlink(name, dir_fd=folder)
            continue
        except OSError:
            pass
        if depth:
            inner = os.open(name, FOLDER, dir_fd=folder)
            try:
                _empty(inner, depth - 1)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=folder)
