"""Undo a transaction: restore the state that its journal recorded, and verify that the sites respond as before.

Every part can be repeated, so an undo that was interrupted starts from the beginning.
"""

from __future__ import annotations

import errno
import hashlib
import os
from typing import Any

from agents.host import changes, checking, faults, paths
from agents.host.engines import engine_for
from agents.host.engines.base import Engine, EngineError
from agents.host.errors import NO_SPACE, Refusal
from agents.host.state import Journal
from agents.host.steps import Failed, Steps


class Undo:
    """Undo of one transaction. `begun` is the first record of its journal."""

    def __init__(self, journal: Journal, begun: dict[str, Any], steps: Steps) -> None:
        self._journal = journal
        self._begun = begun
        self._steps = steps

    def run(self, switched: bool) -> str:
        """Restore the state before the transaction. Return "" once it is live, otherwise messages about the parts that
        failed.

        `switched`: files may have been replaced, so servers must reload.
        """
        faults.point("undoing")
        problems = []
        try:
            with self._steps.step("undo") as step:
                step.output = self._put_back()
                faults.point("undone")
            if switched:
                # In reverse order: a port must be free before its old server takes it again.
                for engine in reversed(self._begun["engines"]):
                    self._bring_back(engine)
                faults.point("undo-reloaded")
            with self._steps.step("prove") as step:
                step.output = self._prove()
            faults.point("proved")
        except (Failed, Refusal) as error:
            problems.append(str(error))
        return "\n".join(problems)

    def _put_back(self) -> str:
        words, problems = [], []
        for number, entry in enumerate(reversed(self._begun["entries"])):
            try:
                words.append(restore(entry, self._journal))
            except (Refusal, OSError) as error:  # the other files are restored anyway
                problems.append("%s: %s" % (entry["path"], error))
            faults.point("undo-%d" % number)
        if problems:
            raise Failed("\n".join(problems + [word for word in words if word]))
        return "\n".join(word for word in words if word)

    def _bring_back(self, engine: dict[str, Any]) -> None:
        server = engine_for(engine["control"])
        if not engine["was_running"]:
            if server.pid():
                with self._steps.step("stop") as step:
                    step.argv = server.stop()
            return
        with self._steps.step("reload") as step:
            step.argv = _running_with_the_old(server)

    def _prove(self) -> str:
        """Request the sites again and describe their responses, one per line.

        Raises Failed if a site that responded before the transaction now responds worse.
        """
        wrong, right = checking.proven(self._begun["answers"])
        if wrong:
            raise Failed("\n".join(wrong))
        return "\n".join(right)


def _running_with_the_old(server: Engine) -> list[str]:
    """Let the server run with the restored configuration: reload it, or start it if it does not run. Return the
    command.

    A server that is just ending still has a process and a pid file, but cannot be reloaded. It is started again.
    """
    pid = server.pid()
    if pid:
        try:
            before, argv = server.reload(pid)
            server.wait_live(before)
            return argv
        except EngineError:
            if server.pid():
                raise
    return server.start().argv


def restore(entry: dict[str, Any], journal: Journal) -> str:
    """Restore one path from `entry`, an undo entry of the journal (changes.py), whether its change was completed or
    not.

    Return a message if Paddock keeps an edited file, or a created folder that is no longer empty; otherwise "".
    """
    folder, name = os.path.split(entry["path"])
    try:
        descriptor = paths.open_folder(folder)
    except FileNotFoundError:
        return ""  # its folder did not exist yet
    try:
        if entry["is"] == "directory":
            return _remove_folder(descriptor, entry["path"], name)
        words = ""
        if entry["was"] == "absent":
            words = _remove_new(descriptor, name, entry)
        elif _inode(descriptor, entry["kept"]):
            words = _keep_edit(entry, journal, descriptor)
            if _inode(descriptor, entry["kept"]) != _inode(descriptor, name):
                os.rename(entry["kept"], name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        clean(descriptor, entry)
        os.fsync(descriptor)
        return words
    finally:
        os.close(descriptor)


def clean(descriptor: int, entry: dict[str, Any]) -> None:
    """Delete the hidden files of one change: the new and the old version of the file, if they still have
    hidden names.
    """
    for hidden in (entry["draft"], entry["kept"]):
        try:
            os.unlink(hidden, dir_fd=descriptor)
        except FileNotFoundError:
            continue


def clean_all(entries: list[dict[str, Any]]) -> None:
    """Delete the hidden files of all changes of a finished transaction, as `clean` does. `entries` are its undo
    entries.
    """
    for entry in entries:
        if entry["is"] == "directory":
            continue
        try:
            descriptor = paths.open_folder(os.path.dirname(entry["path"]))
        except FileNotFoundError:
            continue
        try:
            clean(descriptor, entry)
        finally:
            os.close(descriptor)


def _inode(descriptor: int, name: str) -> tuple[int, int] | None:
    try:
        info = os.lstat(name, dir_fd=descriptor)
    except FileNotFoundError:
        return None
    return (info.st_dev, info.st_ino)


def _remove_folder(descriptor: int, path: str, name: str) -> str:
    try:
        os.rmdir(name, dir_fd=descriptor)
    except FileNotFoundError:
        return ""
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return "%s is no longer empty, so Paddock keeps the folder" % path  # for example a server's log
    return ""


def _remove_new(descriptor: int, name: str, entry: dict[str, Any]) -> str:
    """Remove a file that the transaction created. If somebody changed the file since, keep it and return a message;
    otherwise return "".
    """
    found = changes.Found(entry["path"], descriptor)
    if found.kind == "absent":
        return ""
    if found.kind == "file":
        found.read()
    ours = (found.kind == "file" and found.digest == entry["sha256"] != "") or (
        found.kind == "link" and found.target == entry["target"] != ""
    )
    if not ours:
        return "%s was changed by another program during the deployment, so Paddock keeps the file" % entry["path"]
    os.unlink(name, dir_fd=descriptor)
    return ""


def _keep_edit(entry: dict[str, Any], journal: Journal, descriptor: int) -> str:
    """Keep a copy of a file that somebody edited between the switch and the undo, because the undo replaces the file.
    Return a message with the path of the copy; "" if nobody edited the file.
    """
    found = changes.Found(entry["path"])
    if found.kind != "file":
        return ""
    content = found.read()
    if hashlib.sha256(content).hexdigest() in (entry["sha256"], entry["old_sha256"]):
        return ""
    try:
        place = journal.keep_edit(entry["number"], content)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        folder, name = os.path.split(entry["path"])
        os.rename(name, ".%s.edited" % name, src_dir_fd=descriptor, dst_dir_fd=descriptor)  # needs no space
        place = "%s/.%s.edited" % (folder, name)
    return "%s was edited during the deployment; the edit is kept in %s" % (entry["path"], place)
