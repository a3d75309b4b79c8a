"""Check and open the files that the agent may access: below the allowed roots, without symbolic links on the way.

A path is checked twice. First its symbolic links are resolved, so that an error can name the problem. Then, on use, the
kernel is asked for the name of the opened folder, so that changes in between have no effect.
"""

from __future__ import annotations

import os
import stat

from agents.host import safe
from agents.host.errors import Refusal

MAX_PATH = 1024
TESTBED_PREFIX = "paddock-testbed-"  # prefix of the folders of test beds


def check_shape(path: object) -> str:
    """Return `path` if it is absolute and normalized; raise Refusal otherwise."""
    if not isinstance(path, str) or not path.startswith("/") or len(path) > MAX_PATH:
        raise Refusal("invalid", "%r is not an absolute path of at most %d characters" % (path, MAX_PATH))
    if not path.isprintable() and any(ord(character) < 32 or ord(character) == 127 for character in path):
        raise Refusal("invalid", "the path %r contains control characters" % path)
    if os.path.normpath(path) != path or path.startswith("//"):
        raise Refusal("invalid", "the path %s contains '..', '.', '//', or a final '/'" % path)
    return path


def resolve_roots(roots: object) -> list[str]:
    """Return the folders `roots` with symbolic links resolved. Raise Refusal for an empty list, and for "/"."""
    if not isinstance(roots, list) or not roots:
        raise Refusal("refused", "no folder is allowed: name at least one root")
    resolved = [true_folder(check_shape(root)) for root in roots]
    if "/" in resolved:
        raise Refusal("refused", "/ cannot be an allowed root")
    return resolved


def is_below(path: str, root: str) -> bool:
    return path.startswith(root + "/")


def resolve(path: object, roots: list[str]) -> str:
    """Return `path` with the symbolic links of its folder resolved; its last part is not resolved. Raise Refusal if the
    result is outside `roots`.

    The folder need not exist.
    """
    plain = check_shape(path)
    folder, name = os.path.split(plain)
    true = os.path.join(true_folder(folder), name)
    if not any(is_below(true, root) for root in roots):
        where = "" if true == plain else ", which points to %s," % true
        raise Refusal(
            "refused", "%s%s is outside the folders that Paddock may use on this host" % (plain, where), path=plain
        )
    return true


def true_folder(path: str) -> str:
    """Return `path` with symbolic links resolved, even if it does not exist.

    Raises Refusal for a link that accounts other than root and the agent's could have created.
    """
    try:
        descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY)
    except OSError:  # missing, or not a folder
        return _walked(path)
    try:
        if _name_of(descriptor) == path:  # the opened folder has exactly this name: there was no link
            return path
    finally:
        os.close(descriptor)
    return _walked(path)


def _walked(path: str) -> str:
    """Resolve the symbolic links in `path`, part by part. A missing part and all parts after it stay as they are."""
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
                    raise Refusal("refused", "%s contains too many symbolic links" % path, path=path)
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
    """Return the target of a symbolic link in the open folder. Raise Refusal if untrusted accounts could have created
    the link.
    """
    found = safe.writers(folder, path or "/")
    if found:
        raise Refusal(
            "refused",
            (
                "%s/%s is a symbolic link in a folder that other accounts can change, so the agent does not follow the "
                "link. Enter the folder that the link points to."
            )
            % (path, name),
            path=path,
        )
    return os.readlink("", dir_fd=link)


def _name_of(descriptor: int) -> str:
    """Return the real path of an open folder; "" if it was deleted or /proc is missing."""
    try:
        name = os.readlink("/proc/self/fd/%d" % descriptor)
    except OSError:
        return ""
    return name if name.startswith("/") and not name.endswith(" (deleted)") else ""


def open_folder(path: str, access: int = os.O_RDONLY) -> int:
    """Return a descriptor of the folder `path`; raise Refusal if a part is a symbolic link, or cannot be entered.

    With O_PATH as `access`, the folder need not be readable; the descriptor then only serves to open names in the
    folder.
    """
    try:
        descriptor = os.open(path, access | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return _entered(path, access)
    if _name_of(descriptor) == path:  # the opened folder has exactly this name: there was no link
        return descriptor
    os.close(descriptor)
    return _entered(path, access)


def _entered(path: str, access: int) -> int:
    """Open a folder part by part, without following symbolic links, and return its descriptor. Raise Refusal if a part
    is a symbolic link or cannot be entered, FileNotFoundError if a part is missing.
    """
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
    """Return a descriptor of the regular file `path` for reading. Raise Refusal if it is not a regular file or cannot
    be opened, FileNotFoundError if it is missing.
    """
    folder = open_folder(os.path.dirname(path), os.O_PATH)
    try:
        return safe.open_regular(os.path.basename(path), folder, path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Refusal("refused", "%s cannot be opened: %s" % (path, error.strerror), path=path) from None
    finally:
        os.close(folder)
