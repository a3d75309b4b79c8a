"""The steps of a transaction as the panel shows them: streamed as they begin and end, kept in the journal."""

from __future__ import annotations

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


class Steps:
    """All steps so far. `journal` gets them too, once there is one."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self.journal: Journal | None = None
        self.done: list[dict[str, Any]] = []

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Runs the body as a step. Its exception fails the step and goes on as `Failed` with words for a person;
        a Refusal goes on as it is."""
        step = Step(name)
        self._emit(step.data())
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
        self._emit(data)

    def result(self, outcome: str, error: str = "") -> dict[str, Any]:
        """An ApplyResult."""
        return {"outcome": outcome, "error": error, "steps": self.done}
