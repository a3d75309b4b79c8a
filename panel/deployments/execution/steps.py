"""Store the steps that agents report as Step rows, during a deployment and again when its result is known."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from django.db import DatabaseError
from django.db.models import Count, Max

from agents.protocol import StepEvent
from panel.deployments.models import Deployment, Step, StepStatus

logger = logging.getLogger(__name__)
_MEMBERS = {item.name for item in fields(StepEvent)}
_KEY = ["deployment", "position"]
_COLUMNS = ["name", "status", "argv", "exit_code", "output", "started_at", "finished_at"]


def _time(seconds: float) -> datetime.datetime | None:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC) if seconds else None


def _row(deployment: int, position: int, event: StepEvent) -> Step:
    return Step(
        deployment_id=deployment,
        position=position,
        name=event.name,
        status=event.status,
        argv=event.argv,
        exit_code=event.exit_code,
        output=event.output.replace("\0", "\ufffd"),  # PostgreSQL cannot store NUL
        started_at=_time(event.started_at),
        finished_at=_time(event.finished_at),
    )


def _store(rows: Iterable[Step]) -> None:
    Step.objects.bulk_create(rows, update_conflicts=True, unique_fields=_KEY, update_fields=_COLUMNS)


@dataclass
class _Heard:
    """Steps of one deployment that were reported since the last write, and the number of steps reported so far
    (`position`).
    """

    position: int = 0
    running: str = ""
    unwritten: dict[int, StepEvent] = field(default_factory=dict)

    def add(self, event: StepEvent) -> None:
        """Add an event. An event of the running step replaces the previous event; any other event begins a step."""
        if self.running != event.name:
            self.position += 1
        self.unwritten[self.position - 1] = event
        self.running = event.name if event.status == StepStatus.RUNNING else ""


class Recorder:
    """Collect the step events of deployments, and write new events with one statement.

    Database errors are logged, not raised, so that the deployment goes on even if its page lacks some steps.
    `steps_replace` corrects the rows afterwards.
    """

    def __init__(self) -> None:
        self._heard: dict[int, _Heard] = {}

    def resume(self, deployments: Iterable[Deployment]) -> None:
        """Number new steps of the deployments after the steps that an earlier attempt has stored."""
        counts = Step.objects.filter(deployment__in=list(deployments)).order_by().values("deployment")
        for row in counts.annotate(count=Count("pk")):
            self._heard[row["deployment"]] = _Heard(row["count"])

    def hear(self, deployment: Deployment, data: Mapping[str, Any]) -> None:
        try:
            event = StepEvent(**{name: value for name, value in data.items() if name in _MEMBERS})
        except TypeError:
            logger.exception("a step of deployment %s is not one", deployment.uuid)
            return
        self._heard.setdefault(deployment.pk, _Heard()).add(event)

    def forget(self, deployments: Iterable[Deployment]) -> None:
        """Discard collected events of deployments that have ended or were released."""
        for deployment in deployments:
            self._heard.pop(deployment.pk, None)

    def write(self) -> None:
        rows = [
            _row(deployment, position, event)
            for deployment, heard in self._heard.items()
            for position, event in heard.unwritten.items()
        ]
        for heard in self._heard.values():
            heard.unwritten.clear()
        try:
            _store(rows)
        except (DatabaseError, ValueError):
            logger.exception("steps of %d deployments could not be written", len(self._heard))


def steps_replace(said: Mapping[int, Sequence[StepEvent]]) -> None:
    """Replace the Step rows of deployments (by id) with the steps in the agents' results. Runs in the caller's
    transaction.
    """
    said = {pk: events for pk, events in said.items() if events}
    if not said:
        return
    _store(_row(pk, number, event) for pk, events in said.items() for number, event in enumerate(events))
    last = Step.objects.filter(deployment__in=said).order_by().values("deployment").annotate(last=Max("position"))
    for row in last:
        events = said[row["deployment"]]
        if row["last"] >= len(events):
            Step.objects.filter(deployment=row["deployment"], position__gte=len(events)).delete()
