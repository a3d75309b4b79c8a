"""Thin tasks: load, call the service, nothing else."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from panel.reports import delivering, watching


@shared_task
def deliver(uuid: str) -> None:
    """One attempt. A message for a delivery that another worker has does nothing."""
    delivering.attempt(UUID(uuid))


@shared_task
def sweep() -> None:
    """Begin what is due, report what has ended, and wake workers for what is to be sent."""
    watching.look()
    for uuid in delivering.waiting():
        deliver.delay(str(uuid))
