"""Execution of a queued run: claim the run, lock its hosts, check, warm up, measure round by round, judge.
The run's database row is the source of truth (core/claims.py). A run of a dead worker is not resumed, because its
rounds would no longer alternate between targets: the run fails and keeps its rounds.
"""

from __future__ import annotations

import logging
from uuid import UUID

from django.db.models import F, Q
from django.utils import timezone

from panel.benchmarks.models import Run, RunStatus
from panel.benchmarks.runs import connection_loss
from panel.benchmarks.runs.measuring import Cancelled, LostRun, Measuring
from panel.core import claims
from panel.core.claims import Attempt, Claim
from panel.core.errors import ApplicationError
from panel.hosts.locks import BEATING_LEASE, HostBusy, host_locks
from panel.hosts.models import Host
from panel.hosts.targets import target_for

logger = logging.getLogger(__name__)


def run_execute(uuid: UUID) -> Attempt:
    """Claim and execute one queued run; return the outcome of this attempt.
    If another job has locked a host of the run, the run is queued again and the outcome is BUSY.
    """
    claim = Claim(Run)
    if not claim.take([uuid], started_at=timezone.now()):
        return Attempt.NOTHING
    run = Run.objects.get(uuid=uuid)
    try:
        wanted = dict.fromkeys(_hosts(run), f"benchmark {uuid}")
        with host_locks(wanted, lease=BEATING_LEASE) as locks, claim.heartbeat(locks):
            _carry_out(run, claim)
    except HostBusy as error:
        claim.release([run.pk], started_at=None, progress=error.message[:200])
        return Attempt.BUSY
    return Attempt.DONE


def _hosts(run: Run) -> list[Host]:
    """Return the hosts of the run's targets and the host of its load generator."""
    load = run.parameters.get("testbed", {}).get("load_host")
    found = Q(web_servers__in=run.targets.values("web_server")) | Q(pk=load)
    return list(Host.objects.filter(found).distinct().order_by("pk"))


def _carry_out(run: Run, claim: Claim) -> None:
    try:
        measuring = Measuring(run, claim.token)
        measuring.measure()
        reasons = measuring.judge()
    except Cancelled:
        _end(claim, RunStatus.CANCELLED)
    except LostRun:
        logger.warning("run %s was taken from this worker", run.uuid)
    except ApplicationError as error:
        _end(claim, RunStatus.FAILED, error=error.message)
    except Exception as error:
        _end(
            claim,
            RunStatus.FAILED,
            error=f"The panel failed during this run: {type(error).__name__}. See the panel's log.",
        )
        raise
    else:
        _end(claim, RunStatus.INVALID if reasons else RunStatus.FINISHED, reasons=reasons)


def _end(claim: Claim, status: RunStatus, *, error: str = "", reasons: list[str] | None = None) -> None:
    claim.rows.update(
        status=status,
        error=error,
        reasons=reasons or [],
        progress="",
        finished_at=timezone.now(),
        row_version=F("row_version") + 1,
    )


def orphans_end() -> list[UUID]:
    """Mark the running runs of dead workers as failed; return their ids. The agent stops the load tool and the test bed
    as soon as the worker's connection closes.
    """
    words = (
        "The panel's worker stopped during this run. Paddock keeps the figures measured so far. Start the run again."
    )
    ended = {"status": RunStatus.FAILED, "error": words, "progress": "", "finished_at": timezone.now()}
    return [
        uuid
        for uuid in claims.orphans(Run).values_list("uuid", flat=True)
        if claims.orphans(Run).filter(uuid=uuid).update(**ended, row_version=F("row_version") + 1)
    ]


def orphan_ask(uuid: UUID) -> Attempt:
    """Find what a run of a dead worker left on its hosts, and append the findings to the run's error.
    Returns BUSY if another job has locked one of the hosts.
    """
    run = Run.objects.get(uuid=uuid)
    hosts = _hosts(run)
    testbeds = run.fingerprint.get("testbeds", {})
    try:
        with host_locks(dict.fromkeys(hosts, f"benchmark {uuid}")):
            words = [connection_loss.leftovers_report(target_for(host), testbeds.get(host.name, {})) for host in hosts]
    except HostBusy:
        return Attempt.BUSY
    error = " ".join([run.error, *words])
    Run.objects.filter(pk=run.pk).update(error=error, row_version=F("row_version") + 1)
    return Attempt.DONE


def waiting() -> list[UUID]:
    """Return the ids of queued runs, oldest first."""
    return list(Run.objects.filter(status=RunStatus.QUEUED).order_by("created_at", "pk").values_list("uuid", flat=True))
