"""Thin tasks: load, call the service, nothing else."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from panel.rollouts import advancing

MOST_WAIT_S = 5.0  # a longer wait is left to the sweep


@shared_task
def advance(uuid: str) -> None:
    """Take the next step of one rollout. Does nothing if another worker takes it."""
    wait_s = advancing.rollout_advance(UUID(uuid))
    if wait_s is not None and wait_s <= MOST_WAIT_S:
        advance.apply_async((uuid,), countdown=wait_s)


@shared_task
def sweep() -> None:
    """Wake workers for rollouts that are due, those of dead workers included."""
    for uuid in advancing.rollouts_due():
        advance.delay(str(uuid))
