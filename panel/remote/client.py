"""Send requests to a running agent and receive the responses, from any number of threads."""

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

Message = dict[str, Any]  # JSON of the agent protocol: arguments, an event or a result (agents/protocol.py)
OnEvent = Callable[[Message], None]
# Callback for each message about one request, None when the connection is lost; runs in the listening thread, so it
# must not block.
Heard = Callable[[Message | None], None]
READY_TIMEOUT_S = 20.0
_ERROR = {"code": str, "message": str, "detail": dict}


def outcome(name: str, op: str, message: Message | None) -> Message:
    """Return the result in `message`, the last message about a request to the host `name`. Raises OperationRefused if
    `message` is an error of the agent, and ConnectionLost if `message` is None.
    """
    if message is None:
        raise ConnectionLost(name, op)
    data: Message = message["data"]
    if message["type"] == "error":
        raise OperationRefused(name, op, data["code"], data["message"], data["detail"])
    return data


def checked(message: Message) -> Message:
    """Return a message from an agent unchanged; raise ValueError if it does not follow the protocol
    (agents/protocol.py).
    """
    kind, data = message.get("type"), message.get("data")
    if kind not in ("ready", "event", "result", "error") or not isinstance(data, dict):
        raise ValueError("a message must have data and the type ready, event, result, or error")
    if kind == "error" and not all(isinstance(data.get(name), of) for name, of in _ERROR.items()):
        raise ValueError("an error must have a code, a message, and a detail")
    return message


class _Waiting:
    """Receiver of the messages about one request: it passes them to the function `heard`, and limits the number and the
    bytes of messages that the request's caller has not processed yet.
    """

    def __init__(self, heard: Heard) -> None:
        self.heard = heard
        self._sizes: deque[int] = deque()
        self._bytes = 0

    def hand(self, message: Message, size: int) -> None:
        """Pass a message to `heard`. Raises TooMuch if too many messages or bytes wait for the request's caller."""
        self._sizes.append(size)
        self._bytes += size
        if len(self._sizes) > MAX_WAITING_EVENTS or self._bytes > MAX_WAITING_BYTES:
            raise TooMuch(
                f"the host sent more than {MAX_WAITING_EVENTS} events or {MAX_WAITING_BYTES} bytes of events at once"
            )
        self.heard(message)

    def taken(self) -> None:
        """Record that the oldest waiting message was processed."""
        self._bytes -= self._sizes.popleft()


class Asked:
    """Request that was sent to an agent, and the queue of the messages about it."""

    def __init__(self, client: AgentClient, ident: str, op: str) -> None:
        self._client = client
        self._ident = ident
        self._op = op
        self._at = time.monotonic()
        self.answers: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self.waiting = _Waiting(self.answers.put)

    def result(self, on_event: OnEvent | None = None, timeout: float | None = None) -> Message:
        """Wait for the result of the request, at most `timeout` seconds from its start, and return it. Each event
        before the result is passed to `on_event`.

        Raises OperationRefused (with the agent's message), ConnectionLost, CallTimeout, and exceptions of `on_event`.
        """
        try:
            while True:
                message = self._next(timeout)
                if message["type"] != "event":
                    return outcome(self._client.name, self._op, message)
                if on_event is not None:
                    on_event(message["data"])
                if self._client.is_broken:  # messages still in the queue are ignored
                    raise self._client.lost(self._op)
        except (ConnectionLost, OperationRefused):
            raise
        except BaseException:
            self.cancel()  # the result is no longer needed
            raise

    def cancel(self) -> None:
        """Ask the agent to cancel the request if possible; later messages are ignored."""
        self._client.cancel(self._ident)

    def overdue(self, timeout: float) -> CallTimeout | None:
        """Return a CallTimeout once the request is older than `timeout` seconds, None before."""
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
    """Connection to one running agent. The listening thread of the panel's process reads the responses and passes them
    to the threads that wait for them.
    """

    def __init__(self, name: str, link: Link) -> None:
        self.name = name
        self.link = link
        self.used_at = time.monotonic()
        self.identity: Message = {}
        self._ids = itertools.count(1)
        self._waiting: dict[str, _Waiting] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._closed = False
        self._broke = ""  # protocol violation by the host
        self._pending = bytearray()  # an incomplete line
        self._skipped = 0
        greeting: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._waiting[""] = _Waiting(greeting.put)
        if self._hear():  # data read while the link was created
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
        """True if the host violated the agent protocol."""
        return bool(self._broke)

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting)

    def call(
        self, op: str, args: Message | None = None, on_event: OnEvent | None = None, timeout: float | None = None
    ) -> Message:
        """Run one operation of the agent and return its result. `timeout` is in seconds, from the request to the
        result. Raises the same errors as Asked.result.
        """
        return self.ask(op, args).result(on_event, timeout)

    def ask(self, op: str, args: dict[str, object] | None = None, heard: Heard | None = None) -> Asked:
        """Send a request without waiting for its result. The messages about it are passed to the function `heard`;
        without `heard`, the caller reads them with `Asked.result`.

        Raises ConnectionLost if the connection is already closed. If it closes later, `heard` receives None, or
        `Asked.result` raises ConnectionLost.
        """
        ident = str(next(self._ids))
        asked = Asked(self, ident, op)
        with self._lock:
            if self._closed:
                raise self.lost(op)
            self._waiting[ident] = _Waiting(heard) if heard else asked.waiting
        self.used_at = time.monotonic()
        with suppress(ConnectionLost):  # already reported to the waiting thread
            self._send({"v": wire.VERSION, "id": ident, "op": op, "args": args or {}}, op)
        return asked

    def cancel(self, ident: str) -> None:
        """Ask the agent to cancel a request, and ignore its further messages."""
        with self._lock:
            if self._waiting.pop(ident, None) is None:
                return
        try:
            self._send({"v": wire.VERSION, "id": f"c{ident}", "op": "cancel", "args": {"id": ident}}, "cancel")
        except ConnectionLost:
            return

    def lost(self, op: str) -> ConnectionLost:
        """Return the exception for a request whose connection was lost: ProtocolBroken if the host violated the agent
        protocol, otherwise ConnectionLost.
        """
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
        """Read the available data and pass each message to its receiver; return False once the connection has ended."""
        try:
            data = self.link.read()
            if data is None or (data and self._take(data)):
                return True
        except (ValueError, TooMuch) as error:
            self._broke = str(error)
        except (OSError, EOFError, paramiko.SSHException):
            pass  # the connection is gone; the reason is determined below
        except BaseException:
            self._end()
            raise
        self._broke = self._broke or self.link.broke()
        self._end()
        return False

    def _take(self, data: bytes) -> bool:
        """Pass each message, a complete line of `data`, to its receiver; return True. Lines before the agent's first
        message are skipped. Raises ValueError for an invalid line, TooMuch for a line that is too long.
        """
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
            raise TooMuch(f"the host sent a line of more than {limit} bytes")
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
        """Close the connection and tell all waiting threads that it is lost."""
        with self._lock:
            self._closed = True
            waiting = list(self._waiting.values())
            self._waiting.clear()
        for known in waiting:
            known.heard(None)
        self.link.close()
