"""Build a tree of the staged configuration, so that a server can test the new files before the switch.

There are two ways (docs/decisions/0201-testing-a-staged-configuration.md):

- `mounts`: bind mounts in a private mount namespace (namespace.py) show each new file in place of the file that it
  replaces. If names are added or removed, a `Farm` is mounted over each changed folder: a folder of symbolic links.
  This way is exact, and fast for a configuration of any size.
- `Copy`: the whole configuration is copied to another folder, and absolute paths are rewritten. This way is for hosts
  without namespaces.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Sequence

from agents.host import processes
from agents.host.changes import PREFIX, Change

MAX_TEXT = 4 * 1024 * 1024
MAX_ENTRIES = 50_000


class TooLarge(Exception):
    """Error: the configuration has more than MAX_ENTRIES entries, too many to copy it for the test."""


def topmost(folders: set[str]) -> list[str]:
    """Return those of `folders` that are not inside another one of them, sorted."""
    found: list[str] = []
    for folder in sorted(folders):
        if not found or not folder.startswith(found[-1] + "/"):
            found.append(folder)
    return found


def _by_folder(changes: Sequence[Change]) -> dict[str, dict[str, Change]]:
    grouped: dict[str, dict[str, Change]] = {}
    for change in changes:
        grouped.setdefault(change.wanted.folder, {})[change.wanted.name] = change
    return grouped


def mounts(root: str, changes: Sequence[Change]) -> list[tuple[str, str]]:
    """Return the bind mounts that show the staged files to the server's test, as (source, target) in mount order.

    If each change only replaces a file, the sources are the new files. Otherwise, they are new folders below `root`.
    """
    if all(change.wanted.action == "put" and change.found.kind == "file" for change in changes):
        return [(os.path.join(change.wanted.folder, change.draft), change.wanted.path) for change in changes]
    return Farm(root, changes).binds


class Farm:
    """Copies of the changed folders in their new state, with symbolic links in place of files.

    `binds` are the mounts as (source, target), in order. For each changed folder, the first mount shows the real folder
    at another path, and the second mount puts the copy in its place.
    """

    def __init__(self, root: str, changes: Sequence[Change]) -> None:
        self._changes = _by_folder(changes)
        self.binds: list[tuple[str, str]] = []
        for number, folder in enumerate(topmost(set(self._changes))):
            aside = os.path.join(root, "aside", str(number))
            staged = os.path.join(root, "staged", str(number))
            os.makedirs(aside, 0o700)
            os.makedirs(os.path.dirname(staged), 0o700, exist_ok=True)
            self._build(folder, staged, aside)
            self.binds += [(folder, aside), (staged, folder)]

    def _build(self, folder: str, staged: str, aside: str) -> None:
        os.mkdir(staged)
        os.chmod(staged, stat.S_IMODE(os.lstat(folder).st_mode))
        changed = self._changes.get(folder, {})
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name in changed or entry.name.startswith(PREFIX):
                    continue
                inner, here = os.path.join(folder, entry.name), os.path.join(staged, entry.name)
                if entry.is_symlink():
                    os.symlink(os.readlink(entry.path), here)
                elif entry.is_dir(follow_symlinks=False) and self._is_on_the_way(inner):
                    self._build(inner, here, os.path.join(aside, entry.name))
                else:
                    os.symlink(os.path.join(aside, entry.name), here)
        for name, change in changed.items():
            if change.wanted.action == "put":
                os.symlink(os.path.join(aside, change.draft), os.path.join(staged, name))
            elif change.wanted.action == "link":
                os.symlink(change.wanted.target, os.path.join(staged, name))

    def _is_on_the_way(self, folder: str) -> bool:
        return any(known == folder or known.startswith(folder + "/") for known in self._changes)


class Copy:
    """Copy of the folders `roots` in their new state, below `root`.

    `moved` maps a real path to its copy; `real` restores real paths in the server's messages.
    """

    def __init__(self, root: str, roots: set[str], changes: Sequence[Change]) -> None:
        self._changes = _by_folder(changes)
        self._root = os.path.realpath(root)  # may be below one of `roots`, and is not copied into itself
        self._entries = 0
        self._places = {
            folder: os.path.join(root, str(number)) for number, folder in enumerate(topmost(roots | set(self._changes)))
        }
        longest_first = sorted(self._places, key=len, reverse=True)
        names = b"|".join(re.escape(folder.encode()) for folder in longest_first)
        # A path ends at a slash, at whitespace, or at the end of a token in any of these syntaxes.
        self._pattern = re.compile(rb"(?<![\w./-])(" + names + rb")(?=[/\s;\"'>}]|$)")
        for folder, place in self._places.items():
            self._build(folder, place)

    def moved(self, path: str) -> str:
        for folder, place in self._places.items():
            if path == folder or path.startswith(folder + "/"):
                return place + path[len(folder) :]
        return path

    def real(self, words: str) -> str:
        for folder, place in self._places.items():
            words = words.replace(place, folder)
        return words

    def _build(self, folder: str, place: str) -> None:
        os.makedirs(place, 0o755, exist_ok=True)
        changed = self._changes.get(folder, {})
        with os.scandir(folder) as entries:
            for entry in entries:
                self._entries += 1
                if self._entries > MAX_ENTRIES:
                    raise TooLarge
                if entry.name in changed or entry.name.startswith(PREFIX) or entry.path == self._root:
                    continue
                self._take(entry, os.path.join(place, entry.name))
        for name, change in changed.items():
            here = os.path.join(place, name)
            if change.wanted.action == "put":
                self._write(os.path.join(folder, change.draft), here, change.wanted.content)
            elif change.wanted.action == "link":
                os.symlink(self._target(folder, change.wanted.target), here)

    def _take(self, entry: os.DirEntry[str], here: str) -> None:
        if entry.is_symlink():
            os.symlink(self._target(os.path.dirname(entry.path), os.readlink(entry.path)), here)
        elif entry.is_dir(follow_symlinks=False):
            self._build(entry.path, here)
        elif entry.is_file(follow_symlinks=False):
            content = b""
            if entry.stat(follow_symlinks=False).st_size <= MAX_TEXT and os.access(entry.path, os.R_OK):
                content = processes.read(entry.path)
            self._write(entry.path, here, content)

    def _write(self, source: str, here: str, content: bytes) -> None:
        """Create the copy of one file. If `content` has paths of copied folders, the copy has the paths of the copies
        instead; otherwise it is a link to the real file.
        """
        rewritten = self._pattern.sub(lambda match: self._places[match.group(1).decode()].encode(), content)
        if rewritten == content:
            os.symlink(source, here)
            return
        with open(here, "wb") as file:
            file.write(rewritten)

    def _target(self, folder: str, target: str) -> str:
        absolute = os.path.normpath(os.path.join(folder, target))
        return self.moved(absolute)
