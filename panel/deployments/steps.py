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
    """Writes each event of one deployment as it comes. Never raises: a page that shows less is no reason to leave a
    host alone in the middle of a transaction; `steps_replace` puts it right afterwards."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._position = Step.objects.filter(deployment=deployment).count()

    def __call__(self, data: dict[str, Any]) -> None:
        try:
            self._write(StepEvent(**{name: value for name, value in data.items() if name in _MEMBERS}))
        except (DatabaseError, TypeError, ValueError):
            logger.exception("a step of deployment %s could not be written", self._deployment.uuid)

    def _write(self, event: StepEvent) -> None:
        running = Step.objects.filter(
            deployment=self._deployment, name=event.name, status=StepStatus.RUNNING, position=self._position - 1
        )
        if running.update(**_values(event)):
            return
        Step.objects.create(deployment=self._deployment, position=self._position, **_values(event))
        self._position += 1


@transaction.atomic
def steps_replace(deployment: Deployment, events: Sequence[StepEvent]) -> None:
    """Make the rows what the agent's own journal says."""
    if not events:
        return
    rows = {row.position: row for row in Step.objects.filter(deployment=deployment)}
    for position, event in enumerate(events):
        row = rows.pop(position, None) or Step(deployment=deployment, position=position)
        for name, value in _values(event).items():
            setattr(row, name, value)
        row.save()
    Step.objects.filter(pk__in=[row.pk for row in rows.values()]).delete()
