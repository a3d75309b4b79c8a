"""Celery tasks of benchmarks. Each task calls a service and has no logic of its own."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from panel.benchmarks.runs import execution
from panel.benchmarks.suites import services as suite_services
from panel.core.claims import Attempt
from panel.core.messages import busy_retry

ASK_RETRY_S = 20


@shared_task
def run(uuid: str) -> None:
    """Execute one run, or do nothing if another worker owns the run. The task is tried again later if a host of the run
    is locked.
    """
    attempt = execution.run_execute(UUID(uuid))
    if attempt == Attempt.BUSY:
        busy_retry(run, (uuid,))
    elif attempt == Attempt.DONE:
        suite_services.suites_advance()


@shared_task
def ask_left(uuid: str) -> None:
    """Record what a dead worker's run left on its hosts. The task is tried again later while another job locks one of
    the hosts.
    """
    if execution.orphan_ask(UUID(uuid)) == Attempt.BUSY:
        ask_left.apply_async((uuid,), countdown=ASK_RETRY_S)


@shared_task
def sweep() -> None:
    """End runs of dead workers, queue the next cases of suites, and wake workers for queued runs."""
    for uuid in execution.orphans_end():
        ask_left.delay(str(uuid))
    suite_services.suites_advance()
    for uuid in execution.waiting():
        run.delay(str(uuid))
