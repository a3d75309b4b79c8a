"""Requests to one running agent and their answers, from any number of threads at once."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import paramiko

from agents import wire
from panel.remote.bounds import MAX_WAITING_BYTES, MAX_WAITING_EVENTS, TooMuch
from panel.remote.errors import AgentUnavailable, CallTimeout, ConnectionLost, OperationRefused, ProtocolBroken
from panel.remote.links import MAX_PREAMBLE_BYTES, Link
from panel.remote.listening import listener

OnEvent = Callable[[dict[str, Any]], None]
Message = dict[str, Any]
# Gets each message about one request, None when the connection is gone; in the thread that hears all agents, so it
# must not wait for anything.
Heard = Callable[[Message | None], None]
READY_TIMEOUT_S = 20.0
_ERROR = {"code": str, "message": str, "detail": dict}


def outcome(name: str, op: str, message: Message | None) -> dict[str, Any]:
    """What the last message about a request holds. Raises OperationRefused or ConnectionLost."""
    if message is None:
        raise ConnectionLost(name, op)
    data: dict[str, Any] = message["data"]
    if message["type"] == "error":
        raise OperationRefused(name, op, data["code"], data["message"], data["detail"])
    return data


def checked(message: Message) -> Message:
    """A message from an agent as agents/protocol.py has it; ValueError for any other."""
    kind, data = message.get("type"), message.get("data")
    if kind not in ("ready", "event", "result", "error") or not isinstance(data, dict):
        raise ValueError("a message is ready, an event, a result or an error, and has data")
    if kind == "error" and not all(isinstance(data.get(name), of) for name, of in _ERROR.items()):
        raise ValueError("an error has a code, a message and its detail")
    return message


class _Waiting:
    """Who waits for messages about one request, and how much of them nobody has taken yet."""

    def __init__(self, heard: Heard) -> None:
        self.heard = heard
        self._sizes: deque[int] = deque()
        self._bytes = 0

    def hand(self, message: Message, size: int) -> None:
        """ValueError when too much waits."""
        self._sizes.append(size)
        self._bytes += size
        if len(self._sizes) > MAX_WAITING_EVENTS or self._bytes > MAX_WAITING_BYTES:
            raise TooMuch(
                f"the host sent more than {MAX_WAITING_EVENTS} events or {MAX_WAITING_BYTES} bytes of events at once"
            )
        self.heard(message)

    def taken(self) -> None:
        """One of them has been dealt with."""
        self._bytes -= self._sizes.popleft()


class Asked:
    """One request under way."""

    def __init__(self, client: AgentClient, ident: str, op: str) -> None:
        self._client = client
        self._ident = ident
        self._op = op
        self._at = time.monotonic()
        self.answers: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self.waiting = _Waiting(self.answers.put)

    def result(self, on_event: OnEvent | None = None, timeout: float | None = None) -> dict[str, Any]:
        """Waits for it, `timeout` seconds from when it was asked.

        Raises OperationRefused (the agent's own words), ConnectionLost, CallTimeout, and whatever `on_event` raises.
        """
        try:
            while True:
                message = self._next(timeout)
                if message["type"] != "event":
                    return outcome(self._client.name, self._op, message)
                if on_event is not None:
                    on_event(message["data"])
                if self._client.is_broken:  # what waits still is not worth the time that it takes
                    raise self._client.lost(self._op)
        except (ConnectionLost, OperationRefused):
            raise
        except BaseException:
            self.cancel()  # nobody waits for the outcome any more
            raise

    def cancel(self) -> None:
        """Has the agent take it back where it can; nothing more is heard of it."""
        self._client.cancel(self._ident)

    def overdue(self, timeout: float) -> CallTimeout | None:
        """The error that it is, once it was asked `timeout` seconds ago."""
        if time.monotonic() - self._at < timeout:
            return None
        return CallTimeout(self._client.name, self._op, timeout)

    def _next(self, timeout: float | None) -> Message:
        left = None if timeout is None else max(0.0, self._at + timeout - time.monotonic())
        try:
            message = self.answers.get(timeout=left)
        except queue.Empty:
            raise CallTimeout(self._client.name, self._op, timeout or 0.0) from None
        if message is None:
            raise self._client.lost(self._op)
        self.waiting.taken()
        return message


class AgentClient:
    """One agent process. Its answers are heard by the thread that hears all of them and handed to whoever waits."""

    def __init__(self, name: str, link: Link) -> None:
        self.name = name
        self.link = link
        self.used_at = time.monotonic()
        self.identity: dict[str, Any] = {}
        self._ids = itertools.count(1)
        self._waiting: dict[str, _Waiting] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._closed = False
        self._broke = ""  # what the host did that no agent does
        self._pending = bytearray()  # a line that has not ended
        self._skipped = 0
        greeting: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._waiting[""] = _Waiting(greeting.put)
        if self._hear():  # what was read already when the link was made
            listener().add(link.fileno(), self._hear)
        try:
            ready = greeting.get(timeout=READY_TIMEOUT_S)
        except queue.Empty:
            ready = None
        if ready is None:
            self.close()
            raise AgentUnavailable(name, self._broke or "the agent exited or sent no output before it was ready")
        self.identity = ready["data"]

    @property
    def is_open(self) -> bool:
        return not self._closed

    @property
    def is_broken(self) -> bool:
        """Whether the host did what no agent does."""
        return bool(self._broke)

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting)

    def call(
        self, op: str, args: dict[str, Any] | None = None, on_event: OnEvent | None = None, timeout: float | None = None
    ) -> dict[str, Any]:
        """The result of one operation. `timeout` is in seconds for the whole call. Raises what Asked.result does."""
        return self.ask(op, args).result(on_event, timeout)

    def ask(self, op: str, args: dict[str, Any] | None = None, heard: Heard | None = None) -> Asked:
        """Sends a request and does not wait. Its messages go to `heard`, else to the result. ConnectionLost when
        nothing was sent; from then on that is heard like an answer."""
        ident = str(next(self._ids))
        asked = Asked(self, ident, op)
        with self._lock:
            if self._closed:
                raise self.lost(op)
            self._waiting[ident] = _Waiting(heard) if heard else asked.waiting
        self.used_at = time.monotonic()
        with suppress(ConnectionLost):  # whoever waits was told
            self._send({"v": wire.VERSION, "id": ident, "op": op, "args": args or {}}, op)
        return asked

    def cancel(self, ident: str) -> None:
        """Asks the agent to take one request back; nothing is heard of it any more."""
        with self._lock:
            if self._waiting.pop(ident, None) is None:
                return
        try:
            self._send({"v": wire.VERSION, "id": f"c{ident}", "op": "cancel", "args": {"id": ident}}, "cancel")
        except ConnectionLost:
            return

    def lost(self, op: str) -> ConnectionLost:
        """The error of a request whose connection is gone."""
        return ProtocolBroken(self.name, op, self._broke) if self._broke else ConnectionLost(self.name, op)

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self.link.close()

    def put(self, local: Path, remote: str) -> str:
        return self.link.put(local, remote)

    def _send(self, message: Message, op: str) -> None:
        try:
            with self._writing:
                self.link.write(wire.encode(message))
        except (OSError, EOFError, ValueError, paramiko.SSHException):
            self._end()
            raise ConnectionLost(self.name, op) from None

    def _hear(self) -> bool:
        """Reads what is there; False once the channel has ended."""
        try:
            data = self.link.read()
            if data is None or (data and self._take(data)):
                return True
        except (ValueError, TooMuch) as error:
            self._broke = str(error)
        except (OSError, EOFError, paramiko.SSHException):
            pass  # it is gone, and why is asked below
        except BaseException:
            self._end()
            raise
        self._broke = self._broke or self.link.broke()
        self._end()
        return False

    def _take(self, data: bytes) -> bool:
        """Hands on every whole line. The first that is a message ends the preamble; ValueError for one that is none,
        and for one that is too long, before it has ended."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            whole, self._pending = bytes(self._pending + line) if self._pending else line, bytearray()
            try:
                message = checked(wire.decode(whole, wire.MAX_ANSWER_BYTES))
            except ValueError:
                self._skipped += len(whole)
                if "" not in self._waiting or self._skipped > MAX_PREAMBLE_BYTES:
                    raise
            else:
                self._hand_over(message, len(whole))
        self._pending += rest
        limit = MAX_PREAMBLE_BYTES if "" in self._waiting else wire.MAX_ANSWER_BYTES
        if len(self._pending) > limit:
            self._pending = bytearray()
            raise TooMuch(f"it sent a line of more than {limit} bytes")
        return True

    def _hand_over(self, message: Message, size: int) -> None:
        ident = str(message.get("id"))
        with self._lock:
            goes_on = message.get("type") == "event"
            waiting = self._waiting.get(ident) if goes_on else self._waiting.pop(ident, None)
        if not goes_on:
            self.used_at = time.monotonic()
        if waiting is not None:
            waiting.hand(message, size)

    def _end(self) -> None:
        """Everyone who waits is told that the connection is gone."""
        with self._lock:
            self._closed = True
            waiting = list(self._waiting.values())
            self._waiting.clear()
        for known in waiting:
            known.heard(None)
        self.link.close()
