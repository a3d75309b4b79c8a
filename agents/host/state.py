"""What the agent remembers on disk: a lock, the transaction that is open, and those that have ended.

    STATE/lock                         flock: one transaction at a time on this host
    STATE/open                         the journal of the transaction that has begun and not ended
    STATE/transactions/ID.jsonl        the same once it has ended: records, each written whole (begin, step, mark,
                                       outcome)
    STATE/transactions/ID~old-N        what file N held before, for `rollback`
    STATE/transactions/ID~edited-N     somebody's edit that stood in the way of an undo
    STATE/shadow                       what a test of a staged configuration needs, while it runs

Whatever undoing needs is on the disk (fsync) before the first change; the outcome is, before the answer is sent. The
open journal is its own mark: to begin makes one file, and to end gives it its name. The first record reserves the
space of the records that may follow, and an empty file under the journal's later name.
"""

from __future__ import annotations

import fcntl
import os
import time

from agents import wire
from agents.host.errors import NO_SPACE, Refusal, named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

KEPT_TRANSACTIONS = 40
LOCK_WAIT_S = 15.0
ROOM = 16 * 1024  # what is reserved behind the first record
OUTCOME_ROOM = 8 * 1024  # the part of it that no other record takes
MAX_SHORT_ERROR = 600  # characters, of up to twelve bytes each in JSON
_ID_LENGTH = 80
_ID_SIGNS = "._-"
_WITHOUT_SIGNS = {ord(sign): None for sign in _ID_SIGNS}


def folder() -> str:
    """The state folder, made private when it is not there yet."""
    path = os.environ.get("PADDOCK_AGENT_STATE")
    if not path:
        home = os.path.join(os.path.expanduser("~"), ".local", "state")
        path = os.path.join("/var/lib" if os.geteuid() == 0 else home, "paddock-agent")
    make_private(os.path.join(path, "transactions"))
    return path


def make_private(path: str) -> None:
    """Makes a folder, and what is missing above it, for this account alone (os.makedirs does so for the last only)."""
    if os.path.isdir(path):
        return
    make_private(os.path.dirname(path))
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:  # another process was quicker
        return


def check_id(value: object) -> str:
    """A transaction's id: letters, digits, dot, dash, underscore, at most 80."""
    if not isinstance(value, str) or not _is_id(value):
        raise Refusal("invalid", "a transaction id is letters, digits, '.', '_' and '-', at most 80 of them")
    return value


def _is_id(value: str) -> bool:
    """As a regular expression would say it; `re` alone would take a quarter of the agent's start."""
    plain = value.isascii() and len(value) <= _ID_LENGTH and value[:1].isalnum()
    return plain and value.translate(_WITHOUT_SIGNS).isalnum()


class HostLock:
    """One transaction at a time, whichever agent process runs it; Refusal `busy` after `wait_s` seconds."""

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
                    raise Refusal("busy", "another transaction is running on this host; try again soon") from None
                time.sleep(0.02)


def sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Journal:
    """The records of one transaction. Created with its first record; `append` returns when the record is written."""

    def __init__(self, ident: str) -> None:
        self.ident = check_id(ident)
        root = folder()
        self.shadow = root + "/shadow"
        self._root = root
        self._open = root + "/open"
        self._stem = "%s/transactions/%s" % (root, self.ident)
        self._descriptor = -1  # open from the first record to the last
        self._at = 0  # where the next record begins
        self._size = 0  # of the file: what lies behind `_at` is zeros whose space is reserved
        self._made: list[str] = []  # files that this transaction made

    def __del__(self) -> None:
        self._leave()

    def begin(self, record: dict[str, Any]) -> None:
        """The first record, durable: this is the open transaction from now on, and its end needs no more space."""
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
        """The outcome, durable: from here on the same transaction answers with it. Where it is longer than the space
        that is left, the record holds less of what the steps said."""
        brief = [dict(step, output="", argv=[]) for step in result.get("steps", [])]
        short = dict(result, error=str(result.get("error", ""))[:MAX_SHORT_ERROR])
        for told in (result, dict(short, steps=brief), dict(short, steps=[])):
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
        """Forgets a transaction that has changed nothing."""
        self._leave()
        for path in reversed(self._made):
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue
        self._made = []

    def forget_old(self) -> None:
        """Frees what `rollback` would need: nothing of the transaction is left to take back."""
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
        """Writes a record with `room` bytes of reserved space behind it. A record that fails leaves no part."""
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
            zeros = memoryview(bytes(size - self._size))  # a file system that cannot reserve
            while zeros:
                zeros = zeros[os.pwrite(self._descriptor, zeros, size - len(zeros)) :]
        self._size = size

    def _reopen(self) -> None:
        """Makes the journal, or opens it behind the last record that is whole."""
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
        """Leaves zeros only behind the last record."""
        os.ftruncate(self._descriptor, self._size)
        if self._size > self._at:
            os.pwrite(self._descriptor, bytes(self._size - self._at), self._at)

    def close(self) -> None:
        """Nothing of the transaction is left to do."""
        self._leave()
        os.rename(self._open, self._stem + ".jsonl")
        _prune(self._root + "/transactions", self.ident)

    def _leave(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def keep_old(self, number: int, content: bytes) -> None:
        """What file `number` held before, for `rollback`."""
        self._keep("old-%d" % number, content)

    def keep_edit(self, number: int, content: bytes) -> str:
        """Somebody's edit that stood in the way of an undo; returns where it is kept."""
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
        """All records in order, whether it has ended or not; a last line that was cut off by a crash is not one."""
        # Looked for once more where it ends up: it may be given that name between the first look and the second.
        for path in (self._stem + ".jsonl", self._open, self._stem + ".jsonl"):
            found = records_at(path)
            if found and found[0].get("transaction", self.ident) == self.ident:
                return found
        return []

    def outcome(self) -> dict[str, Any] | None:
        """The result that this transaction ended with, or None while it has not ended."""
        for record in reversed(self.records()):
            if record["record"] == "outcome":
                result: dict[str, Any] = record["result"]
                return result
        return None


def records_at(path: str) -> list[dict[str, Any]]:
    """The whole records of the journal at `path`, none where there is no such file."""
    try:
        with open(path, "rb") as file:
            lines = _whole(file.read())
    except FileNotFoundError:
        return []
    return [wire.loads(line.decode("ascii")) for line in lines]


def _whole(content: bytes) -> list[bytes]:
    """The records that are whole, without the space that is reserved behind them. A crash of the machine may leave
    zeros within a later one; what follows those was never relied on."""
    lines = content.rstrip(b"\0").split(b"\n")[:-1]
    for number, line in enumerate(lines):
        if number and b"\0" in line:
            return lines[:number]
    return lines


def open_transaction() -> str:
    """The id of the transaction that has begun and not ended, or ""."""
    records = records_at(folder() + "/open")
    return str(records[0]["transaction"]) if records else ""


def clear_torn() -> None:
    """Removes a journal that a crash cut off in its first record: nothing had been changed. Under the host's lock,
    after `adopt_older`: an older agent's mark is none."""
    path = folder() + "/open"
    if os.path.exists(path) and not records_at(path):
        os.unlink(path)
        with os.scandir(folder() + "/transactions") as entries:
            empty = [entry.path for entry in entries if entry.name.endswith(".jsonl") and not entry.stat().st_size]
        for name in empty:
            os.unlink(name)


_seen_to: set[str] = set()  # the state folders that hold nothing older, as far as this process knows


def is_settled() -> bool:
    """Whether there is surely nothing to repair, by one look: what is open, torn or marked by an older agent is the
    file `open`. Under the host's lock."""
    root = folder()
    return root in _seen_to and not os.path.lexists(root + "/open")


def adopt_older() -> None:
    """Gives what agents before this layout left the names that it has now (older.py). Under the host's lock. Their
    mark is looked for each time, since another panel may still run such an agent."""
    root = folder()
    if not older_mark(root) and root in _seen_to:
        return
    with os.scandir(root + "/transactions") as entries:
        left = any(entry.is_dir(follow_symlinks=False) for entry in entries)
    if left or older_mark(root):
        from agents.host import older

        older.adopt(root)
    _seen_to.add(root)


def older_mark(root: str) -> str:
    """The transaction that an agent before this layout marked as open, "" mostly: a journal begins with a brace."""
    try:
        with open(root + "/open", "rb") as file:
            ident = file.read(_ID_LENGTH + 1).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return ""
    return ident if _is_id(ident) else ""


def _prune(root: str, current: str) -> None:
    """Forgets all but the newest transactions: what they keep may be private keys."""
    names = os.listdir(root)
    ended = [name for name in names if name.endswith(".jsonl")]
    if len(ended) <= KEPT_TRANSACTIONS:
        return
    ended.sort(key=lambda name: os.lstat("%s/%s" % (root, name)).st_mtime)
    kept = {name[: -len(".jsonl")] for name in ended[len(ended) - KEPT_TRANSACTIONS :]} | {current}
    for name in names:
        ident, mark, _ = name.partition("~")
        if not mark and not name.endswith(".jsonl"):
            continue  # an older agent's folder
        if (ident if mark else name[: -len(".jsonl")]) not in kept:
            os.unlink("%s/%s" % (root, name))
