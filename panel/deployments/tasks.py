"""Thin: load, call the service, nothing else."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from panel.deployments import drift, execution
from panel.hosts.claims import Attempt
from panel.hosts.models import Host, HostStatus

BUSY_RETRY_S = 2


@shared_task
def run(uuid: str) -> None:
    """Carry out one deployment. A message for one that another worker has does nothing."""
    if execution.deployment_execute(UUID(uuid)) == Attempt.BUSY:
        run.apply_async((uuid,), countdown=BUSY_RETRY_S)


@shared_task
def sweep() -> None:
    """Wake workers for everything that waits, what a dead worker left included."""
    for uuid in execution.orphans_queue():
        run.delay(str(uuid))


@shared_task
def check_drift() -> None:
    for pk in Host.objects.filter(status=HostStatus.READY).values_list("pk", flat=True):
        check_host_drift.delay(pk)


@shared_task
def check_host_drift(host: int) -> None:
    drift.drift_check_quietly(Host.objects.get(pk=host))
