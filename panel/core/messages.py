"""Messages that wake workers. Services name a task and do not import it, because tasks import services."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from celery import Task as CeleryTask
from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

from panel.core.cache import redis_responds_quickly

logger = logging.getLogger(__name__)


class Task(StrEnum):
    """Celery names of the tasks that services start."""

    DEPLOYMENTS_RUN = "panel.deployments.tasks.run"
    DRIFT_CHECK = "panel.deployments.tasks.check_host_drift"
    JOB_RUN = "panel.hosts.tasks.run"
    BENCHMARK_RUN = "panel.benchmarks.tasks.run"
    COMPARISON_RUN = "panel.comparisons.tasks.run"
    CERTIFICATE_ORDER = "panel.certificates.tasks.run"
    PUBLICATION_RUN = "panel.publishing.tasks.run"
    PREVIEW_RUN = "panel.previews.tasks.run"
    ROLLOUT_ADVANCE = "panel.rollouts.tasks.advance"
    PASSWORD_FORGOTTEN = "panel.accounts.tasks.password_forgotten"  # noqa: S105 - a name
    REPORT_DELIVER = "panel.reports.tasks.deliver"


def task_send(task: Task, *args: object) -> bool:
    """Send a task to the queue, to wake a worker now; return whether the queue took the message.

    Workers also find queued rows without a message.
    """
    # Celery's own attempts to reach Redis take seconds each.
    without_queue = getattr(current_app, "without_queue", None)  # a worker's
    if not (without_queue and without_queue.is_on) and not redis_responds_quickly():
        logger.warning("Redis does not respond, so a worker will find %s in the database", task.value)
        return False
    try:
        current_app.send_task(task.value, args)
    except OperationalError as error:
        logger.warning("the queue does not respond, so a worker will find %s in the database: %s", task.value, error)
        return False
    return True


def task_send_on_commit(task: Task, *args: object) -> None:
    """Send a task to the queue after the commit of the current transaction, to wake a worker.

    If the queue does not respond, the request still succeeds.
    """
    transaction.on_commit(lambda: task_send(task, *args), robust=True)


# Seconds before a job whose host is busy is tried again. After the last attempt, the next sweep finds the job. Without
# a limit, each sweep would add a message that is repeated while the host is busy.
BUSY_RETRIES_S = (0.3, 0.7, 1.5)


def busy_retry(task: CeleryTask[Any, Any], args: Sequence[object]) -> None:
    """Send the running task again, because its host is busy. The delay grows with each attempt.

    After as many attempts as BUSY_RETRIES_S has delays, do nothing.
    """
    done = task.request.retries or 0
    if done < len(BUSY_RETRIES_S):
        task.apply_async(tuple(args), countdown=BUSY_RETRIES_S[done], retries=done + 1)  # type: ignore[call-arg] # as Task.retry does
