"""Run the agent's process: read requests from standard input, write responses to standard output.

Every request has its own thread. The end of the input means that the panel has disconnected. Then transactions run to
their end, all other requests are cancelled, and the process exits.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any, BinaryIO

from agents import wire
from agents.host import faults, operations
from agents.host.errors import Refusal
from agents.host.hello import identity


class Channel:
    """Connection of the agent to the panel over standard input and output: requests in, events and results out."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._writing = threading.Lock()
        self._running: dict[str, tuple[str, threading.Event]] = {}
        self._threads: list[threading.Thread] = []  # of requests that may still run

    def serve(self) -> None:
        """Process requests until the input ends, then wait for the requests that still run."""
        self._send("", "ready", identity())
        while True:
            line = self._source.readline(wire.MAX_LINE_BYTES + 1)
            if not line:
                break
            if len(line) > wire.MAX_LINE_BYTES:
                self._fail("", Refusal("invalid", "a request of more than %d bytes" % wire.MAX_LINE_BYTES))
                break
            if line.strip():
                self._receive(line)
        faults.channel_closed.set()
        for operation, cancelled in list(self._running.values()):
            if operation not in operations.UNINTERRUPTED:
                cancelled.set()
        for thread in self._threads:
            thread.join()

    def _receive(self, line: bytes) -> None:
        try:
            message = wire.decode(line)
            ident, operation, args = message["id"], message["op"], message.get("args", {})
            if not (isinstance(ident, str) and isinstance(operation, str) and isinstance(args, dict)):
                raise ValueError("id and op must be strings, args an object")
        except (ValueError, KeyError) as error:
            self._fail("", Refusal("invalid", "not a request: %s" % error))
            return
        if operation == "cancel":
            self._cancel(ident, args)
        elif ident in self._running:
            self._fail(ident, Refusal("invalid", "request %s is still running: give every request its own id" % ident))
        else:
            self._start(ident, operation, args)

    def _start(self, ident: str, operation: str, args: dict[str, Any]) -> None:
        cancelled = threading.Event()
        self._running[ident] = (operation, cancelled)
        thread = threading.Thread(target=self._run, args=(ident, operation, args, cancelled), daemon=True)
        thread.start()
        self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]

    def _cancel(self, ident: str, args: dict[str, Any]) -> None:
        running = self._running.get(str(args.get("id", "")))
        if running is not None:
            running[1].set()
        self._send(ident, "result", {"cancelled": running is not None})

    def _run(self, ident: str, operation: str, args: dict[str, Any], cancelled: threading.Event) -> None:
        try:
            function = operations.find(operation)
            if function is None:
                raise Refusal("invalid", "this agent knows no operation %r" % operation)
            result = function(args, lambda data: self._send(ident, "event", data), cancelled)
        except Refusal as error:
            self._finish(ident)
            self._fail(ident, error)
        except Exception as error:  # noqa: BLE001 - the last line: reported, never swallowed
            self._finish(ident)
            self._fail(ident, unexpected(operation, error))
        else:
            self._finish(ident)
            self._send(ident, "result", result)

    def _finish(self, ident: str) -> None:
        self._running.pop(ident, None)

    def _fail(self, ident: str, error: Refusal) -> None:
        self._send(ident, "error", {"code": error.code, "message": error.message, "detail": error.detail})

    def _send(self, ident: str, kind: str, data: dict[str, Any]) -> None:
        """Send one message. If the panel has disconnected, drop it: the journal has all important data.

        A result that exceeds the panel's limit is replaced by an error; an event that exceeds the limit is dropped.
        """
        line = wire.encode({"v": wire.VERSION, "id": ident, "type": kind, "data": data})
        if len(line) > wire.MAX_ANSWER_BYTES:
            if kind != "event":
                words = "the response is %d bytes long, more than the panel accepts; request less at once" % len(line)
                self._fail(ident, Refusal("failed", words))
            return
        with self._writing:
            try:
                self._sink.write(line)
                self._sink.flush()
            except (OSError, ValueError):
                return


def unexpected(operation: str, error: Exception) -> Refusal:
    """Return a Refusal for an unexpected exception of an operation. For an OSError, it has the error's message; for any
    other exception, the name of its class and its place in the code, but no values.
    """
    if isinstance(error, OSError):
        return Refusal("failed", "%s: %s" % (operation, error))
    places = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append("%s:%d" % (os.path.basename(code.co_filename), trace.tb_lineno))
        trace = trace.tb_next
    message = "the operation %s failed inside the agent (%s at %s). This is a bug in the agent; report the bug."
    return Refusal("internal", message % (operation, type(error).__name__, " > ".join(places[-4:])))


def main() -> None:
    """Serve requests from standard input. Other output of this process goes to standard error, not to the panel."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for number in (signal.SIGPIPE, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o022)
    os.chdir("/")  # started programs must not keep a folder busy
    Channel(sys.stdin.buffer, sink).serve()
    # all threads have ended and everything is written: cleaning up the interpreter takes as long as starting it
