"""Which files the agent may touch: those below the allowed roots, with no symbolic link on the way.

A path is checked twice: here, by resolving it, so that a refusal can name what is wrong; and when it is used, by
asking the kernel what the opened folder is called, so that nothing that changes in between can lead elsewhere.
"""

from __future__ import annotations

import os
import stat

from agents.host.errors import Refusal

MAX_PATH = 1024
STAND_PREFIX = "paddock-stand-"  # of the folders of private servers that a measurement starts and removes


def check_shape(path: object) -> str:
    """`path` itself when it is absolute and plain; Refusal otherwise."""
    if not isinstance(path, str) or not path.startswith("/") or len(path) > MAX_PATH:
        raise Refusal("invalid", "%r is not an absolute path of at most %d characters" % (path, MAX_PATH))
    if not path.isprintable() and any(ord(character) < 32 or ord(character) == 127 for character in path):
        raise Refusal("invalid", "the path %r holds control characters" % path)
    if os.path.normpath(path) != path or path.startswith("//"):
        raise Refusal("invalid", "the path %s is not written plainly (no '..', '.', '//' or '/' at its end)" % path)
    return path


def resolve_roots(roots: object) -> list[str]:
    """The allowed roots with symbolic links resolved. An empty list allows nothing, and "/" is never one."""
    if not isinstance(roots, list) or not roots:
        raise Refusal("refused", "no folder is allowed: name at least one root")
    resolved = [true_folder(check_shape(root)) for root in roots]
    if "/" in resolved:
        raise Refusal("refused", "/ cannot be an allowed root")
    return resolved


def is_below(path: str, root: str) -> bool:
    return path.startswith(root + "/")


def resolve(path: object, roots: list[str]) -> str:
    """The one true name of `path`: its folder resolved, its last part left as it is. Refusal when that lies outside
    `roots`. The folder need not be there yet."""
    plain = check_shape(path)
    folder, name = os.path.split(plain)
    true = os.path.join(true_folder(folder), name)
    if not any(is_below(true, root) for root in roots):
        where = "" if true == plain else ", which leads to %s," % true
        raise Refusal("refused", "%s%s lies outside the folders allowed on this host" % (plain, where), path=plain)
    return true


def true_folder(path: str) -> str:
    """`path` with symbolic links resolved, by the kernel where it can: os.path.realpath asks about every part."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY)
    except OSError:  # not there yet, or not a folder
        return os.path.realpath(path)
    try:
        return _name_of(descriptor) or os.path.realpath(path)
    finally:
        os.close(descriptor)


def _name_of(descriptor: int) -> str:
    """The true path of an open folder, "" when it has none any more or /proc is not there."""
    try:
        name = os.readlink("/proc/self/fd/%d" % descriptor)
    except OSError:
        return ""
    return name if name.startswith("/") and not name.endswith(" (deleted)") else ""


def open_folder(path: str) -> int:
    """A descriptor of the folder `path`, no part of which may be a symbolic link."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return _entered(path)
    if _name_of(descriptor) == path:  # what was opened bears that very name: no link led there
        return descriptor
    os.close(descriptor)
    return _entered(path)


def _entered(path: str) -> int:
    """The same part by part, which says what is in the way."""
    descriptor = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in [part for part in path.split("/") if part]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, FileNotFoundError):
            raise
        raise Refusal("refused", "%s cannot be entered without following a symbolic link" % path, path=path) from None
    return descriptor


def open_file(path: str) -> int:
    """A descriptor to read the regular file `path`; Refusal when it is anything else."""
    folder = open_folder(os.path.dirname(path))
    try:
        # O_NONBLOCK: a FIFO in place of the file must not hold the agent up.
        descriptor = os.open(
            os.path.basename(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
        )
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise Refusal("refused", "%s cannot be opened: %s" % (path, error.strerror), path=path) from None
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Refusal("refused", "%s is not a regular file" % path, path=path)
    return descriptor
