"""Compute the necessary changes of a transaction: compare the wanted with the existing files, reject drift, and record
the data for an undo.

This module changes nothing on the host. Each undo entry is plain data for the journal:

    {"path", "was": absent|file|link, "is": file|link|absent|directory, "draft", "kept", "sha256", "target", "mode"}

"draft" is the hidden name under which the new file waits, in the same folder. "kept" is the hidden name of the old
file: a second name of the same inode, so restoring needs no space and keeps owner, mode, times and attributes exactly.
"sha256" and "target" are those of the new file or link.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Any

from agents.host import paths, safe
from agents.host.errors import Refusal
from agents.host.request import Request, Wanted

PREFIX = ".paddock-"
MAX_READ = 64 * 1024 * 1024


class Found:
    """State of a path on the host before a change.

    `kind`: absent | file | link | directory | other. `mark`: (device, inode, mtime, size), which show whether the file
    was changed later.
    """

    def __init__(self, path: str, folder: int | None = None) -> None:
        """Read the state of `path`. `folder`: descriptor of the containing folder, if open."""
        self.path = path
        self.digest = self.target = ""
        self.mode = 0
        self.owner: tuple[int, int] | None = None  # user and group of a file
        self.mark: tuple[int, ...] = ()
        if folder is not None:
            self._look(folder)
            return
        try:
            folder = paths.open_folder(os.path.dirname(path), os.O_PATH)
        except FileNotFoundError:
            self.kind = "absent"
            return
        try:
            self._look(folder)
        finally:
            os.close(folder)

    def _look(self, folder: int) -> None:
        name = os.path.basename(self.path)
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            self.kind = "absent"
            return
        self.mode = stat.S_IMODE(info.st_mode)
        self.mark = (info.st_dev, info.st_ino, info.st_mtime_ns, info.st_size)
        if stat.S_ISREG(info.st_mode):
            self.kind = "file"
            self.owner = (info.st_uid, info.st_gid)
        elif stat.S_ISLNK(info.st_mode):
            self.kind = "link"
            self.target = os.readlink(name, dir_fd=folder)
        else:
            self.kind = "directory" if stat.S_ISDIR(info.st_mode) else "other"

    def read(self) -> bytes:
        """Return the content of the file, and set `digest` to the content's SHA-256."""
        data = read_file(self.path)
        self.digest = hashlib.sha256(data).hexdigest()
        return data

    @property
    def signature(self) -> str:
        """State in the form of FileChange.expect: SHA-256 of a file (after `read`), "link:TARGET" for a symbolic link,
        "" if nothing exists; otherwise the kind.
        """
        if self.kind == "file":
            return self.digest
        return {"absent": "", "link": "link:" + self.target}.get(self.kind, self.kind)


def read_file(path: str) -> bytes:
    descriptor = paths.open_file(path)
    try:
        data = safe.content(descriptor, MAX_READ + 1)
    finally:
        os.close(descriptor)
    if len(data) > MAX_READ:
        raise Refusal("refused", "%s is larger than Paddock's limit for configuration files" % path, path=path)
    return data


class Change:
    """Planned change of one path whose state on the host differs from the wanted state."""

    def __init__(self, wanted: Wanted, found: Found, number: int, ident: str) -> None:
        self.wanted = wanted
        self.found = found
        self.number = number
        stem = "%s%s-%d" % (PREFIX, ident, number)
        self.draft = stem + ".new"
        self.kept = stem + ".old"
        self.old = b""

    def entry(self) -> dict[str, Any]:
        wanted = self.wanted
        kind = {"put": "file", "link": "link", "remove": "absent"}[wanted.action]
        return {
            "path": wanted.path,
            "was": self.found.kind,
            "is": kind,
            "draft": self.draft,
            "kept": self.kept,
            "number": self.number,
            "old_mode": self.found.mode,
            "old_sha256": self.found.digest,
            "old_target": self.found.target,
            "sha256": hashlib.sha256(wanted.content).hexdigest() if kind == "file" else "",
            "target": wanted.target,
        }


class Plan:
    """All changes that a request needs: missing folders, outermost first, then files."""

    def __init__(self, request: Request) -> None:
        self.folders: list[tuple[str, int]] = []
        self.changes: list[Change] = []
        self._made: set[str] = set()
        self._own: set[str] = set()  # folders that only root and the agent's account can change
        self._also = request.administrators
        self._open: tuple[str, int] = ("", -1)  # the most recently opened folder
        try:
            for wanted in request.files:
                self._add(wanted, request.ident)
        finally:
            self._leave()

    @property
    def is_empty(self) -> bool:
        return not self.folders and not self.changes

    def entries(self) -> list[dict[str, Any]]:
        """Return the undo entries (see the top of this module) of all changes: first of created folders,
        then of files.
        """
        made = [{"path": path, "was": "absent", "is": "directory", "number": -1} for path, _ in self.folders]
        return [*made, *(change.entry() for change in self.changes)]

    def _add(self, wanted: Wanted, ident: str) -> None:
        if wanted.action == "directory":
            self._need_folder(wanted.path, wanted.mode)
            return
        found = self._found(wanted.path)
        if wanted.if_absent and found.kind != "absent":
            return
        if found.kind in ("directory", "other"):
            raise Refusal("refused", "%s is a %s, not a file" % (wanted.named, _kind(found)), path=wanted.named)
        old = found.read() if found.kind == "file" else b""
        if _is_as_wanted(wanted, found, old):
            return
        if wanted.expect is not None and wanted.expect != found.signature:
            raise drift(wanted, found)
        if wanted.action != "remove":
            self._need_folder(wanted.folder, 0o755)
        elif found.kind != "absent":
            self._require_own(wanted.folder)
        change = Change(wanted, found, len(self.changes), ident)
        change.old = old
        self.changes.append(change)

    def _need_folder(self, path: str, mode: int) -> None:
        missing = []
        while path not in self._made:
            found = self._found(path)
            if found.kind == "directory":
                self._require_own(path)
                break
            if found.kind != "absent":
                raise Refusal("refused", "%s is a %s, not a folder" % (path, _kind(found)), path=path)
            missing.append((path, mode))
            path, mode = os.path.dirname(path), 0o755
        for item in reversed(missing):
            self._made.add(item[0])
            self.folders.append(item)

    def _found(self, path: str) -> Found:
        """Return the state of a path. The path's folder stays open, because the next path is usually in the same
        folder.
        """
        folder = os.path.dirname(path)
        if self._open[0] != folder:
            self._leave()
            try:
                self._open = (folder, paths.open_folder(folder, os.O_PATH))
            except FileNotFoundError:
                return Found(path)
        return Found(path, self._open[1])

    def _leave(self) -> None:
        if self._open[1] >= 0:
            os.close(self._open[1])
        self._open = ("", -1)

    def _require_own(self, path: str) -> None:
        """Raise Refusal if an account other than root and the agent's can write to a folder. Servers that root starts
        read the files in the folder. Accounts in `Request.administrators` are permitted too.
        """
        if path in self._own:
            return
        folder = paths.open_folder(path, os.O_PATH)
        try:
            safe.require_own(folder, path, self._also)
        finally:
            os.close(folder)
        self._own.add(path)


def drift(wanted: Wanted, found: Found) -> Refusal:
    """Return the Refusal for a file that was edited on the host. It contains the file's name and digests, but no
    content.
    """
    what = {"absent": "was deleted", "link": "was replaced by a symbolic link"}.get(found.kind, "was changed")
    fact = "%s on the host since the last deployment" % what
    if wanted.expect == "":
        fact = "already exists, but no deployment created it"
    return Refusal(
        "drift",
        "%s %s. Review the difference, then adopt or overwrite the file." % (wanted.named, fact),
        path=wanted.named,
        expected=wanted.expect,
        found=found.signature,
    )


def _kind(found: Found) -> str:
    return "folder" if found.kind == "directory" else "symbolic link" if found.kind == "link" else "special file"


def _is_as_wanted(wanted: Wanted, found: Found, content: bytes) -> bool:
    if wanted.action == "put":
        return found.kind == "file" and content == wanted.content and found.mode == wanted.mode
    if wanted.action == "link":
        return found.kind == "link" and found.target == wanted.target
    return found.kind == "absent"
