"""The agent's events as Step rows, while they happen and once more when the outcome is known."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from django.db import DatabaseError, transaction

from agents.protocol import StepEvent
from panel.deployments.models import Deployment, Step, StepStatus

logger = logging.getLogger(__name__)
_MEMBERS = {item.name for item in fields(StepEvent)}
_COLUMNS = ["name", "status", "argv", "exit_code", "output", "started_at", "finished_at"]


def _time(seconds: float) -> datetime.datetime | None:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC) if seconds else None


def _values(event: StepEvent) -> dict[str, Any]:
    return {
        "name": event.name,
        "status": event.status,
        "argv": event.argv,
        "exit_code": event.exit_code,
        "output": event.output.replace("\0", "\ufffd"),  # PostgreSQL keeps no NUL
        "started_at": _time(event.started_at),
        "finished_at": _time(event.finished_at),
    }


class Recorder:
    """Writes each event of one deployment as it comes, with one statement. Never raises: a page that shows less is no
    reason to leave a host alone in the middle of a transaction; `steps_replace` puts it right afterwards."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._position = Step.objects.filter(deployment=deployment).count()
        self._running: Step | None = None

    def __call__(self, data: dict[str, Any]) -> None:
        try:
            self._hear(StepEvent(**{name: value for name, value in data.items() if name in _MEMBERS}))
        except (DatabaseError, TypeError, ValueError):
            logger.exception("a step of deployment %s could not be written", self._deployment.uuid)

    def _hear(self, event: StepEvent) -> None:
        values, row = _values(event), self._running
        if row is not None and row.name == event.name:
            Step.objects.filter(pk=row.pk).update(**values)
        else:
            row = Step.objects.create(deployment=self._deployment, position=self._position, **values)
            self._position += 1
        self._running = row if event.status == StepStatus.RUNNING else None


@transaction.atomic
def steps_replace(deployment: Deployment, events: Sequence[StepEvent]) -> None:
    """Make the rows what the agent's own journal says."""
    if not events:
        return
    Step.objects.bulk_create(
        (Step(deployment=deployment, position=number, **_values(event)) for number, event in enumerate(events)),
        update_conflicts=True,
        unique_fields=["deployment", "position"],
        update_fields=_COLUMNS,
    )
    Step.objects.filter(deployment=deployment, position__gte=len(events)).delete()
