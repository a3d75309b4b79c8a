"""How a worker owns rows of work (HostOperation, Deployment, Run): claimed by a conditional update, kept by a
heartbeat, free for others once that has stopped.

A row is owned while it is `running`, `claimed_by` is the claim's token and `heartbeat_at` is fresh.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid4

from django.db import DatabaseError, connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from panel.core.jobs import Job, JobStatus
from panel.core.owners import is_gone, owner_name
from panel.hosts.locks import HeldLocks, HostBusy

logger = logging.getLogger(__name__)

HEARTBEAT_S = 5.0
ORPHANED_AFTER = timedelta(seconds=30)


class Attempt(StrEnum):
    """What came of asking for a row to be carried out."""

    NOTHING = "nothing"  # it was not queued, or another worker has it
    BUSY = "busy"  # its host is; it waits in the queue
    DONE = "done"  # it ended, or waits in the queue to be asked about


class Claim:
    """The rows of one model that this worker owns, under a token that no other claim has: a worker that comes back
    from a long sleep must see that it lost them."""

    def __init__(self, model: type[Job]) -> None:
        self.model = model
        self.token = f"{owner_name()}:{uuid4().hex[:8]}"

    @property
    def rows(self) -> QuerySet[Any]:
        """Those that are owned still. An update of these never touches what another worker took over."""
        return self.model._default_manager.filter(claimed_by=self.token, status=JobStatus.RUNNING)

    def take(self, uuids: Iterable[UUID], **values: Any) -> int:
        """Claims those that are queued, `values` set with it; how many that were."""
        queued = self.model._default_manager.filter(uuid__in=list(uuids), status=JobStatus.QUEUED)
        with transaction.atomic():
            free = list(_unheld(queued).values_list("pk", flat=True))
            owned = {"status": JobStatus.RUNNING, "claimed_by": self.token, "heartbeat_at": timezone.now()}
            return queued.filter(pk__in=free).update(**owned, **values) if free else 0

    def release(self, pks: Iterable[int], **values: Any) -> None:
        """Back into the queue: another try comes with the next sweep."""
        self.rows.filter(pk__in=list(pks)).update(status=JobStatus.QUEUED, claimed_by="", heartbeat_at=None, **values)

    @contextmanager
    def heartbeat(self, locks: HeldLocks | None = None) -> Iterator[None]:
        """Says every few seconds that this worker lives, to the rows and to the locks of their hosts."""
        done = threading.Event()
        thread = threading.Thread(target=self._beat, args=(done, locks), name=f"heartbeat {self.token}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _beat(self, done: threading.Event, locks: HeldLocks | None) -> None:
        while not done.wait(HEARTBEAT_S):
            try:
                with transaction.atomic():
                    # What the worker writes at this moment is left out: waiting for it could be waiting in a circle.
                    here = list(_unheld(self.rows).values_list("pk", flat=True))
                    self.rows.filter(pk__in=here).update(heartbeat_at=timezone.now())
                if locks is not None:
                    locks.extend()
            except HostBusy:
                logger.exception("%s lost the lock of a host", self.token)
                locks = None
            except DatabaseError:
                logger.exception("%s could not say that it lives", self.token)
            finally:
                connection.close()  # a pool of connections is for those who work


def _unheld(rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows.select_for_update(skip_locked=True, no_key=True).order_by("pk")


def orphans(model: type[Job]) -> QuerySet[Any]:
    """The rows whose worker has ended: its heartbeat has stopped, or it ran on this machine and is not there."""
    running = model._default_manager.filter(status=JobStatus.RUNNING)
    owners = set(running.order_by().values_list("claimed_by", flat=True))
    silent = Q(heartbeat_at=None) | Q(heartbeat_at__lt=timezone.now() - ORPHANED_AFTER)
    return running.filter(silent | Q(claimed_by__in=[owner for owner in owners if is_gone(owner)]))


def orphans_queue(model: type[Job], *order: str) -> list[UUID]:
    """Puts rows whose worker is gone back into the queue; all that wait there."""
    orphans(model).update(status=JobStatus.QUEUED, claimed_by="", heartbeat_at=None)
    waiting = model._default_manager.filter(status=JobStatus.QUEUED).order_by(*order)
    return list(waiting.values_list("uuid", flat=True))
