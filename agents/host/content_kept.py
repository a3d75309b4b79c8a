"""Measure the kept files of a site's folder: uploads and data that are not part of its releases.

The site's account may own the files and change them meanwhile. Folders are walked by descriptor without following
links, no file is opened, and the walk ends after MOST_ENTRIES entries or MOST_S seconds.
"""

from __future__ import annotations

import os
import pwd
import stat
import time
from typing import Any, Dict, Iterable, List

from agents.host import content_tree, safe
from agents.host.errors import Refusal

MOST_KEPT = 50
MOST_ENTRIES = 200_000
MOST_S = 4.0


def checked(args: Dict[str, Any]) -> List[str]:
    """Return the kept paths of a request. Raise Refusal for a path that is not inside the folder."""
    keep = args.get("keep", [])
    if not isinstance(keep, list) or len(keep) > MOST_KEPT:
        raise Refusal("invalid", "keep is a list of at most %d paths" % MOST_KEPT)
    for path in keep:
        if not isinstance(path, str) or not path or path.startswith("/") or os.path.normpath(path) != path:
            raise Refusal("invalid", "a path that is kept is relative and plain: %r" % path)
        if path.split("/")[0] in ("..", "."):
            raise Refusal("invalid", "a path that is kept lies in the folder: %r" % path)
    return keep


def measured(tree: int, keep: Iterable[str]) -> Dict[str, Dict[str, Any]]:
    """Return {path: {"bytes", "files", "owner", "complete"}} for the paths in `keep` that an open folder has.

    "bytes" is the space on the disk, "files" the number of entries other than folders, "owner" the account of the path
    itself, "" if it has no name. "complete" is false if the walk ended early or could not read a folder.
    """
    walk = _Walk()
    found = {}
    for path in keep:
        try:
            if content_tree.has(tree, path):
                found[path] = walk.measured(tree, path)
        except OSError:  # a link or a file in place of a folder above
            continue
    return found


class _Walk:
    def __init__(self) -> None:
        self.entries = 0
        self.until = time.monotonic() + MOST_S
        self.bytes = self.files = 0
        self.complete = True

    def measured(self, tree: int, path: str) -> Dict[str, Any]:
        self.bytes, self.files, self.complete = 0, 0, True
        folder = content_tree.opened(tree, path.split("/")[:-1])
        try:
            name = path.rpartition("/")[2]
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            self._add(name, folder, content_tree.MAX_DEPTH)
        finally:
            os.close(folder)
        return {"bytes": self.bytes, "files": self.files, "owner": _account(info.st_uid), "complete": self.complete}

    def _add(self, name: str, folder: int, depth: int) -> None:
        self.entries += 1
        if self._is_over():
            self.complete = False
            return
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            self.bytes += info.st_blocks * 512
            if not stat.S_ISDIR(info.st_mode):
                self.files += 1
            elif depth:
                self._add_all(os.open(name, safe.FOLDER, dir_fd=folder), depth)
            else:
                self.complete = False
        except FileNotFoundError:  # removed meanwhile
            return
        except OSError:
            self.complete = False

    def _is_over(self) -> bool:
        return self.entries > MOST_ENTRIES or time.monotonic() > self.until

    def _add_all(self, folder: int, depth: int) -> None:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._add(entry.name, folder, depth - 1)
                    if self._is_over():
                        return
        finally:
            os.close(folder)


def _account(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""
