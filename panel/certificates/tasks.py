"""Thin tasks: load, call the service, nothing else."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from panel.certificates import host_files, ordering, scheduling, watching
from panel.websites.services.certificates import certificates_judge


@shared_task
def run(uuid: str) -> None:
    """Carry out one order. A message for one that another worker has does nothing."""
    ordering.order_execute(UUID(uuid))


@shared_task
def sweep() -> None:
    """Begin due orders, and wake workers for all waiting ones."""
    scheduling.look()
    for uuid in scheduling.orders_waiting():
        run.delay(str(uuid))


@shared_task
def read_host_files() -> None:
    """Read the certificates that other programs renew on the hosts, and look at those that nobody looked at yet."""
    host_files.look()
    certificates_judge()


@shared_task
def watch_listeners() -> None:
    """Look at the certificates that live sites present."""
    watching.look()
