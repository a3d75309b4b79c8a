"""Execution of host jobs: claim the row, run the job through the agent, record the result.

The row holds the truth (claims.py). All of these jobs can be repeated safely, so jobs of a dead worker are queued
again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.utils import timezone

from panel.core.errors import ApplicationError
from panel.core.jobs import JobStatus
from panel.hosts import claims, errands, preparing
from panel.hosts.claims import Attempt, Claim
from panel.hosts.locks import HeldLocks, HostBusy, host_lock
from panel.hosts.models import HostOperation, OperationKind

logger = logging.getLogger(__name__)

Errand = Callable[[HostOperation], dict[str, Any]]
# Other apps register their own kinds (deployments: drift).
ERRANDS: dict[str, Errand] = {
    OperationKind.CHECK: errands.check,
    OperationKind.SERVICE: errands.service,
    OperationKind.INSTALL_NATIVE: errands.install_native,
    OperationKind.PREPARE: preparing.prepare,
}
# These only read; all others exclude deployments and benchmarks while they run.
WITHOUT_LOCK = {OperationKind.CHECK, OperationKind.DRIFT}


def operation_execute(uuid: UUID) -> Attempt:
    """Run one job to its end; errors of the host or its admin are recorded, not raised."""
    claim = Claim(HostOperation)
    if not claim.take([uuid], started_at=timezone.now()):
        return Attempt.NOTHING
    operation = HostOperation.objects.select_related("host").get(uuid=uuid)
    try:
        with _locked(operation) as locks, claim.heartbeat(locks):
            result = ERRANDS[operation.kind](operation)
    except HostBusy:
        claim.release([operation.pk])
        return Attempt.BUSY
    except ApplicationError as error:
        _end(operation, claim, JobStatus.FAILED, error=error.message)
    except Exception:
        logger.exception("operation %s failed", operation.uuid)
        _end(
            operation,
            claim,
            JobStatus.FAILED,
            error="Internal error in the panel. See the panel's log and report the bug.",
        )
    else:
        _end(operation, claim, JobStatus.SUCCEEDED, result=result)
    return Attempt.DONE


def orphans_queue() -> list[UUID]:
    """Requeue jobs of dead workers; return all queued jobs."""
    return claims.orphans_queue(HostOperation, "created_at", "pk")


def _end(operation: HostOperation, claim: Claim, status: str, *, result: Any = None, error: str = "") -> None:
    values = {"status": status, "result": result, "error": error, "finished_at": timezone.now()}
    if not claim.rows.update(**values):
        logger.warning("operation %s was taken over by another worker; its outcome counts", operation.uuid)


@contextmanager
def _locked(operation: HostOperation) -> Iterator[HeldLocks | None]:
    if operation.kind in WITHOUT_LOCK:
        yield None
        return
    with host_lock(operation.host, f"{operation.get_kind_display().lower()} {operation.uuid}") as locks:
        yield locks
