"""Celery tasks of publications. They only call services."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from panel.publishing import execution


@shared_task
def run(uuid: str) -> None:
    """Execute one publication. Does nothing if another worker owns it."""
    execution.publication_execute(UUID(uuid))


@shared_task
def sweep() -> None:
    """Start tasks for all queued publications, including those of dead workers."""
    for uuid in execution.orphans_queue():
        run.delay(str(uuid))
