"""Celery tasks of reports. Each task calls a service and has no logic of its own."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from panel.reports import delivering, watching


@shared_task
def deliver(uuid: str) -> None:
    """Try one delivery of a report, or do nothing if another worker owns the delivery."""
    delivering.attempt(UUID(uuid))


@shared_task
def sweep() -> None:
    """Start due runs, create reports of ended runs, and wake workers for due deliveries."""
    watching.look()
    for uuid in delivering.waiting():
        deliver.delay(str(uuid))
