"""The steps of a transaction as the panel shows them: streamed as they begin and end, kept in the journal."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress

from agents.host.engines.base import EngineError
from agents.host.errors import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

    from agents.host.operations import Emit
    from agents.host.state import Journal


class Failed(Exception):
    """A step failed; the message is what the panel shows, in the server's own words where it spoke."""


class Step:
    """What one step did; filled in while it runs."""

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
    """Holds events back for a moment, since most steps are over sooner and every line wakes the agent, sshd and the
    panel: the beginning of a step whose end is known too is not sent, and neither is what the result will hold."""

    HOLD_S = 0.1

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._held: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def put(self, data: dict[str, Any]) -> None:
        with self._lock:
            if self._held and _begins(self._held[-1], data):
                self._held[-1] = data
            else:
                self._held.append(data)
            if self._timer is None:
                self._timer = threading.Timer(self.HOLD_S, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Sends what is held."""
        with self._lock:
            self._stop()
            held, self._held = self._held, []
            for data in held:
                self._emit(data)

    def forget(self) -> None:
        """Drops what is held."""
        with self._lock:
            self._stop()
            self._held = []

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _begins(earlier: dict[str, Any], later: dict[str, Any]) -> bool:
    """Whether these are the beginning and the end of one step."""
    same = ("name", "started_at")
    return earlier["status"] == "running" and all(earlier[name] == later[name] for name in same)


class Steps:
    """All steps so far. `journal` gets them too, once there is one."""

    def __init__(self, emit: Emit) -> None:
        self._outbox = Outbox(emit)
        self.journal: Journal | None = None
        self.done: list[dict[str, Any]] = []

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Runs the body as a step. Its exception fails the step and goes on as `Failed` with words for a person;
        a Refusal goes on as it is."""
        step = Step(name)
        self._outbox.put(step.data())
        try:
            yield step
        except EngineError as error:
            if error.done is not None:
                step.argv = step.argv or error.done.argv
                step.exit_code = error.done.exit_code
            said = error.done.output if error.done is not None else ""
            self._end(step, "failed", "%s\n%s" % (error, said) if said else str(error))
            raise Failed(step.output) from error
        except OSError as error:
            self._end(step, "failed", "%s: %s" % (error.strerror or error, error.filename or name))
            raise Failed(step.output) from error
        except (Failed, Refusal) as error:
            self._end(step, "failed", step.output or str(error))
            raise
        else:
            self._end(step, "succeeded" if step.status == "running" else step.status, step.output)

    def _end(self, step: Step, status: str, output: str) -> None:
        step.status, step.output, step.finished_at = status, output, time.time()
        data = step.data()
        self.done.append(data)
        if self.journal is not None:
            # The record is for people; a disk that is full must not keep an undo from going on.
            with suppress(OSError):
                self.journal.append("step", {"step": data})
        self._outbox.put(data)

    @contextmanager
    def streamed(self) -> Iterator[None]:
        """Around all that is done: its result holds every step, an error none, so what is held is sent with that."""
        try:
            yield
        except BaseException:
            self._outbox.flush()
            raise
        self._outbox.forget()

    def result(self, outcome: str, error: str = "") -> dict[str, Any]:
        """An ApplyResult."""
        return {"outcome": outcome, "error": error, "steps": self.done}
