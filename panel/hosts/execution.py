"""Carrying out what was asked of a host: claim the row, do the errand over the agent, write down what came of it.

The row is the truth. A worker owns it while `claimed_by` is its token and its heartbeat is fresh. Every errand may be
done again without harm, so what a dead worker left is simply queued again.
"""

from __future__ import annotations

import datetime
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid4

from django.db import connection
from django.utils import timezone

from panel.core.errors import ApplicationError
from panel.hosts import errands
from panel.hosts.locks import HeldLock, HostBusy, host_lock
from panel.hosts.models import HostOperation, JobStatus, OperationKind

logger = logging.getLogger(__name__)

HEARTBEAT_S = 5.0
ORPHANED_AFTER = datetime.timedelta(seconds=30)

Errand = Callable[[HostOperation], dict[str, Any]]
# Kinds that other apps carry out are registered by them (deployments: drift).
ERRANDS: dict[str, Errand] = {
    OperationKind.CHECK: errands.check,
    OperationKind.SERVICE: errands.service,
    OperationKind.INSTALL_NATIVE: errands.install_native,
}
# These only look; the others exclude deployments and benchmarks while they run.
WITHOUT_LOCK = {OperationKind.CHECK, OperationKind.DRIFT}


class Attempt(StrEnum):
    DONE = "done"
    BUSY = "busy"  # the host is; the row waits again
    TAKEN = "taken"  # by another worker, or it has ended


def operation_execute(uuid: UUID) -> Attempt:
    """Does one errand to its end, whatever that is; nothing is raised for what the host or its admin is at fault."""
    token = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
    now = timezone.now()
    rows = HostOperation.objects.filter(uuid=uuid, status=JobStatus.QUEUED)
    if not rows.update(status=JobStatus.RUNNING, claimed_by=token, heartbeat_at=now, started_at=now):
        return Attempt.TAKEN
    operation = HostOperation.objects.select_related("host").get(uuid=uuid)
    try:
        with _locked(operation) as lock, _heartbeat(operation.pk, token, lock):
            result = ERRANDS[operation.kind](operation)
    except HostBusy:
        _owned(operation, token).update(status=JobStatus.QUEUED, claimed_by="", heartbeat_at=None)
        return Attempt.BUSY
    except ApplicationError as error:
        _end(operation, token, JobStatus.FAILED, error=error.message)
    except Exception:
        logger.exception("operation %s failed", operation.uuid)
        _end(operation, token, JobStatus.FAILED, error="The panel failed here; its log says where. Report this.")
    else:
        _end(operation, token, JobStatus.SUCCEEDED, result=result)
    return Attempt.DONE


def orphans_queue() -> list[UUID]:
    """Takes errands from workers that are gone; returns all that wait."""
    stale = timezone.now() - ORPHANED_AFTER
    lost = HostOperation.objects.filter(status=JobStatus.RUNNING, heartbeat_at__lt=stale)
    lost.update(status=JobStatus.QUEUED, claimed_by="", heartbeat_at=None)
    return list(HostOperation.objects.filter(status=JobStatus.QUEUED).values_list("uuid", flat=True))


def _owned(operation: HostOperation, token: str) -> Any:
    return HostOperation.objects.filter(pk=operation.pk, claimed_by=token, status=JobStatus.RUNNING)


def _end(operation: HostOperation, token: str, status: str, *, result: Any = None, error: str = "") -> None:
    values = {"status": status, "result": result, "error": error, "finished_at": timezone.now()}
    if not _owned(operation, token).update(**values):
        logger.warning("operation %s was taken over by another worker; its outcome counts", operation.uuid)


@contextmanager
def _locked(operation: HostOperation) -> Iterator[HeldLock | None]:
    if operation.kind in WITHOUT_LOCK:
        yield None
        return
    with host_lock(operation.host, f"{operation.get_kind_display().lower()} {operation.uuid}") as lock:
        yield lock


@contextmanager
def _heartbeat(pk: int, token: str, lock: HeldLock | None) -> Iterator[None]:
    done = threading.Event()

    def beat() -> None:
        try:
            while not done.wait(HEARTBEAT_S):
                rows = HostOperation.objects.filter(pk=pk, claimed_by=token, status=JobStatus.RUNNING)
                if not rows.update(heartbeat_at=timezone.now()):
                    return
                if lock is not None:
                    lock.extend()
        except HostBusy:
            logger.warning("operation %s lost its lock on the host", pk)
        finally:
            connection.close()

    thread = threading.Thread(target=beat, name=f"heartbeat of operation {pk}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
