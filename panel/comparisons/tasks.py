"""Celery tasks of server comparisons. Each task calls a service and has no logic of its own."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from panel.comparisons import execution


@shared_task
def run(uuid: str) -> None:
    """Execute one comparison, or do nothing if another worker owns the comparison."""
    execution.comparison_execute(UUID(uuid))


@shared_task
def sweep() -> None:
    """Delete ended comparisons of deleted sites, and wake workers for queued comparisons, including those of dead
    workers.
    """
    execution.forgotten_delete()
    for uuid in execution.orphans_queue():
        run.delay(str(uuid))
