"""Putting everything back as a journal says it was, as often as it takes, and proving that the old sites answer.

Every part may be done again after it was done: a killed undo is simply begun anew.
"""

from __future__ import annotations

import errno
import os

from agents.host import changes, digest, faults, paths, probe
from agents.host.engines import engine_for
from agents.host.engines.base import EngineError
from agents.host.errors import NO_SPACE, Refusal
from agents.host.steps import Failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agents.host.engines.base import Engine
    from agents.host.state import Journal
    from agents.host.steps import Steps


class Undo:
    """`begun` is the journal's first record."""

    def __init__(self, journal: Journal, begun: dict[str, Any], steps: Steps) -> None:
        self._journal = journal
        self._begun = begun
        self._steps = steps

    def run(self, switched: bool) -> str:
        """ "" once the old state stands, runs and answers; else what of it could not be had. `switched` says whether
        a file may have been replaced, so that servers must read their configuration again."""
        faults.point("undoing")
        problems = []
        try:
            with self._steps.step("undo") as step:
                step.output = self._put_back()
                faults.point("undone")
            if switched:
                # The other way round: a port must be free before its old server takes it again.
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
            except (Refusal, OSError) as error:  # the other files are put back all the same
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
        """The sites that answered before answer again, and as they did. Failed names those that do not."""
        asked = [item for item in self._begun["answers"] if item["status"]]
        problems = [probe.until_as_before(item["probe"], item["status"]) for item in asked]
        wrong = [problem for problem in problems if problem]
        if wrong:
            raise Failed("\n".join(wrong))
        return "\n".join("%s answers %d" % (probe.describe(item["probe"]), item["status"]) for item in asked)


def _running_with_the_old(server: Engine) -> list[str]:
    """A server that is just ending has a process and a pid file still, but reads nothing any more: it is started
    again like one that was found dead."""
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
    """Puts one file back, whatever of the change was done. Returns what a person should know, mostly nothing."""
    folder, name = os.path.split(entry["path"])
    try:
        descriptor = paths.open_folder(folder)
    except FileNotFoundError:
        return ""  # the folder was not made yet, so nothing in it was
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
    """Removes the hidden names of one change from its folder."""
    for hidden in (entry["draft"], entry["kept"]):
        try:
            os.unlink(hidden, dir_fd=descriptor)
        except FileNotFoundError:
            continue


def clean_all(entries: list[dict[str, Any]]) -> None:
    """The same for all changes of a transaction that has come to its end."""
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
        return "%s is no longer empty and stays" % path  # a server wrote its log there
    return ""


def _remove_new(descriptor: int, name: str, entry: dict[str, Any]) -> str:
    """Takes a new file away again, unless it is not the one that this transaction put there."""
    found = changes.Found(entry["path"], descriptor)
    if found.kind == "absent":
        return ""
    if found.kind == "file":
        found.read()
    ours = (found.kind == "file" and found.digest == entry["sha256"] != "") or (
        found.kind == "link" and found.target == entry["target"] != ""
    )
    if not ours:
        return "%s was written by somebody else meanwhile and stays" % entry["path"]
    os.unlink(name, dir_fd=descriptor)
    return ""


def _keep_edit(entry: dict[str, Any], journal: Journal, descriptor: int) -> str:
    """An edit made between the switch and the undo is kept aside: it would be lost otherwise."""
    found = changes.Found(entry["path"])
    if found.kind != "file":
        return ""
    content = found.read()
    if digest.of(content) in (entry["sha256"], entry["old_sha256"]):
        return ""
    try:
        place = journal.keep_edit(entry["number"], content)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        folder, name = os.path.split(entry["path"])
        os.rename(name, ".%s.edited" % name, src_dir_fd=descriptor, dst_dir_fd=descriptor)  # which needs no space
        place = "%s/.%s.edited" % (folder, name)
    return "%s had been edited meanwhile; the edit is kept in %s" % (entry["path"], place)
