"""Requests to one running agent and their answers, from any number of threads at once."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paramiko

from agents import wire
from panel.remote.errors import AgentUnavailable, CallTimeout, ConnectionLost, OperationRefused
from panel.remote.links import Link

OnEvent = Callable[[dict[str, Any]], None]
READY_TIMEOUT_S = 20.0
# What a login's start-up files may print before the agent speaks.
MAX_PREAMBLE_BYTES = 64 * 1024


class AgentClient:
    """One agent process. A thread reads its answers and hands each to whoever waits for it."""

    def __init__(self, name: str, link: Link) -> None:
        self.name = name
        self.link = link
        self.used_at = time.monotonic()
        self.identity: dict[str, Any] = {}
        self._ids = itertools.count(1)
        self._waiting: dict[str, queue.SimpleQueue[dict[str, Any] | None]] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._closed = False
        greeting: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._waiting[""] = greeting
        threading.Thread(target=self._read, name=f"agent {name}", daemon=True).start()
        try:
            ready = greeting.get(timeout=READY_TIMEOUT_S)
        except queue.Empty:
            ready = None
        if ready is None:
            self.close()
            raise AgentUnavailable(name, "it ended, or said nothing, before it was ready")
        self.identity = ready["data"]

    @property
    def is_open(self) -> bool:
        return not self._closed

    @property
    def is_busy(self) -> bool:
        return len(self._waiting) > 1

    def call(
        self, op: str, args: dict[str, Any] | None = None, on_event: OnEvent | None = None, timeout: float | None = None
    ) -> dict[str, Any]:
        """The result of one operation. `timeout` is in seconds for the whole call.

        Raises OperationRefused (the agent's own words), ConnectionLost, CallTimeout, and whatever `on_event` raises.
        """
        ident = str(next(self._ids))
        answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        with self._lock:
            if self._closed:
                raise ConnectionLost(self.name, op)
            self._waiting[ident] = answers
        try:
            self._send({"v": wire.VERSION, "id": ident, "op": op, "args": args or {}}, op)
            return self._answered(ident, op, answers, on_event, timeout)
        finally:
            self.used_at = time.monotonic()
            with self._lock:
                self._waiting.pop(ident, None)

    def cancel_all(self) -> None:
        """Asks the agent to take back whatever this client waits for."""
        for ident in [known for known in self._waiting if known]:
            self._cancel(ident)

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self.link.close()

    def put(self, local: Path, remote: str) -> str:
        return self.link.put(local, remote)

    def _answered(
        self,
        ident: str,
        op: str,
        answers: queue.SimpleQueue[dict[str, Any] | None],
        on_event: OnEvent | None,
        timeout: float | None,
    ) -> dict[str, Any]:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                message = answers.get(timeout=left)
            except queue.Empty:
                self._cancel(ident)
                raise CallTimeout(self.name, op, timeout or 0.0) from None
            if message is None:
                raise ConnectionLost(self.name, op)
            data: dict[str, Any] = message["data"]
            if message["type"] == "event":
                if on_event is not None:
                    self._heard(ident, on_event, data)
            elif message["type"] == "error":
                raise OperationRefused(self.name, op, data["code"], data["message"], data["detail"])
            else:
                return data

    def _heard(self, ident: str, on_event: OnEvent, data: dict[str, Any]) -> None:
        try:
            on_event(data)
        except BaseException:
            self._cancel(ident)  # nobody waits for the outcome any more
            raise

    def _cancel(self, ident: str) -> None:
        try:
            self._send({"v": wire.VERSION, "id": f"c{ident}", "op": "cancel", "args": {"id": ident}}, "cancel")
        except ConnectionLost:
            return

    def _send(self, message: dict[str, Any], op: str) -> None:
        try:
            with self._writing:
                self.link.write(wire.encode(message))
        except (OSError, EOFError, ValueError, paramiko.SSHException):
            self._end()
            raise ConnectionLost(self.name, op) from None

    def _read(self) -> None:
        """Reads until the channel ends. The first line that is a message ends the preamble."""
        pending: list[bytes] = []
        greeted = False
        skipped = 0
        try:
            while data := self.link.read():
                *lines, rest = data.split(b"\n")
                for line in lines:
                    whole = b"".join([*pending, line])
                    pending.clear()
                    try:
                        self._hand_over(wire.decode(whole))
                        greeted = True
                    except ValueError:
                        skipped += len(whole)
                        if greeted or skipped > MAX_PREAMBLE_BYTES:
                            return
                if rest:
                    pending.append(rest)
        except (OSError, EOFError, ValueError, paramiko.SSHException):
            return
        finally:
            self._end()

    def _hand_over(self, message: dict[str, Any]) -> None:
        waiting = self._waiting.get(str(message.get("id")))
        if waiting is not None:
            waiting.put(message)

    def _end(self) -> None:
        """Everyone who waits is told that the connection is gone."""
        with self._lock:
            self._closed = True
            waiting = list(self._waiting.values())
        for answers in waiting:
            answers.put(None)
        self.link.close()
