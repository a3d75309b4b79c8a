"""Thin tasks: load, call the service, nothing else."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from panel.core.claims import Attempt
from panel.core.messages import busy_retry
from panel.hosts import execution, retention


@shared_task
def run(uuid: str) -> None:
    """Run one job. Does nothing if another worker owns it."""
    if execution.host_job_execute(UUID(uuid)) == Attempt.BUSY:
        busy_retry(run, (uuid,))


@shared_task
def sweep() -> None:
    """Wake workers for everything that waits, including jobs of dead workers."""
    for uuid in execution.orphans_queue():
        run.delay(str(uuid))


@shared_task
def forget() -> None:
    """Forget old jobs of hosts, and old readings of their resources."""
    retention.old_forget()
    retention.readings_forget()
