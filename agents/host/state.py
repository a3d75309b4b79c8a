"""What the agent remembers on disk: one folder per transaction with its journal, a lock, and which one is open.

    STATE/lock                           flock: one transaction at a time on this host
    STATE/open                           the id of the transaction that has begun and not ended
    STATE/transactions/ID/journal.jsonl  records, each written whole: begin, step, mark, outcome
    STATE/transactions/ID/old/N          what file N held before, for `rollback`

Whatever undoing needs is on the disk (fsync) before the first change; the outcome is, before the answer is sent.
"""

from __future__ import annotations

import fcntl
import os
import time

from agents import wire
from agents.host.errors import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

KEPT_TRANSACTIONS = 40
LOCK_WAIT_S = 15.0
_ID_LENGTH = 80
_ID_SIGNS = "._-"


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
    return plain and all(sign.isalnum() or sign in _ID_SIGNS for sign in value)


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
        self.folder = os.path.join(folder(), "transactions", self.ident)
        self._path = os.path.join(self.folder, "journal.jsonl")

    def exists(self) -> bool:
        return os.path.exists(self._path)

    def begin(self, record: dict[str, Any]) -> None:
        """The first record, durable, and this transaction marked as open."""
        make_private(os.path.join(self.folder, "old"))
        self.append("begin", record, durable=True)
        sync_folder(self.folder)
        _mark_open(self.ident)

    def append(self, kind: str, record: dict[str, Any], durable: bool = False) -> None:
        line = wire.dumps({"record": kind, "at": time.time(), **record}).encode("ascii") + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def end(self, result: dict[str, Any]) -> None:
        """The outcome, durable: from here on the same transaction answers with it."""
        make_private(self.folder)
        self.append("outcome", {"result": result}, durable=True)

    def close(self) -> None:
        """Nothing of the transaction is left to do."""
        _mark_open("")
        _prune(self.ident)

    def keep_old(self, number: int, content: bytes) -> None:
        """What file `number` held before, for `rollback`."""
        self._write(str(number), content)

    def keep_edit(self, number: int, content: bytes) -> str:
        """Somebody's edit that stood in the way of an undo; returns where it is kept."""
        return self._write("%d.edited" % number, content)

    def old(self, number: int) -> bytes:
        with open(os.path.join(self.folder, "old", str(number)), "rb") as file:
            return file.read()

    def _write(self, name: str, content: bytes) -> str:
        path = os.path.join(self.folder, "old", name)
        make_private(os.path.dirname(path))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        return path

    def records(self) -> list[dict[str, Any]]:
        """All records in order; a last line that was cut off by a crash is not one."""
        try:
            with open(self._path, "rb") as file:
                lines = file.read().split(b"\n")[:-1]
        except FileNotFoundError:
            return []
        return [wire.loads(line.decode("ascii")) for line in lines]

    def outcome(self) -> dict[str, Any] | None:
        """The result that this transaction ended with, or None while it has not ended."""
        for record in reversed(self.records()):
            if record["record"] == "outcome":
                result: dict[str, Any] = record["result"]
                return result
        return None


def open_transaction() -> str:
    """The id of the transaction that has begun and not ended, or ""."""
    try:
        with open(os.path.join(folder(), "open"), "rb") as file:
            return file.read().decode("ascii").strip()
    except FileNotFoundError:
        return ""


def _mark_open(ident: str) -> None:
    root = folder()
    path = os.path.join(root, "open")
    if not ident:
        if os.path.exists(path):
            os.unlink(path)
        return
    draft = path + ".new"
    with open(draft, "wb") as file:
        file.write(ident.encode("ascii"))
        file.flush()
        os.fsync(file.fileno())
    os.rename(draft, path)
    sync_folder(root)


def _prune(current: str) -> None:
    """Forgets all but the newest transactions: what they keep may be private keys."""
    root = os.path.join(folder(), "transactions")
    names = os.listdir(root)
    if len(names) <= KEPT_TRANSACTIONS:
        return
    import shutil  # with its compressors, several milliseconds of a cold start; undoing does without it

    names.sort(key=lambda name: os.lstat(os.path.join(root, name)).st_mtime)
    for name in names[: len(names) - KEPT_TRANSACTIONS]:
        if name != current:
            shutil.rmtree(os.path.join(root, name), ignore_errors=True)
