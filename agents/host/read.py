"""Operation `read`: read configuration files of the host, within limits.

A pattern is the name of a file, a name with wildcards as in glob(3), or the name of a folder, for all files below it.
Symbolic links are followed if their targets are within the allowed roots; the result has both names.
"""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
import stat
import threading
from typing import Any, Iterator

from agents.host import paths, safe
from agents.host.errors import Refusal
from agents.host.operations import Emit

MAX_PATTERNS = 200
MAX_FILES = 2000
MAX_FILE = 1024 * 1024
MAX_TOTAL = 8 * 1024 * 1024
MAX_DEPTH = 6


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Read the files that patterns name.

    {"patterns": [...], "roots": [...]} -> {"files": [{"path", "real", "link", "mode", "sha256", "text"}], "skipped":
    [{"path", "why"}]}. "real" is the path without symbolic links, "link" the target if "path" itself is a link. "text"
    has U+FFFD for bytes that are not UTF-8.
    """
    patterns = args.get("patterns")
    if not isinstance(patterns, list) or not 0 < len(patterns) <= MAX_PATTERNS:
        raise Refusal("invalid", "patterns is a list of 1 to %d paths" % MAX_PATTERNS)
    roots = paths.resolve_roots(args.get("roots"))
    files: list[dict[str, Any]] = []
    skipped: list[dict[str, str]] = []
    left = MAX_TOTAL
    for pattern in patterns:
        try:
            names = list(_named(_entered(paths.check_shape(pattern))))
        except Refusal as error:
            skipped.append({"path": pattern, "why": error.message})
            continue
        for path in names:
            if cancelled.is_set():
                return {"files": files, "skipped": skipped}
            try:
                found = _read(path, roots, left)
            except FileNotFoundError:
                continue
            except Refusal as error:
                skipped.append({"path": path, "why": error.message})
                continue
            left -= _sent(found["text"])
            files.append(found)
            if len(files) >= MAX_FILES:
                raise Refusal("refused", "%s names more than %d files" % (pattern, MAX_FILES))
        for path in _closed(pattern):
            skipped.append({"path": path, "why": "the agent's account may not read the folder %s" % path})
    return {"files": files, "skipped": skipped}


def _sent(text: str) -> int:
    r"""Return the approximate size in bytes of a text in a message to the panel, where non-ASCII characters become
    \uXXXX.
    """
    return 6 * len(text) - 5 * len(text.encode("ascii", "ignore"))


def _entered(pattern: str) -> str:
    """Return `pattern` unchanged. Raise Refusal if another account could have redirected one of its folders by a
    symbolic link; parts after a wildcard are not checked.
    """
    plain = list(itertools.takewhile(lambda part: not any(sign in part for sign in "*?["), pattern.split("/")))
    paths.true_folder("/".join(plain[:-1] if len(plain) == pattern.count("/") + 1 else plain) or "/")
    return pattern


def _named(pattern: str) -> Iterator[str]:
    found = sorted(glob.glob(pattern)) if any(character in pattern for character in "*?[") else [pattern]
    for path in found:
        if os.path.isdir(path):
            yield from _below(path, MAX_DEPTH)
        else:
            yield path


def _closed(pattern: str) -> Iterator[str]:
    """Yield the folders in which `pattern` has a wildcard, but which this account cannot list, so that their contents
    are unknown.
    """
    parts = [] if os.geteuid() == 0 else pattern.split("/")
    for number, part in enumerate(parts):
        if number and any(character in part for character in "*?["):
            for folder in sorted(glob.glob("/".join(parts[:number]) or "/")):
                if os.path.isdir(folder) and not os.access(folder, os.R_OK | os.X_OK, effective_ids=True):
                    yield folder


def _below(folder: str, depth: int) -> Iterator[str]:
    try:
        names = sorted(os.listdir(folder)) if depth else []
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        if os.path.isdir(path) and not os.path.islink(path):
            yield from _below(path, depth - 1)
        elif not name.startswith("."):
            yield path


def _read(path: str, roots: list[str], left: int) -> dict[str, Any]:
    real = os.path.realpath(path)
    if not any(paths.is_below(real, root) for root in roots):
        raise Refusal("refused", "%s points to %s, outside the folders that Paddock may read" % (path, real), path=path)
    link = os.readlink(path) if os.path.islink(path) else ""
    descriptor = paths.open_file(real)
    try:
        if real != path:
            safe.require_readable_by(safe.leaders(path), descriptor, path)
        info = os.fstat(descriptor)
        if info.st_size > min(MAX_FILE, left):
            raise Refusal("refused", "%s is larger than Paddock's limit for configuration files" % path, path=path)
        data = b""
        while len(data) <= info.st_size:
            part = os.read(descriptor, info.st_size + 1 - len(data))
            if not part:
                break
            data += part
    finally:
        os.close(descriptor)
    return {
        "path": path,
        "real": real,
        "link": link,
        "mode": stat.S_IMODE(info.st_mode),
        "sha256": hashlib.sha256(data).hexdigest(),
        "text": data.decode("utf-8", "replace"),
    }
