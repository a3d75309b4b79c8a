"""Manage the agent's state on disk: a lock, the open transaction, and finished ones.

    STATE/lock                         flock: one transaction at a time on this host
    STATE/open                         journal of the open transaction
    STATE/transactions/ID.jsonl        journal of a finished transaction: records, each written atomically (begin,
                                       step, mark, outcome)
    STATE/transactions/ID~old-N        previous content of file N, for `rollback`
    STATE/transactions/ID~edited-N     an edit of file N that an undo replaced
    STATE/shadow                       temporary data for the test of a staged configuration

All undo data is on disk (fsync) before the first change; the outcome is on disk before the response is sent. The file
`open` itself shows that a transaction is open: the beginning of a transaction creates the file, the end renames it. The
first record reserves space for later records. An empty file ID.jsonl reserves the name that `open` gets at the end.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from types import TracebackType
from typing import Any

from agents import wire
from agents.host.errors import NO_SPACE, Refusal, named

KEPT_TRANSACTIONS = 40
LOCK_WAIT_S = 15.0
ROOM = 16 * 1024  # reserved space after the first record
OUTCOME_ROOM = 8 * 1024  # part of the space that only the outcome may use
MAX_SHORT_ERROR = 600  # characters, of up to twelve bytes each in JSON
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def folder() -> str:
    """Return the state folder, created with private permissions if missing."""
    path = os.environ.get("PADDOCK_AGENT_STATE")
    if not path:
        home = os.path.join(os.path.expanduser("~"), ".local", "state")
        path = os.path.join("/var/lib" if os.geteuid() == 0 else home, "paddock-agent")
    make_private(os.path.join(path, "transactions"))
    return path


def make_private(path: str) -> None:
    """Create a folder and its missing parents for this account only. os.makedirs would set the mode only for the last
    folder.
    """
    if os.path.isdir(path):
        return
    make_private(os.path.dirname(path))
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:  # another process was faster
        return


def check_id(value: object) -> str:
    """Return `value` if it is a transaction id: at most 80 letters, digits, dots, dashes and underscores. Raise Refusal
    otherwise.
    """
    if not isinstance(value, str) or not _is_id(value):
        raise Refusal("invalid", "a transaction id is letters, digits, '.', '_' and '-', at most 80 of them")
    return value


def _is_id(value: str) -> bool:
    return _ID.fullmatch(value) is not None


class HostLock:
    """Lock that allows one transaction at a time on this host, across agent processes. Raises Refusal (`busy`) if the
    lock is not free within `wait_s` seconds.
    """

    def __init__(self, wait_s: float = LOCK_WAIT_S) -> None:
        self._wait_s = wait_s

    def __enter__(self) -> None:
        self._descriptor = os.open(os.path.join(folder(), "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._take()
        except BaseException:
            os.close(self._descriptor)
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._descriptor)

    def _take(self) -> None:
        deadline = time.monotonic() + self._wait_s
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Refusal("busy", "another deployment is running on this host; try again soon") from None
                time.sleep(0.02)


def sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Journal:
    """Journal of one transaction: its records on disk. The first record creates the file."""

    def __init__(self, ident: str) -> None:
        self.ident = check_id(ident)
        root = folder()
        self.shadow = root + "/shadow"
        self._root = root
        self._open = root + "/open"
        self._stem = "%s/transactions/%s" % (root, self.ident)
        self._descriptor = -1  # open from the first record to the last
        self._at = 0  # position of the next record
        self._size = 0  # file size; everything after `_at` is reserved zeros
        self._made: list[str] = []  # files that this transaction created

    def __del__(self) -> None:
        self._leave()

    def begin(self, record: dict[str, Any]) -> None:
        """Write the first record of the journal durably: the transaction is now open.

        This call reserves disk space for later records and for the journal's later name, so that the end of the
        transaction needs no more space.
        """
        try:
            self._write(self._line("begin", dict(record, transaction=self.ident)), ROOM)
            os.close(self._make(self._stem + ".jsonl"))
            os.fsync(self._descriptor)
            sync_folder(self._root)
        except OSError as error:
            raise named(error, self._open, self._at + ROOM) from error

    def append(self, kind: str, record: dict[str, Any]) -> None:
        self._write(self._line(kind, record), OUTCOME_ROOM if self._size else 0)

    def end(self, result: dict[str, Any]) -> None:
        """Write the outcome of the transaction durably. From now on, a repeated request for the transaction returns
        this outcome.

        If the outcome exceeds the remaining space, the output of steps is left out, and then the steps.
        """
        brief = [dict(step, output="", argv=[]) for step in result.get("steps", [])]
        short = dict(result, error=str(result.get("error", ""))[:MAX_SHORT_ERROR])
        for told in (result, dict(short, steps=brief), dict(short, steps=[], checks=[])):
            try:
                self._write(self._line("outcome", {"result": told, "transaction": self.ident}), 0)
                break
            except OSError as error:
                if error.errno not in NO_SPACE or not told.get("steps"):
                    raise
        os.fsync(self._descriptor)
        os.ftruncate(self._descriptor, self._at)
        self._leave()

    def discard(self) -> None:
        """Delete the journal of a transaction that has changed nothing."""
        self._leave()
        for path in reversed(self._made):
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue
        self._made = []

    def forget_old(self) -> None:
        """Delete the previous contents of the changed files. Only `rollback` needs them, and the transaction was
        undone.
        """
        for path in [path for path in self._made if "~old-" in path]:
            os.unlink(path)
            self._made.remove(path)

    def _make(self, path: str) -> int:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._made.append(path)
        return descriptor

    def _line(self, kind: str, record: dict[str, Any]) -> bytes:
        return wire.dumps({"record": kind, "at": time.time(), **record}).encode("ascii") + b"\n"

    def _write(self, line: bytes, room: int) -> None:
        """Write a record, and reserve `room` bytes on disk for later records. A failed write leaves no
        partial record.
        """
        if self._descriptor < 0:
            self._reopen()
        try:
            self._reserve(self._at + len(line) + room)
            left, at = memoryview(line), self._at
            while left:
                written = os.pwrite(self._descriptor, left, at)
                left, at = left[written:], at + written
        except OSError:
            self._clear()
            raise
        self._at = at
        self._size = max(self._size, at)

    def _reserve(self, size: int) -> None:
        if size <= self._size:
            return
        try:
            os.posix_fallocate(self._descriptor, self._size, size - self._size)
        except OSError as error:
            if error.errno in NO_SPACE:
                raise
            zeros = memoryview(bytes(size - self._size))  # a file system without space reservation
            while zeros:
                zeros = zeros[os.pwrite(self._descriptor, zeros, size - len(zeros)) :]
        self._size = size

    def _reopen(self) -> None:
        """Create the journal, or open it after its last complete record."""
        if not os.path.lexists(self._open):
            self._made.append(self._open)
        self._descriptor = os.open(self._open, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._descriptor).st_size
        self._at = 0
        if self._size:
            with open(self._open, "rb") as file:
                self._at = sum(len(line) + 1 for line in _whole(file.read()))
            self._clear()

    def _clear(self) -> None:
        """Fill the file with zeros after the journal's last complete record."""
        os.ftruncate(self._descriptor, self._size)
        if self._size > self._at:
            os.pwrite(self._descriptor, bytes(self._size - self._at), self._at)

    def close(self) -> None:
        """Rename the journal to its final name, because its transaction has ended, and delete old transactions."""
        self._leave()
        os.rename(self._open, self._stem + ".jsonl")
        _prune(self._root + "/transactions", self.ident)

    def _leave(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def keep_old(self, number: int, content: bytes) -> None:
        """Keep the previous content of file `number`, so that the operation `rollback` can restore it."""
        self._keep("old-%d" % number, content)

    def keep_edit(self, number: int, content: bytes) -> str:
        """Store the content of file `number`, which somebody edited and an undo would replace; return the path of the
        copy.
        """
        return self._keep("edited-%d" % number, content)

    def old(self, number: int) -> bytes:
        with open("%s~old-%d" % (self._stem, number), "rb") as file:
            return file.read()

    def _keep(self, name: str, content: bytes) -> str:
        path = "%s~%s" % (self._stem, name)
        try:
            descriptor = self._make(path)
            try:
                left = memoryview(content)
                while left:
                    left = left[os.write(descriptor, left) :]
            finally:
                os.close(descriptor)
        except OSError as error:
            if path in self._made:
                os.unlink(path)
            raise named(error, path, len(content)) from error
        return path

    def records(self) -> list[dict[str, Any]]:
        """Return all complete records of the journal in order, also of an open transaction; [] if there
        is no journal.
        """
        # The final name is tried twice, because the journal may be renamed between the two attempts.
        for path in (self._stem + ".jsonl", self._open, self._stem + ".jsonl"):
            found = records_at(path)
            if found and found[0].get("transaction", self.ident) == self.ident:
                return found
        return []

    def outcome(self) -> dict[str, Any] | None:
        """Return the result of the transaction, an ApplyResult; None while it has not ended."""
        for record in reversed(self.records()):
            if record["record"] == "outcome":
                result: dict[str, Any] = record["result"]
                return result
        return None


def records_at(path: str) -> list[dict[str, Any]]:
    """Return the complete records of the journal at `path`; an empty list if the file is missing."""
    try:
        with open(path, "rb") as file:
            lines = _whole(file.read())
    except FileNotFoundError:
        return []
    return [wire.loads(line.decode("ascii")) for line in lines]


def _whole(content: bytes) -> list[bytes]:
    """Return the complete records in a journal's content, without reserved space.

    A record with zeros was not synced to disk before the host crashed. This record and all later ones are left out. No
    response of the agent depended on them, because it responds only after it has synced the outcome.
    """
    lines = content.rstrip(b"\0").split(b"\n")[:-1]
    for number, line in enumerate(lines):
        if number and b"\0" in line:
            return lines[:number]
    return lines


def open_transaction() -> str:
    """Return the id of the open transaction; "" if there is none."""
    records = records_at(folder() + "/open")
    return str(records[0]["transaction"]) if records else ""


def clear_torn() -> None:
    """Remove a journal whose first record is incomplete after a crash; its transaction has changed nothing. The caller
    must hold the host's lock.
    """
    path = folder() + "/open"
    if os.path.exists(path) and not records_at(path):
        os.unlink(path)
        with os.scandir(folder() + "/transactions") as entries:
            empty = [entry.path for entry in entries if entry.name.endswith(".jsonl") and not entry.stat().st_size]
        for name in empty:
            os.unlink(name)


def is_settled() -> bool:
    """Return whether no transaction needs to be undone or completed. The caller must hold the host's lock.

    Only an open or interrupted transaction has the file `open`.
    """
    return not os.path.lexists(folder() + "/open")


def _prune(root: str, current: str) -> None:
    """Delete all but the newest KEPT_TRANSACTIONS transactions, because their data may contain private keys."""
    names = os.listdir(root)
    ended = [name for name in names if name.endswith(".jsonl")]
    if len(ended) <= KEPT_TRANSACTIONS:
        return
    ended.sort(key=lambda name: os.lstat("%s/%s" % (root, name)).st_mtime)
    kept = {name[: -len(".jsonl")] for name in ended[len(ended) - KEPT_TRANSACTIONS :]} | {current}
    for name in names:
        ident, mark, _ = name.partition("~")
        if not mark and not name.endswith(".jsonl"):
            continue  # not a file of the agent
        if (ident if mark else name[: -len(".jsonl")]) not in kept:
            os.unlink("%s/%s" % (root, name))
