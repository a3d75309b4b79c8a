"""Thin tasks: load, call the service, nothing else."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from panel.reports import delivering, watching


@shared_task
def deliver(uuid: str) -> None:
    """Try one delivery. Does nothing if another worker owns it."""
    delivering.attempt(UUID(uuid))


@shared_task
def sweep() -> None:
    """Start due runs, report ended ones, and wake workers for deliveries."""
    watching.look()
    for uuid in delivering.waiting():
        deliver.delay(str(uuid))
