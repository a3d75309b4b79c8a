"""Run confirmed deployments: claim them, send them to the hosts' agents, record the result.

A deployment's row names the worker that owns it (core/claims.py). The transaction id on the host is the deployment's
uuid or its `joined_as`, so a repeated request returns the first result instead of a second attempt.

Deployments run in batches. The worker's own thread sends transactions to connected agents at once, and writes all
reports a few times per second. A transaction that must wait for its host gets another thread (sending.py), which does
not touch the database.
"""

from __future__ import annotations

import logging
import queue
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from uuid import UUID

from django.db.models.functions import Coalesce
from django.utils import timezone

from panel.core import claims
from panel.core.claims import Attempt, Claim
from panel.core.errors import ApplicationError
from panel.core.messages import Task, task_send_on_commit
from panel.deployments import host_agent
from panel.deployments.execution import outcomes
from panel.deployments.execution.joining import MOST, Group, first_groups
from panel.deployments.execution.outcomes import End
from panel.deployments.execution.pacing import pace
from panel.deployments.execution.requests import jobs_make
from panel.deployments.execution.sending import Before, Dispatch, Lost, Verdict, ask_again, deliver, hand_over
from panel.deployments.execution.steps import Recorder
from panel.deployments.models import Deployment, DeploymentStatus, Step
from panel.deployments.pool_moves import pools_begin
from panel.deployments.waking import AT_ONCE
from panel.hosts.authorities import authorities_once
from panel.hosts.locks import BEATING_LEASE, HeldLocks
from panel.hosts.models import Host
from panel.remote.client import Asked

logger = logging.getLogger(__name__)

# Reports within this time are written together; a page polls about half as often.
WRITE_EVERY_S = 0.2
# Transactions of a batch that are sent without a look at other batches: a change of a few sites never waits.
UNPACED = 4

_News = tuple[Dispatch, dict[str, Any] | Before | Verdict | Lost]


def orphans_queue() -> list[UUID]:
    """Requeue deployments of dead workers; return the uuids of all queued deployments, oldest first."""
    return claims.orphans_queue(Deployment, "confirmed_at", "pk")


def next_in_line(uuids: Sequence[UUID]) -> list[UUID]:
    """Return the uuids of queued deployments on the hosts of the given deployments, oldest first; for each host, as
    many as one transaction can hold.
    """
    hosts = Deployment.objects.filter(uuid__in=uuids).values("host")
    queued = Deployment.objects.filter(host__in=hosts, status=DeploymentStatus.QUEUED).order_by("confirmed_at", "pk")
    found: dict[int, list[UUID]] = {}
    for host, uuid in queued.values_list("host", "uuid"):
        found.setdefault(host, []).append(uuid)
    return [uuid for row in found.values() for uuid in row[:MOST]]


def deployment_execute(uuid: UUID) -> Attempt:
    """Claim and run one queued deployment; return whether it ran, its host was busy, or there was nothing to do."""
    return deployments_execute([uuid])[uuid]


def deployments_execute(uuids: Sequence[UUID]) -> dict[UUID, Attempt]:
    """Claim queued deployments, at most AT_ONCE, and run them together; return the Attempt of each, by uuid."""
    assert len(uuids) <= AT_ONCE
    attempts = dict.fromkeys(uuids, Attempt.NOTHING)
    claim = Claim(Deployment)
    if not claim.take(uuids):
        return attempts
    rows = list(claim.rows.select_related("host", "requested_by").order_by("confirmed_at", "pk"))
    attempts |= {row.uuid: Attempt.DONE for row in rows}
    locks = HeldLocks(BEATING_LEASE)
    try:
        with claim.heartbeat(locks):
            groups = _lock(claim, locks, rows)
            now = {row.pk for group in groups for row in group}
            attempts |= {row.uuid: Attempt.BUSY for row in rows if row.pk not in now}
            _Batch(claim, locks).run(groups)
    finally:
        locks.release()
    return attempts


def _lock(claim: Claim, locks: HeldLocks, rows: Sequence[Deployment]) -> list[Group]:
    """Lock the hosts of claimed deployments, and requeue deployments that have to wait. Return the groups to carry out
    now; the deployments of a group share one transaction.
    """
    first = first_groups(rows)
    refused = locks.take({host: f"deployment {group[0].uuid}" for host, group in first.items()})
    holders = {host: busy.holder for host, busy in refused.items()}
    waits = {
        row: f"{row.host.name} is busy with {holders.get(row.host) or f'deployment {first[row.host][0].uuid}'}."
        for row in rows
        if row.host in refused or row not in first[row.host]
    }
    _release(claim, waits)
    return [group for host, group in first.items() if host not in refused]


def _release(claim: Claim, waits: Mapping[Deployment, str]) -> None:
    """Requeue claimed deployments, each with its reason for waiting; the next sweep tries them again."""
    for row, progress in waits.items():
        if row.progress != progress:
            logger.info("deployment %s waits: %s", row.uuid, progress)
            claim.rows.filter(pk=row.pk).update(progress=progress[:200])
    if waits:
        claim.release(row.pk for row in waits)


class _Batch:
    """The run of one batch of claimed deployments, from the first query to the last written row."""

    def __init__(self, claim: Claim, locks: HeldLocks) -> None:
        self._claim = claim
        self._locks = locks
        self._news: queue.SimpleQueue[_News] = queue.SimpleQueue()
        self._recorder = Recorder()
        self._unsent: deque[Dispatch] = deque()
        self._asked: dict[int, tuple[Dispatch, Asked]] = {}  # requests sent without a waiting thread, by deployment

    def run(self, groups: Sequence[Group]) -> None:
        """Carry out groups of deployments, one transaction for each group. Return when each deployment has ended or is
        in the queue again.
        """
        host_agent.connect_soon(group[0].host for group in groups)  # connect while the requests are built
        jobs = self._prepared(groups)
        jobs = self._begun(jobs)
        if not jobs:
            return
        self._unsent.extend(jobs)
        with ThreadPoolExecutor(len(jobs), thread_name_prefix="deployment") as threads:
            self._send_next(threads, unpaced=UNPACED)
            self._write_until_ended(jobs, threads)

    # --- before anything is sent ---

    def _prepared(self, groups: Sequence[Group]) -> list[Dispatch]:
        """Build one transaction for each group of deployments. If this fails for a group, its deployments end, and the
        other groups are not delayed.
        """
        return _each_or_all(groups, jobs_make, self._unprepared)

    def _unprepared(self, group: Group, error: Exception) -> None:
        if len(group) == 1:
            self._broke(group, error)
        else:
            logger.warning("%d joined deployments could not be prepared", len(group), exc_info=error)
            self._separate(group, "the panel could not prepare the joint deployment")

    def _begun(self, jobs: Sequence[Dispatch]) -> list[Dispatch]:
        """Set `started_at` of the deployments, because from now on their transactions may reach the hosts. Return the
        transactions whose deployments the worker still owns.
        """
        now = timezone.now()
        rows = [row for job in jobs for row in job.group]
        for job in jobs:
            if len(job.group) > 1 and not job.attempted:
                joined = self._claim.rows.filter(pk__in=[row.pk for row in job.group])
                joined.update(joined_as=job.deployment.joined_as)
        owned = self._claim.rows.filter(pk__in=[row.pk for row in rows])
        count = owned.update(started_at=Coalesce("started_at", now), progress="") if rows else 0
        kept = {row.pk for row in rows} if count == len(rows) else set(owned.values_list("pk", flat=True))
        for row in rows:
            row.started_at = row.started_at or now
            row.progress = ""
        left = [job for job in jobs if self._is_whole(job, kept)]
        pools_begin(row for job in left for row in job.group)
        self._recorder.resume(row for job in left if job.attempted for row in job.group)
        return left

    def _is_whole(self, job: Dispatch, kept: Collection[int]) -> bool:
        """Return whether the worker still owns all deployments of a transaction.
        If the worker owns only some of them, requeue these.
        """
        own = tuple(row for row in job.group if row.pk in kept)
        if own and len(own) < len(job.group):
            self._separate(own, "one of the joint deployments was cancelled")
        return len(own) == len(job.group)

    # --- in flight ---

    def _send_next(self, threads: ThreadPoolExecutor, unpaced: int = 0) -> None:
        """Send transactions while the limit of this process (pacing.py) allows more, and at least `unpaced`
        transactions.
        """
        if not self._unsent or not (unpaced or pace.has_room()):
            return
        with authorities_once():
            while self._unsent and (unpaced > 0 or pace.has_room()):
                job = self._unsent.popleft()
                unpaced -= 1
                pace.sent(job.deployment.pk)
                self._send(job, threads)

    def _send(self, job: Dispatch, threads: ThreadPoolExecutor) -> None:
        """Send a transaction to a connected agent at once, otherwise in a thread that may wait."""
        asked = hand_over(job, lambda said: self._news.put((job, said)))
        if asked is None:
            threads.submit(self._wait, job, lambda: deliver(job, lambda said: self._news.put((job, said))))
        else:
            self._asked[job.deployment.pk] = (job, asked)

    def _lost(self, job: Dispatch, lost: Lost, threads: ThreadPoolExecutor) -> None:
        self._asked.pop(job.deployment.pk, None)
        threads.submit(self._wait, job, lambda: ask_again(job, lost))

    def _overdue(self, threads: ThreadPoolExecutor) -> None:
        """Cancel requests whose response did not arrive in time, and request their results again in threads."""
        for job, asked in list(self._asked.values()):
            error = asked.overdue(host_agent.APPLY_TIMEOUT_S)
            if error is not None:
                asked.cancel()
                self._lost(job, Lost(error), threads)

    def _wait(self, job: Dispatch, work: Callable[[], Verdict]) -> None:
        """Run `work` in a thread that waits for one host, and pass its result to the thread that writes the
        database.
        """
        try:
            verdict = work()
        except Exception as error:  # noqa: BLE001 - told to the thread that writes, which logs it
            verdict = Verdict(broke=error)
        self._news.put((job, verdict))

    def _write_until_ended(self, jobs: Sequence[Dispatch], threads: ThreadPoolExecutor) -> None:
        """Write the agents' reports to the database every WRITE_EVERY_S, and at once when the last transaction has
        ended. Return when all transactions have ended.
        """
        open_jobs = {job.deployment.pk for job in jobs}
        while open_jobs:
            ended = []
            until = time.monotonic() + WRITE_EVERY_S
            for job, said in self._heard(until):
                if job.deployment.pk not in open_jobs:  # its end was recorded before this message arrived
                    continue
                if isinstance(said, Verdict):
                    ended.append((job, said))
                    open_jobs.discard(job.deployment.pk)
                    self._asked.pop(job.deployment.pk, None)
                    if not open_jobs:
                        break
                elif isinstance(said, Lost):
                    self._lost(job, said, threads)
                elif isinstance(said, Before):
                    outcomes.comparison_record(self._claim, job.deployment, said.comparison)
                else:
                    for row in job.group:
                        self._recorder.hear(row, said)
            self._overdue(threads)
            pace.ended(job.deployment.pk for job, _ in ended)
            self._send_next(threads)
            self._settle(ended)
            self._recorder.write()

    def _heard(self, until: float) -> Iterable[_News]:
        while (left := until - time.monotonic()) > 0:
            try:
                yield self._news.get(timeout=left)
            except queue.Empty:
                return

    # --- afterwards ---

    def _settle(self, ended: Sequence[tuple[Dispatch, Verdict]]) -> None:
        for job, verdict in ended:
            if verdict.broke is not None:
                self._broke(job.group, verdict.broke)
            elif verdict.alone:
                self._separate(job.group, verdict.alone)
            elif verdict.waits:
                _release(self._claim, dict.fromkeys(job.group, verdict.waits))
        ends = [end for job, verdict in ended if verdict.end for end in outcomes.ends_of(job.group, verdict.end)]
        self._recorder.forget(end.deployment for end in ends)
        _each_or_all(ends, self._record, lambda end, error: self._broke((end.deployment,), error))
        self._locks.release([job.deployment.host for job, _ in ended])
        for job, verdict in ended:
            if verdict.drift:
                look_for_drift(job.deployment.host)

    def _record(self, ends: Sequence[End]) -> list[End]:
        outcomes.ends_record(self._claim, ends)
        return list(ends)

    def _separate(self, group: Group, why: str) -> None:
        """Requeue deployments that shared a transaction which changed nothing on the host: each is then carried out
        alone.
        """
        self._recorder.forget(group)
        pks = [row.pk for row in group]
        Step.objects.filter(deployment__in=self._claim.rows.filter(pk__in=pks)).delete()
        self._claim.rows.filter(pk__in=pks).update(joined_as=None, runs_alone=True, started_at=None)
        _release(
            self._claim,
            dict.fromkeys(
                group, f"Paddock carries out this deployment alone because the joint deployment failed: {why}"
            ),
        )

    def _broke(self, group: Group, error: Exception) -> None:
        """Handle an exception in the panel.

        If the transaction may have reached the host, requeue its deployments, whose result is requested later.
        Otherwise record them as failed.
        """
        logger.error("deployment %s broke", group[0].uuid, exc_info=error)
        if group[0].started_at is None:
            words = error.message if isinstance(error, ApplicationError) else type(error).__name__
            words = f"The panel failed before it contacted the host: {words}. See the panel's log, then plan again."
            outcomes.ends_record(self._claim, [End(row, DeploymentStatus.FAILED, words) for row in group])
        else:
            _release(
                self._claim,
                dict.fromkeys(group, f"Paddock asks the host for the result because the panel failed: {error!r}"),
            )


T = TypeVar("T")
R = TypeVar("R")


def _each_or_all(
    items: Sequence[T], work: Callable[[Sequence[T]], list[R]], broke: Callable[[T, Exception], None]
) -> list[R]:
    """Run `work` for all items at once. If this fails, run `work` for each item alone, so that one broken item does not
    affect others.
    """
    if not items:
        return []
    try:
        return work(items)
    except Exception as error:  # noqa: BLE001 - handed on below, with what it belongs to
        if len(items) == 1:
            broke(items[0], error)
            return []
    return [made for item in items for made in _each_or_all([item], work, broke)]


def look_for_drift(host: Host) -> None:
    """Schedule a drift check of a host on which edited files blocked a deployment."""
    task_send_on_commit(Task.DRIFT_CHECK, host.pk)
