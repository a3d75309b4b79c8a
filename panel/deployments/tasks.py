"""Thin: load, call the service, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from celery import shared_task

from panel.deployments.drift import services as drift
from panel.deployments.execution import services as execution
from panel.hosts.claims import Attempt
from panel.hosts.models import Host, HostStatus

BUSY_RETRY_S = 2


@shared_task
def run(*uuids: str) -> None:
    """Carry out some deployments together. A message for one that another worker has does nothing."""
    attempts = execution.deployments_execute([UUID(uuid) for uuid in uuids])
    busy = [str(uuid) for uuid, attempt in attempts.items() if attempt == Attempt.BUSY]
    if busy:
        run.apply_async(tuple(busy), countdown=BUSY_RETRY_S)


def wake(uuids: Sequence[UUID]) -> None:
    """One message for as many as are carried out together."""
    for start in range(0, len(uuids), execution.AT_ONCE):
        run.delay(*map(str, uuids[start : start + execution.AT_ONCE]))


@shared_task
def sweep() -> None:
    """Wake workers for everything that waits, what a dead worker left included."""
    wake(execution.orphans_queue())


@shared_task
def check_drift() -> None:
    for pk in Host.objects.filter(status=HostStatus.READY, is_paused=False).values_list("pk", flat=True):
        check_host_drift.delay(pk)


@shared_task
def check_host_drift(host: int) -> None:
    drift.drift_check_quietly(Host.objects.get(pk=host))
