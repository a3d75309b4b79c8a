"""Send Celery messages that wake workers for queued deployments, one message for up to AT_ONCE deployments."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from panel.core.messages import Task, task_send

AT_ONCE = 64  # deployments that one worker carries out together


def deployments_wake(uuids: Sequence[UUID]) -> None:
    for start in range(0, len(uuids), AT_ONCE):
        task_send(Task.DEPLOYMENTS_RUN, *map(str, uuids[start : start + AT_ONCE]))
