"""Scheduler of Celery's beat with its times in the database, so that several machines may run schedulers.

Each entry of the schedule has a row with its next time. A scheduler sends a task in the same transaction in which it
moves the row to the following time, so that no other scheduler sends the task. If the scheduler is killed before the
commit, another scheduler sends the task, possibly for the second time. Both messages then have the same ID, which
contains the time. A second run changes nothing, because tasks only look at rows, which hold the state (decision 0002).
"""

from __future__ import annotations

import copy
import datetime as dt
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from celery.beat import ScheduleEntry, Scheduler, SchedulingError
from django.conf import settings
from django.db import DatabaseError, close_old_connections, transaction
from django.utils import timezone

from panel.core.cache import redis_responds
from panel.core.models import PeriodicDate

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
PAUSE_S = 2.0  # while the database or the queue does not respond


class DatabaseScheduler(Scheduler):
    """Celery beat scheduler that sends the due entries of CELERY_BEAT_SCHEDULE; of several schedulers, only one sends
    each.

    If `send` is given, it is called with each due entry, and no message is sent (core/without_queue.py).
    """

    def __init__(self, *args: Any, send: Callable[[ScheduleEntry], None] | None = None, **kwargs: Any) -> None:
        self._send_entry = send
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        self.merge_inplace(self.app.conf.beat_schedule)

    def tick(self, *_: Any, **__: Any) -> float:
        """Send the tasks that are due; return the number of seconds until the next call."""
        if self._send_entry is None and not redis_responds():
            return PAUSE_S  # without a look, which would lock times that workers move meanwhile
        try:
            close_old_connections()
            self._look()
        except (DatabaseError, SchedulingError) as error:
            logger.warning("periodic tasks wait, because the database or the queue does not answer: %s", error)
            return PAUSE_S
        if self._send_entry is None:
            Path(settings.CELERY_BEAT_SCHEDULE_FILENAME).touch()
        return LOOK_EVERY_S

    def _look(self) -> None:
        entries: dict[str, ScheduleEntry] = self.schedule
        waiting = dict(PeriodicDate.objects.filter(name__in=entries).values_list("name", "next_at"))
        for name in entries.keys() - waiting.keys():
            date, _ = PeriodicDate.objects.get_or_create(name=name, defaults={"next_at": timezone.now()})
            waiting[name] = date.next_at
        for name, entry in entries.items():
            if waiting[name] <= timezone.now():
                self._send(name, entry, waiting[name])

    def _send(self, name: str, entry: ScheduleEntry, due: dt.datetime) -> None:
        """Send a task that is due, unless another scheduler has already set its next time. The row stays locked until
        the commit.
        """
        dated = copy.copy(entry)
        dated.options = {**(entry.options or {}), "task_id": f"{name}@{due.isoformat()}"}
        with transaction.atomic():
            # The time is taken here, because a wait for the connection must not shorten the interval.
            next_at = timezone.now() + _interval(entry)
            if not PeriodicDate.objects.filter(name=name, next_at=due).update(next_at=next_at):
                return
            if self._send_entry is not None:
                self._send_entry(dated)
            else:
                self.apply_async(dated, producer=self.producer, advance=False)


def _interval(entry: ScheduleEntry) -> dt.timedelta:
    """Return the interval of a periodic task.
    All entries of CELERY_BEAT_SCHEDULE have intervals. Schedules of users are rows of the app reports, not entries.
    """
    every: Any = entry.schedule
    interval: dt.timedelta = every.run_every
    return interval
