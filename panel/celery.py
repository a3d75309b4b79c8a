"""Celery application; the tasks are in each app's tasks.py."""

import logging
import os
import sys
import threading
from typing import Any

from celery import Celery
from celery.result import AsyncResult
from celery.signals import after_setup_logger, worker_init, worker_ready, worker_shutting_down
from celery.utils import uuid
from django.conf import settings

from panel.core.database_messages import DatabaseAwayFilter
from panel.core.drained_worker import LeaveMessages
from panel.core.open_files import limit_raise
from panel.core.queue import uses_redis
from panel.core.without_queue import WithoutQueue
from panel.core.worker_presence import presence_hold

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "panel.settings")
# Django's checks would load every page and the API, 34 MB that no task needs; `migrate` has already run them.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

STOP_WITHIN_S = 8.0

limit_raise()


class Messages(Celery):
    """Celery application of the panel.

    While Redis does not respond, a worker runs tasks itself instead of sending them to the queue.
    """

    without_queue: WithoutQueue | None = None

    def send_task(  # type: ignore[override] # Celery's own has forty parameters
        self, name: str, args: Any = None, kwargs: Any = None, countdown: float | None = None, **options: Any
    ) -> AsyncResult[Any]:
        if self.without_queue is not None and self.without_queue.is_on and not kwargs:
            if not options.get("retries"):  # the next sweep finds jobs whose host is busy
                self.without_queue.submit(name, args or (), countdown or 0.0)
            return self.AsyncResult(options.get("task_id") or uuid())
        found: AsyncResult[Any] = super().send_task(name, args, kwargs, countdown, **options)
        return found


installed = list(sys.path)
app = Messages("paddock", loader="panel.core.installed_modules:InstalledModules")
# Celery's support for Django looks for modules in the current folder first, where another account may write.
sys.path[:] = installed
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.steps["consumer"].add(LeaveMessages)


@after_setup_logger.connect
def messages_shorten(logger: logging.Logger, **_: object) -> None:
    """Let Celery's own log handlers shorten records about an unavailable database, as the panel's handlers do."""
    for handler in logger.handlers:
        handler.addFilter(DatabaseAwayFilter())


@worker_ready.connect
def sweep_at_start(**_: object) -> None:
    """Start all periodic tasks named sweep-*, which look for waiting jobs, as soon as a worker is ready.

    The jobs of a killed worker then do not wait until the scheduler sends these tasks again.
    """
    for name, entry in app.conf.beat_schedule.items():
        if name.startswith("sweep-"):
            app.send_task(entry["task"])


@worker_init.connect
def watch_queue(**_: object) -> None:
    """Watch Redis in a worker, which works without the queue while Redis does not respond.

    In embedded mode, which has no Redis, hold a file lock instead; the self-check detects the worker by this lock.
    """
    if uses_redis(app):
        app.without_queue = WithoutQueue(app, app.conf.worker_concurrency)
        app.without_queue.start()
    else:
        presence_hold(settings.HOME)


@worker_shutting_down.connect
def leave_in_time(**_: object) -> None:
    """End a worker STOP_WITHIN_S after its shutdown began, even if a host does not respond.
    Unfinished jobs stay claimed by the ended process. The next worker notices that this process has ended, takes
    the jobs over, and asks the hosts for the results.
    """
    timer = threading.Timer(STOP_WITHIN_S, os._exit, (0,))
    timer.daemon = True
    timer.start()
