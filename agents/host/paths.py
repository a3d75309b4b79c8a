"""Which files the agent may touch: those below the allowed roots, with no symbolic link on the way.

A path is checked twice: here, by resolving it, so that a refusal can name what is wrong; and when it is used, by
asking the kernel what the opened folder is called, so that nothing that changes in between can lead elsewhere.
"""

from __future__ import annotations

import os
import stat

from agents.host import safe
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
    """`path` with symbolic links resolved, whether it is there or not. Refusal where a link leads elsewhere that others
    than root and the agent's account could have made."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY)
    except OSError:  # not there yet, or not a folder
        return _walked(path)
    try:
        if _name_of(descriptor) == path:  # what was opened bears that very name: no link led there
            return path
    finally:
        os.close(descriptor)
    return _walked(path)


def _walked(path: str) -> str:
    """The same part by part. What is missing leads nowhere else."""
    descriptor, true, parts, links = os.open("/", os.O_PATH | os.O_DIRECTORY), "", path.split("/")[::-1], 0
    try:
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            try:
                inner = os.open(part, os.O_PATH | os.O_NOFOLLOW, dir_fd=descriptor)
            except (FileNotFoundError, NotADirectoryError):
                return os.path.normpath("/".join([true, part, *parts[::-1]]))
            if stat.S_ISLNK(os.fstat(inner).st_mode):
                try:
                    target = _followed(inner, descriptor, true, part)
                finally:
                    os.close(inner)
                links += 1
                if links > safe.MAX_LINKS:
                    raise Refusal("refused", "%s leads through too many symbolic links" % path, path=path)
                parts += target.split("/")[::-1]
                if not target.startswith("/"):
                    continue
                inner, true, part = os.open("/", os.O_PATH | os.O_DIRECTORY), "", ""
            os.close(descriptor)
            descriptor = inner
            true = os.path.dirname(true).rstrip("/") if part == ".." else true + ("/" + part if part else "")
    finally:
        os.close(descriptor)
    return true or "/"


def _followed(link: int, folder: int, path: str, name: str) -> str:
    """What a symbolic link in the open folder holds. Refusal where others could have made it."""
    found = safe.writers(folder, path or "/")
    if found:
        raise Refusal(
            "refused",
            "%s/%s is a symbolic link in a folder that other accounts can change; it is not followed. Name the folder "
            "that it leads to." % (path, name),
            path=path,
        )
    return os.readlink("", dir_fd=link)


def _name_of(descriptor: int) -> str:
    """The true path of an open folder, "" when it has none any more or /proc is not there."""
    try:
        name = os.readlink("/proc/self/fd/%d" % descriptor)
    except OSError:
        return ""
    return name if name.startswith("/") and not name.endswith(" (deleted)") else ""


def open_folder(path: str, access: int = os.O_RDONLY) -> int:
    """A descriptor of the folder `path`, no part of which may be a symbolic link. With O_PATH as `access`, for names in
    it only, it need not be readable."""
    try:
        descriptor = os.open(path, access | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return _entered(path, access)
    if _name_of(descriptor) == path:  # what was opened bears that very name: no link led there
        return descriptor
    os.close(descriptor)
    return _entered(path, access)


def _entered(path: str, access: int) -> int:
    """The same part by part, which says what is in the way."""
    parts = [part for part in path.split("/") if part]
    descriptor = os.open("/", os.O_PATH | os.O_DIRECTORY if parts else access | os.O_DIRECTORY)
    try:
        for number, part in enumerate(parts, 1):
            flags = (access if number == len(parts) else os.O_PATH) | os.O_DIRECTORY | os.O_NOFOLLOW
            inner = os.open(part, flags, dir_fd=descriptor)
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
    folder = open_folder(os.path.dirname(path), os.O_PATH)
    try:
        return safe.open_regular(os.path.basename(path), folder, path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Refusal("refused", "%s cannot be opened: %s" % (path, error.strerror), path=path) from None
    finally:
        os.close(folder)
