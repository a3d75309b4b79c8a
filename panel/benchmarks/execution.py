"""Carrying out a queued run: claim it, hold its hosts, check, warm up, measure round by round, judge.

The row is the truth. A worker owns it while `claimed_by` is its token and `heartbeat_at` is fresh. A run whose worker
died is not taken up again, because its rounds would no longer be interleaved: it ends as failed, its rounds kept.
"""

from __future__ import annotations

import datetime
import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from uuid import UUID, uuid4

from django.db import connection
from django.db.models import F, Q
from django.utils import timezone

from panel.benchmarks.measuring import Cancelled, LostRun, Measuring
from panel.benchmarks.models import Run, RunStatus
from panel.core.errors import ApplicationError
from panel.hosts.locks import HeldLock, HostBusy, host_lock
from panel.hosts.models import Host

logger = logging.getLogger(__name__)

HEARTBEAT_S = 5.0
ORPHANED_AFTER = datetime.timedelta(seconds=30)


class Attempt(StrEnum):
    NOTHING = "nothing"  # not queued, or another worker has it
    BUSY = "busy"  # a host is; the run waits in the queue
    DONE = "done"


def run_execute(uuid: UUID) -> Attempt:
    """Claim and carry out one queued run."""
    token = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
    if not _claim(uuid, token):
        return Attempt.NOTHING
    run = Run.objects.get(uuid=uuid)
    try:
        with ExitStack() as stack:
            locks = [stack.enter_context(host_lock(host, f"benchmark {uuid}")) for host in _hosts(run)]
            stack.enter_context(_heartbeat(run.pk, token, locks))
            _carry_out(run, token)
    except HostBusy as error:
        _release(run, token, error.message)
        return Attempt.BUSY
    return Attempt.DONE


def _claim(uuid: UUID, token: str) -> bool:
    now = timezone.now()
    rows = Run.objects.filter(uuid=uuid, status=RunStatus.QUEUED)
    return bool(rows.update(status=RunStatus.RUNNING, claimed_by=token, heartbeat_at=now, started_at=now))


def _hosts(run: Run) -> list[Host]:
    """Those of its targets, always in the same order so that two runs never wait for each other."""
    return list(Host.objects.filter(installs__in=run.targets.values("install")).distinct().order_by("pk"))


def _release(run: Run, token: str, reason: str) -> None:
    rows = Run.objects.filter(pk=run.pk, claimed_by=token, status=RunStatus.RUNNING)
    rows.update(status=RunStatus.QUEUED, claimed_by="", heartbeat_at=None, started_at=None, progress=reason[:200])


@contextmanager
def _heartbeat(pk: int, token: str, locks: list[HeldLock]) -> Iterator[None]:
    """Says every few seconds that this worker lives, to the row and to the locks of its hosts."""
    done = threading.Event()

    def beat() -> None:
        try:
            while not done.wait(HEARTBEAT_S):
                rows = Run.objects.filter(pk=pk, claimed_by=token, status=RunStatus.RUNNING)
                if not rows.update(heartbeat_at=timezone.now()):
                    return
                for lock in locks:
                    lock.extend()
        except HostBusy:
            logger.exception("benchmark %s lost the lock of a host", pk)
        finally:
            connection.close()

    thread = threading.Thread(target=beat, name=f"benchmark heartbeat {pk}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _carry_out(run: Run, token: str) -> None:
    try:
        measuring = Measuring(run, token)
        measuring.measure()
        reasons = measuring.judge()
    except Cancelled:
        _end(run, token, RunStatus.CANCELLED)
    except LostRun:
        logger.warning("run %s was taken from this worker", run.uuid)
    except ApplicationError as error:
        _end(run, token, RunStatus.FAILED, error=error.message)
    except Exception as error:
        _end(run, token, RunStatus.FAILED, error=f"The panel failed: {type(error).__name__}. Its log tells more.")
        raise
    else:
        _end(run, token, RunStatus.INVALID if reasons else RunStatus.FINISHED, reasons=reasons)


def _end(run: Run, token: str, status: RunStatus, *, error: str = "", reasons: list[str] | None = None) -> None:
    Run.objects.filter(pk=run.pk, claimed_by=token, status=RunStatus.RUNNING).update(
        status=status,
        error=error,
        reasons=reasons or [],
        progress="",
        finished_at=timezone.now(),
        row_version=F("row_version") + 1,
    )


def orphans_end() -> int:
    """Ends runs whose worker is gone; returns how many. The agent ends the tool when the worker's channel closes."""
    silent = Q(heartbeat_at=None) | Q(heartbeat_at__lt=timezone.now() - ORPHANED_AFTER)
    words = "The panel's worker ended in the middle of this run. What was measured until then is kept; run it again."
    return Run.objects.filter(silent, status=RunStatus.RUNNING).update(
        status=RunStatus.FAILED, error=words, progress="", finished_at=timezone.now(), row_version=F("row_version") + 1
    )


def waiting() -> list[UUID]:
    """Queued runs, oldest first."""
    return list(Run.objects.filter(status=RunStatus.QUEUED).order_by("created_at", "pk").values_list("uuid", flat=True))
