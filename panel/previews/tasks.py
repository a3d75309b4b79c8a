"""Celery tasks of previews. Each task calls a service and has no logic of its own."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from panel.previews import execution


@shared_task
def run(uuid: str) -> None:
    """Execute one preview, or do nothing if another worker owns it."""
    execution.preview_execute(UUID(uuid))


@shared_task
def sweep() -> None:
    """Wake workers for all queued previews, including those of dead workers."""
    for uuid in execution.orphans_queue():
        run.delay(str(uuid))
