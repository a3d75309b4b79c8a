"""Run host jobs: claim the job's row, run the job through the agent, record the result.

A job's row names the worker that owns it (core/claims.py). All host jobs can be repeated safely, so jobs of a dead
worker are queued again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.utils import timezone

from panel.core import claims
from panel.core.claims import Attempt, Claim
from panel.core.errors import ApplicationError
from panel.core.jobs import JobStatus
from panel.hosts import jobs, key_rotation
from panel.hosts.locks import BEATING_LEASE, HeldLocks, HostBusy, host_lock
from panel.hosts.models import HostJob, HostJobKind

logger = logging.getLogger(__name__)

Handler = Callable[[HostJob], dict[str, object]]
# Other apps register their own kinds (deployments: drift).
HANDLERS: dict[str, Handler] = {
    HostJobKind.CHECK: jobs.check,
    HostJobKind.SERVICE: jobs.service,
    HostJobKind.INSTALL_NATIVE: jobs.install_native,
    HostJobKind.PREPARE: jobs.prepare,
    HostJobKind.ROTATE_KEY: key_rotation.rotate,
}
# The first two only read; the third locks all of its hosts itself. Other jobs never run with deployments or benchmarks.
WITHOUT_LOCK = {HostJobKind.CHECK, HostJobKind.DRIFT, HostJobKind.VIRTUAL_ADDRESS}


def host_job_execute(uuid: UUID) -> Attempt:
    """Claim and run one host job to its end; return an Attempt (core/claims.py): NOTHING if the job cannot be claimed,
    BUSY if the host is locked, otherwise DONE. Exceptions of the job are recorded, not raised.
    """
    claim = Claim(HostJob)
    if not claim.take([uuid], started_at=timezone.now()):
        return Attempt.NOTHING
    job = HostJob.objects.select_related("host").get(uuid=uuid)
    try:
        with _locked(job) as locks, claim.heartbeat(locks):
            result = HANDLERS[job.kind](job)
    except HostBusy:
        claim.release([job.pk])
        return Attempt.BUSY
    except ApplicationError as error:
        _end(job, claim, JobStatus.FAILED, error=error.message)
    except Exception:
        logger.exception("job %s failed", job.uuid)
        _end(
            job,
            claim,
            JobStatus.FAILED,
            error="The panel failed because of an internal error. See the panel's log, and report the bug.",
        )
    else:
        _end(job, claim, JobStatus.SUCCEEDED, result=result)
    return Attempt.DONE


def orphans_queue() -> list[UUID]:
    """Requeue host jobs of dead workers; return the uuids of all queued jobs, oldest first."""
    return claims.orphans_queue(HostJob, "created_at", "pk")


def _end(job: HostJob, claim: Claim, status: str, *, result: Any = None, error: str = "") -> None:
    values = {"status": status, "result": result, "error": error, "finished_at": timezone.now()}
    if not claim.rows.update(**values):
        logger.warning("job %s was taken over by another worker; its outcome counts", job.uuid)


@contextmanager
def _locked(job: HostJob) -> Iterator[HeldLocks | None]:
    if job.kind in WITHOUT_LOCK:
        yield None
        return
    with host_lock(job.host, f"{job.get_kind_display().lower()} {job.uuid}", lease=BEATING_LEASE) as locks:
        yield locks
