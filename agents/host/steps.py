"""Record the steps of a transaction: send them to the panel as they begin and end, and write them to the journal."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any

from agents.host.engines.base import EngineError
from agents.host.errors import NoSpace, Refusal
from agents.host.operations import Emit
from agents.host.state import Journal


class Failed(Exception):
    """Error: a step failed. The panel shows the message, which includes the output of the server's command, if any."""


class Step:
    """Data of one step, filled in while the step runs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.status = "running"
        self.argv: list[str] = []
        self.exit_code: int | None = None
        self.output = ""
        self.started_at = time.time()
        self.finished_at = 0.0

    def data(self) -> dict[str, Any]:
        return dict(self.__dict__)


class Outbox:
    """Buffer of events for the panel. Several are sent together, because each message wakes the agent, sshd, and the
    panel.

    The event at the end of a step replaces the event at its beginning, if that has not been sent yet.
    """

    HOLD_S = 0.4

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._held: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._given_up: threading.Event | None = None  # for the thread that sends delayed events

    def put(self, data: dict[str, Any]) -> None:
        with self._lock:
            if self._held and _begins(self._held[-1], data):
                self._held[-1] = data
            else:
                self._held.append(data)
            if self._given_up is None:
                self._given_up = threading.Event()
                threading.Thread(target=self._flush_later, args=(self._given_up,), daemon=True).start()

    def flush(self) -> None:
        """Send the buffered events to the panel."""
        with self._lock:
            self._stop()
            held, self._held = self._held, []
            for data in held:
                self._emit(data)

    def forget(self) -> None:
        """Delete the buffered events without sending them."""
        with self._lock:
            self._stop()
            self._held = []

    def _flush_later(self, given_up: threading.Event) -> None:
        if not given_up.wait(self.HOLD_S):
            self.flush()

    def _stop(self) -> None:
        if self._given_up is not None:
            self._given_up.set()
            self._given_up = None


def _begins(earlier: dict[str, Any], later: dict[str, Any]) -> bool:
    """Return whether `earlier` is the event at the beginning of a step, and `later` a later event of the same step."""
    same = ("name", "started_at")
    return earlier["status"] == "running" and all(earlier[name] == later[name] for name in same)


class Steps:
    """All steps of a transaction so far. They are also recorded in `journal`, once this is set."""

    def __init__(self, emit: Emit) -> None:
        self._outbox = Outbox(emit)
        self.journal: Journal | None = None
        self.done: list[dict[str, Any]] = []

    def step(self, name: str) -> Running:
        """Return a context manager; the body of its `with` statement is the step `name`."""
        return Running(self, Step(name))

    def streamed(self) -> Streamed:
        """Return a context manager for the whole operation.

        At its end, events that are still buffered are sent only if the operation failed. The result of a successful
        operation contains every step, so the events are not needed.
        """
        return Streamed(self._outbox)

    def begin(self, step: Step) -> None:
        self._outbox.put(step.data())

    def end(self, step: Step, status: str, output: str) -> None:
        step.status, step.output, step.finished_at = status, output, time.time()
        data = step.data()
        self.done.append(data)
        self._note(data)
        self._outbox.put(data)

    def _note(self, data: dict[str, Any]) -> None:
        """Record a finished step in the journal. A full disk is ignored, because it must not stop an undo."""
        try:
            if self.journal is not None:
                self.journal.append("step", {"step": data})
        except OSError:
            return

    def result(self, outcome: str, error: str = "") -> dict[str, Any]:
        """Return an ApplyResult (agents/protocol.py) as a dictionary, with the steps so far."""
        return {"outcome": outcome, "error": error, "steps": self.done}


class Running:
    """Context manager of a running step.

    An exception marks the step as failed. An EngineError or OSError is then raised as `Failed`, with a message for
    people; other exceptions are raised unchanged.
    """

    def __init__(self, steps: Steps, step: Step) -> None:
        self._steps = steps
        self._step = step

    def __enter__(self) -> Step:
        self._steps.begin(self._step)
        return self._step

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        step = self._step
        if error is None:
            self._steps.end(step, "succeeded" if step.status == "running" else step.status, step.output)
        elif isinstance(error, EngineError):
            self._steps.end(step, "failed", _said(step, error))
            raise Failed(step.output) from error
        elif isinstance(error, OSError):
            plain = "%s: %s" % (error.strerror or error, error.filename or step.name)
            self._steps.end(step, "failed", str(error) if isinstance(error, NoSpace) else plain)
            raise Failed(step.output) from error
        elif isinstance(error, (Failed, Refusal)):
            self._steps.end(step, "failed", step.output or str(error))


def _said(step: Step, error: EngineError) -> str:
    """Return the message of an error, followed by the output of the server's command, if any. Store the command's argv
    and exit code in `step`.
    """
    if error.done is None:
        return str(error)
    step.argv = step.argv or error.done.argv
    step.exit_code = error.done.exit_code
    return "%s\n%s" % (error, error.done.output) if error.done.output else str(error)


class Streamed:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self._outbox.forget()
        else:
            self._outbox.flush()
