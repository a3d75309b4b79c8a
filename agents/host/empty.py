"""Purge caches of web servers: delete the files below their folders. Folders and the targets of links stay.

The servers keep running and treat a deleted file as a cache miss.
"""

from __future__ import annotations

import os
import stat
import threading
from typing import Any

from agents.host import paths
from agents.host.errors import Refusal
from agents.host.operations import Emit

MAX_DEPTH = 8


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Delete the cached files: {"folders", "roots"} -> {"files": number of deleted files, "bytes": their total size}.

    "folders" are the paths of the cache folders; a missing folder counts as empty. "roots" are paths of folders. Every
    cache folder must be below one of the roots, otherwise Refusal is raised.
    """
    wanted = args.get("folders")
    if not isinstance(wanted, list) or not wanted:
        raise Refusal("invalid", "folders is a list of at least one folder")
    roots = paths.resolve_roots(args.get("roots"))
    found = [paths.resolve(folder, roots) for folder in wanted]
    files = size = 0
    for folder in found:
        try:
            descriptor = paths.open_folder(folder)
        except FileNotFoundError:
            continue
        try:
            count, taken = _emptied(descriptor, cancelled, 0)
        finally:
            os.close(descriptor)
        files, size = files + count, size + taken
    return {"files": files, "bytes": size}


def _emptied(folder: int, cancelled: threading.Event, depth: int) -> tuple[int, int]:
    files = size = 0
    for name in os.listdir(folder):
        if cancelled.is_set():
            break
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode):
                os.unlink(name, dir_fd=folder)
                files, size = files + 1, size + found.st_size
            elif stat.S_ISDIR(found.st_mode) and depth < MAX_DEPTH:
                count, taken = _below(folder, name, cancelled, depth)
                files, size = files + count, size + taken
        except FileNotFoundError:
            continue  # deleted by the server itself
    return files, size


def _below(folder: int, name: str, cancelled: threading.Event, depth: int) -> tuple[int, int]:
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        return _emptied(inner, cancelled, depth + 1)
    finally:
        os.close(inner)
