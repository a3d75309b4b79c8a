"""Ownership of job rows: claimed by a conditional update, kept by a heartbeat, free again once the heartbeat stops.

A row is owned while it is `running`, `claimed_by` is the claim's token and `heartbeat_at` is recent.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID, uuid4

from django.db import DatabaseError, connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from panel.core.database import is_away, once_it_responds
from panel.core.draining import is_draining
from panel.core.errors import ApplicationError
from panel.core.jobs import Job, JobStatus
from panel.core.owners import is_gone, owner_name

logger = logging.getLogger(__name__)

HEARTBEAT_S = 5.0
ORPHANED_AFTER = timedelta(seconds=30)


class Locks(Protocol):
    """Locks of hosts, which a worker holds in addition to its claimed rows (implemented by hosts.locks.HeldLocks)."""

    def extend(self) -> None:
        """Extend the locks; raise ApplicationError if one was lost."""


class Attempt(StrEnum):
    """Result of an attempt to execute a job."""

    NOTHING = "nothing"  # not queued, or owned by another worker
    BUSY = "busy"  # the host is locked; the row stays queued
    DONE = "done"  # ended, or queued to request its result


class Claim:
    """Rows of one model that this worker owns under a unique token.

    A worker that was suspended for long can lose rows to another worker. These rows then no longer have its token.
    """

    def __init__(self, model: type[Job]) -> None:
        self.model = model
        self.token = f"{owner_name()}:{uuid4().hex[:8]}"

    @property
    def rows(self) -> QuerySet[Any]:
        """Query of the rows that this claim still owns. Updates of this query never affect rows of other workers."""
        return self.model._default_manager.filter(claimed_by=self.token, status=JobStatus.RUNNING)

    def take(self, uuids: Iterable[UUID], **values: Any) -> int:
        """Claim queued rows, and set the fields in `values` in these rows; return the number of claimed rows.

        No rows are claimed while this machine is drained (core/draining.py). Rows that only a newer release of the
        panel can execute stay queued for workers of that release.
        """
        if is_draining():
            return 0
        queued = self.model._default_manager.filter(self.model.claimable, uuid__in=list(uuids), status=JobStatus.QUEUED)
        with transaction.atomic():
            free = list(_unheld(queued).values_list("pk", flat=True))
            owned = {"status": JobStatus.RUNNING, "claimed_by": self.token, "heartbeat_at": timezone.now()}
            return queued.filter(pk__in=free).update(**owned, **values) if free else 0

    def release(self, pks: Iterable[int], **values: Any) -> None:
        """Requeue the rows with the keys `pks` that this claim owns, and set the fields in `values`.

        A periodic task tries the rows again later.
        """
        self.rows.filter(pk__in=list(pks)).update(status=JobStatus.QUEUED, claimed_by="", heartbeat_at=None, **values)

    @contextmanager
    def heartbeat(self, locks: Locks | None = None) -> Iterator[None]:
        """Context manager: refresh the heartbeat of the claimed rows, and extend the host locks, every few seconds in a
        thread.

        If the database becomes unavailable meanwhile, the rows are requeued as soon as it is available again.
        """
        done = threading.Event()
        thread = threading.Thread(target=self._beat, args=(done, locks), name=f"heartbeat {self.token}", daemon=True)
        thread.start()
        try:
            yield
        except Exception as error:
            if is_away(error):
                once_it_responds(self._hand_back, f"requeue the jobs of {self.token}")
            raise
        finally:
            done.set()
            thread.join()

    def _hand_back(self) -> None:
        """Requeue all rows that this claim still owns.

        The worker that claims a row next asks the host for the result of a job that still runs there.
        """
        self.rows.update(status=JobStatus.QUEUED, claimed_by="", heartbeat_at=None)

    def _beat(self, done: threading.Event, locks: Locks | None) -> None:
        limit = self.model.time_limit
        deadline = time.monotonic() + limit.total_seconds()
        while not done.wait(HEARTBEAT_S):
            if time.monotonic() > deadline:  # a thread cannot be ended, but its jobs can be given to another worker
                logger.error("%s exceeded the time limit of %s; its jobs are given up", self.token, limit)
                return
            try:
                with transaction.atomic():
                    # Rows that the worker is writing are skipped, because waiting for them could deadlock.
                    here = list(_unheld(self.rows).values_list("pk", flat=True))
                    self.rows.filter(pk__in=here).update(heartbeat_at=timezone.now())
                if locks is not None:
                    locks.extend()
            except ApplicationError:
                logger.exception("%s lost the lock of a host", self.token)
                locks = None
            except DatabaseError:
                logger.exception("%s could not say that it lives", self.token)
            finally:
                connection.close()  # a pooled connection is for active workers


def _unheld(rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows.select_for_update(skip_locked=True, no_key=True).order_by("pk")


def orphans(model: type[Job]) -> QuerySet[Any]:
    """Select the running rows whose worker has ended: its heartbeat stopped, or its process on this machine is gone."""
    running = model._default_manager.filter(status=JobStatus.RUNNING)
    owners = set(running.order_by().values_list("claimed_by", flat=True))
    silent = Q(heartbeat_at=None) | Q(heartbeat_at__lt=timezone.now() - ORPHANED_AFTER)
    return running.filter(silent | Q(claimed_by__in=[owner for owner in owners if is_gone(owner)]))


def orphans_queue(model: type[Job], *order: str) -> list[UUID]:
    """Requeue the running rows of `model` whose worker has ended.

    Return the UUIDs of all queued rows of `model`, sorted by the fields in `order`.
    """
    orphans(model).update(status=JobStatus.QUEUED, claimed_by="", heartbeat_at=None)
    waiting = model._default_manager.filter(status=JobStatus.QUEUED).order_by(*order)
    return list(waiting.values_list("uuid", flat=True))
