"""Celery tasks of rollouts. They only call services."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from panel.rollouts import advancing

MOST_WAIT_S = 5.0  # the task `sweep` continues after a longer wait


@shared_task
def advance(uuid: str) -> None:
    """Take the next step of one rollout. Does nothing if another worker takes it."""
    wait_s = advancing.rollout_advance(UUID(uuid))
    if wait_s is not None and wait_s <= MOST_WAIT_S:
        advance.apply_async((uuid,), countdown=wait_s)


@shared_task
def sweep() -> None:
    """Start tasks for all rollouts whose next step is due, including those of dead workers."""
    for uuid in advancing.rollouts_due():
        advance.delay(str(uuid))
