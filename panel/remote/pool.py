"""Pool of connections to hosts: one connection and one agent process per host, kept between requests.

with pool.session(target) as agent:
        facts = agent.call("facts")

Thread-safe: concurrent requests to one host share its agent. A connection that was idle for CHECK_AFTER_S is tested
before its next use, and one that was idle for CLOSE_AFTER_S is closed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import paramiko

from panel.core.open_files import most_hosts
from panel.remote.client import AgentClient, Asked, Heard, Message, OnEvent
from panel.remote.errors import ConnectionLost, RemoteError, UploadFailed
from panel.remote.links import Link, open_link
from panel.remote.target import Target

T = TypeVar("T")

CHECK_AFTER_S = 15.0  # idle time after which `hello` tests the connection; less than between two periodic checks
CLOSE_AFTER_S = 600.0
HELLO_TIMEOUT_S = 5.0
SWEEP_EVERY_S = 30.0


class Session:
    """Connection to a host's agent, borrowed from the pool, with the operations that callers can run."""

    def __init__(self, client: AgentClient) -> None:
        self._client = client

    @property
    def identity(self) -> Message:
        """Facts that the agent reported at its start: file name, Python version, process id and effective user id."""
        return self._client.identity

    def call(
        self, op: str, args: Message | None = None, on_event: OnEvent | None = None, timeout: float | None = None
    ) -> Message:
        """Run one operation of the agent (agents/protocol.py) and return its result. `on_event` is called for each
        event, in the calling thread. Raises RemoteError.
        """
        return self._client.call(op, args, on_event, timeout)

    def ask(self, op: str, args: Message | None = None, heard: Heard | None = None) -> Asked:
        """Send a request for one operation without waiting, so that one thread can ask many hosts. Raises
        RemoteError.
        """
        return self._client.ask(op, args, heard)

    def upload(self, local_path: Path, remote_name: str) -> str:
        """Upload a file to the agent's folder and return its absolute path there. `remote_name` is a plain file name.
        Raises RemoteError.
        """
        if not remote_name or "/" in remote_name or remote_name.startswith("."):
            raise ValueError(f"{remote_name!r} is not a plain file name")
        name = self._client.name
        try:
            return self._client.put(local_path, remote_name)
        except (EOFError, TimeoutError, paramiko.SSHException):
            raise ConnectionLost(name, "upload") from None
        except OSError as error:
            raise UploadFailed(name, error.strerror or str(error)) from None


@dataclass
class _Entry:
    connecting: threading.Lock = field(default_factory=threading.Lock)
    client: AgentClient | None = None
    borrowed: int = 0
    failed: tuple[float, RemoteError] | None = None  # time and error of the last failed connection


class Pool:
    """Connections to agents by target, shared by threads. `connect` starts an agent; tests can pass
    another function.
    """

    def __init__(self, connect: Callable[[Target], Link] = open_link) -> None:
        self._connect = connect
        self._entries: dict[Target, _Entry] = {}
        self._lock = threading.Lock()
        self._sweeper: threading.Thread | None = None
        self._owner = os.getpid()

    @contextmanager
    def session(self, target: Target) -> Iterator[Session]:
        """Context manager that borrows the connection to `target`, opened if necessary. Raises RemoteError."""
        asked_at = time.monotonic()
        entry = self._entry(target)
        try:
            yield Session(self._client(target, entry, asked_at))
        finally:
            with self._lock:
                entry.borrowed -= 1

    def is_ready(self, target: Target) -> bool:
        """Return whether `session` would get a connection to the target at once, without waiting for the host."""
        with self._lock:
            entry = self._entries.get(target) if self._owner == os.getpid() else None
        client = entry.client if entry is not None else None
        return client is not None and client.is_open and _is_fresh(client)

    def prepare(self, targets: Iterable[Target]) -> None:
        """Open missing connections to targets in background threads, without waiting. If one fails, the next `session`
        tries again.
        """
        for target in targets:
            if not self.is_ready(target):
                threading.Thread(target=self._connect_only, args=(target,), name="connecting", daemon=True).start()

    def _connect_only(self, target: Target) -> None:
        with suppress(RemoteError), self.session(target):
            pass

    def forget(self, name: str) -> None:
        """Close all connections to the host `name`, and all connections through this host as a bastion; called after
        the host's settings changed.
        """
        with self._lock:
            gone = [self._entries.pop(target) for target in list(self._entries) if target.passes(name)]
        for entry in gone:
            if entry.client is not None:
                entry.client.close()

    def close(self) -> None:
        """Close all connections of the pool."""
        with self._lock:
            entries, self._entries = list(self._entries.values()), {}
        for entry in entries:
            if entry.client is not None:
                entry.client.close()

    def _entry(self, target: Target) -> _Entry:
        with self._lock:
            if self._owner != os.getpid():  # after a fork the sockets belong to the parent
                self._entries, self._sweeper, self._owner = {}, None, os.getpid()
            entry = self._entries.setdefault(target, _Entry())
            entry.borrowed += 1
            if self._sweeper is None:
                self._sweeper = threading.Thread(target=self._sweep, name="agent pool", daemon=True)
                self._sweeper.start()
            return entry

    def _client(self, target: Target, entry: _Entry, asked_at: float) -> AgentClient:
        with entry.connecting:
            # An attempt failed while this thread waited; another would fail too.
            if entry.failed and entry.failed[0] > asked_at:
                raise entry.failed[1]
            client = entry.client
            if client is not None and not self._is_usable(client):
                client.close()
                client = None
            if client is None:
                self._close_longest_idle()
                try:
                    client = entry.client = AgentClient(target.name, self._connect(target))
                except RemoteError as error:
                    entry.failed = time.monotonic(), error
                    raise
            return client

    def _close_longest_idle(self) -> None:
        """Close the connections that were idle for longest, so that with one more there are at most most_hosts()
        connections.
        """
        with self._lock:
            if len(self._entries) < most_hosts():
                return
            open_ones = [(target, entry) for target, entry in self._entries.items() if entry.client is not None]
            idle = [(target, entry) for target, entry in open_ones if not entry.borrowed]
            idle.sort(key=lambda pair: pair[1].client.used_at if pair[1].client else 0.0)
            gone = idle[: max(0, len(open_ones) + 1 - most_hosts())]
            for target, _entry in gone:
                self._entries.pop(target)
        for _target, entry in gone:
            if entry.client is not None:
                entry.client.close()

    @staticmethod
    def _is_usable(client: AgentClient) -> bool:
        if not client.is_open:
            return False
        if _is_fresh(client):
            return True
        try:
            client.call("hello", timeout=HELLO_TIMEOUT_S)
        except RemoteError:
            return False
        return True

    def _sweep(self) -> None:
        never = threading.Event()
        while not never.wait(SWEEP_EVERY_S):
            self.close_idle(CLOSE_AFTER_S)

    def close_idle(self, seconds: float) -> None:
        """Close the connections that no session uses and that were not used for at least `seconds`."""
        limit = time.monotonic() - seconds
        with self._lock:
            idle = [
                target
                for target, entry in self._entries.items()
                if not entry.borrowed and (entry.client is None or entry.client.used_at <= limit)
            ]
            gone = [self._entries.pop(target) for target in idle]
        for entry in gone:
            if entry.client is not None:
                entry.client.close()


def retry_lost(work: Callable[[], T]) -> T:
    """Return the result of `work`, which is called once more if the connection is lost: a pooled connection may be dead
    although the host is reachable. Only for work that may be done twice.
    """
    try:
        return work()
    except ConnectionLost:
        return work()


def _is_fresh(client: AgentClient) -> bool:
    return client.is_busy or time.monotonic() - client.used_at < CHECK_AFTER_S


_pool = Pool()
session = _pool.session
is_ready = _pool.is_ready
prepare = _pool.prepare
forget = _pool.forget
close = _pool.close
