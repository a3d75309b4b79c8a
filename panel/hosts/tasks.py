"""Celery tasks of hosts; each only calls a service."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from panel.core.claims import Attempt
from panel.core.messages import busy_retry
from panel.hosts import execution, retention


@shared_task
def run(uuid: str) -> None:
    """Run one host job. If another worker owns the job, do nothing; if the host is busy, retry later."""
    if execution.host_job_execute(UUID(uuid)) == Attempt.BUSY:
        busy_retry(run, (uuid,))


@shared_task
def sweep() -> None:
    """Wake workers for all queued host jobs, including those of dead workers."""
    for uuid in execution.orphans_queue():
        run.delay(str(uuid))


@shared_task
def forget() -> None:
    """Delete old jobs of hosts, and old readings of their resources."""
    retention.old_forget()
    retention.readings_forget()
