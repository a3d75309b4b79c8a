"""Work while Redis does not respond: each worker runs the periodic tasks, and the tasks that they start, itself.

Rows hold the state, and messages only wake workers (decision 0002), so no work is lost without messages. The worker
that first moves a periodic task to its next time runs the task, so that only one worker runs it. Workers claim rows as
usual.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from celery.utils.imports import symbol_by_name
from django.db import connections, transaction

from panel.core.cache import redis_responds

if TYPE_CHECKING:
    from celery import Celery
    from celery.beat import ScheduleEntry

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
AWAY_AFTER = 2  # number of pings without a response
# Celery reconnects within 32 seconds after Redis responds again, and receives no messages until then.
CONTINUES_S = 40.0


class WithoutQueue:
    """Runs tasks in this worker while Redis does not respond. `is_on` is true during that time.

    `responds` returns whether Redis responds.
    """

    def __init__(self, app: Celery, threads: int, responds: Callable[[], bool] = redis_responds) -> None:
        self.is_on = False
        self._app, self._responds = app, responds
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="without queue")

    def start(self) -> None:
        threading.Thread(target=self._watch, name="queue watch", daemon=True).start()

    def submit(self, name: str, args: Sequence[Any] = (), after_s: float = 0.0) -> None:
        """Run the task `name` in a thread of this process, after `after_s` seconds."""
        if after_s:
            timer = threading.Timer(after_s, self.submit, (name, args))
            timer.daemon = True
            timer.start()
            return
        self._pool.submit(self._run, name, tuple(args))

    def _run(self, name: str, args: tuple[Any, ...]) -> None:
        try:
            self._app.tasks[name].apply(args)  # logs errors as a worker does
        finally:
            connections.close_all()

    def _watch(self) -> None:
        scheduler = symbol_by_name(self._app.conf.beat_scheduler)  # DatabaseScheduler, which needs models
        dates = scheduler(self._app, lazy=True, send=self._send)
        dates.setup_schedule()
        missed, until = 0, 0.0
        while True:
            missed = 0 if self._responds() else missed + 1
            if missed >= AWAY_AFTER:
                until = time.monotonic() + CONTINUES_S
            self._turn(missed >= AWAY_AFTER)
            if time.monotonic() < until:
                self._look(dates)
            time.sleep(LOOK_EVERY_S)

    def _look(self, dates: Any) -> None:
        try:
            dates.tick()
        except Exception:
            logger.exception("periodic tasks wait")  # the next look tries again
        finally:
            connections.close_all()

    def _turn(self, is_on: bool) -> None:
        if is_on != self.is_on:
            self.is_on = is_on
            if is_on:
                logger.warning("Redis does not respond: this worker finds its work in the database")
            else:
                logger.warning("Redis responds again")

    def _send(self, entry: ScheduleEntry) -> None:
        """Run a periodic task after the commit that stores the task's next time."""
        name = entry.task
        assert name is not None
        transaction.on_commit(lambda: self.submit(name))
