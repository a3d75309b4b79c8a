"""Celery tasks of certificates. They only call services."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from panel.certificates import host_files, ordering, scheduling, watching
from panel.websites.services.certificates import certificates_judge


@shared_task
def run(uuid: str) -> None:
    """Execute one order. Does nothing if another worker owns it."""
    ordering.order_execute(UUID(uuid))


@shared_task
def sweep() -> None:
    """Start the orders that are due, and queue a task for each order that waits."""
    scheduling.look()
    for uuid in scheduling.orders_waiting():
        run.delay(str(uuid))


@shared_task
def read_host_files() -> None:
    """Read the certificates that other programs renew on the hosts, and find faults of certificates not yet checked."""
    host_files.look()
    certificates_judge()


@shared_task
def watch_listeners() -> None:
    """Check the certificates that live sites present."""
    watching.look()


@shared_task
def watch_listeners_again() -> None:
    """Check the certificates of sites with problems, and of sites whose health changed."""
    watching.look_again()
