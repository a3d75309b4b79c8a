"""Thin tasks: load, call the service, nothing else."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from panel.previews import execution


@shared_task
def run(uuid: str) -> None:
    """Execute one preview. Does nothing if another worker owns it."""
    execution.preview_execute(UUID(uuid))


@shared_task
def sweep() -> None:
    """Wake workers for everything that waits, including previews of dead workers."""
    for uuid in execution.orphans_queue():
        run.delay(str(uuid))
