"""Execution of a queued server comparison: copies on private ports, response check, one run, cleanup.
The comparison's row is the source of truth (core/claims.py). A comparison of a dead worker is not continued: the next
worker removes the copies and ends it. If the host does not respond, the comparison stays in the queue until the copies
are removed. Deployments and the run are separate rows; this worker executes them itself, or waits for another worker
that has claimed them, so one worker suffices.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from panel.accounts.models import User
from panel.benchmarks.models import Run, RunStatus, RunTarget, Scenario
from panel.benchmarks.runs import services as benchmarks
from panel.benchmarks.runs import targets
from panel.benchmarks.runs.execution import run_execute
from panel.comparisons import copies, servers
from panel.comparisons.comparing import compare
from panel.comparisons.deploying import POLL_S, WAIT_S, carry_out, copy_remove
from panel.comparisons.models import UNDER_WAY, Comparison, ComparisonPhase, Contender, ContenderStatus
from panel.core import claims
from panel.core.claims import Attempt, Claim
from panel.core.errors import ApplicationError, words_of
from panel.core.jobs import JobStatus
from panel.deployments.models import DeploymentStatus
from panel.deployments.planning import services as deployments
from panel.hosts.targets import target_for
from panel.remote import pool
from panel.websites.services import site_define
from panel.websites.services.definition import site_export

logger = logging.getLogger(__name__)

WORKER_GONE = (
    "The panel's worker stopped during this server comparison. Paddock removes the site's copies. "
    "Start the comparison again."
)
RETRY_FIRST = timedelta(seconds=15)
RETRY_MOST = timedelta(minutes=10)


class Stopped(Exception):
    """Raised if a user cancelled the comparison or its run."""


class Lost(Exception):
    """Raised if another worker has taken over the comparison and cleans up."""


def comparison_execute(uuid: UUID) -> Attempt:
    """Claim and execute one queued comparison; return the outcome of this attempt.
    The outcome is BUSY if the next attempt to remove the comparison's copies is not due yet.
    """
    if Comparison.objects.filter(uuid=uuid, retry_at__gt=timezone.now()).exists():
        return Attempt.BUSY
    claim = Claim(Comparison)
    if not claim.take([uuid]):
        return Attempt.NOTHING
    comparison = Comparison.objects.select_related("site__team", "requested_by").get(uuid=uuid)
    with claim.heartbeat():
        try:
            _Course(comparison, claim).whole()
        except Lost:
            logger.warning("comparison %s was taken from this worker", uuid)
    return Attempt.DONE


def forgotten_delete() -> None:
    """Delete comparisons of deleted sites that have ended. A comparison ends only after all its copies were removed."""
    Comparison.objects.filter(site=None).exclude(status__in=UNDER_WAY).delete()


def orphans_queue() -> list[UUID]:
    """Queue comparisons of dead workers again; return the ids of all queued comparisons that are due."""
    waiting = claims.orphans_queue(Comparison, "created_at", "pk")
    late = Comparison.objects.filter(uuid__in=waiting, retry_at__gt=timezone.now()).values_list("uuid", flat=True)
    return [uuid for uuid in waiting if uuid not in set(late)]


class _Course:
    """Execution of one comparison, from its first copy to the removal of the last one."""

    def __init__(self, comparison: Comparison, claim: Claim) -> None:
        self.comparison = comparison
        self.claim = claim

    @property
    def actor(self) -> User:
        if self.comparison.requested_by is None:
            raise ApplicationError("The user who started this server comparison no longer has an account.")
        return self.comparison.requested_by

    def whole(self) -> None:
        if not self.comparison.outcome:
            outcome, error = self._measured()
            stopped_in = "" if outcome == JobStatus.SUCCEEDED else self.comparison.phase
            self._save(outcome=outcome, error=error, stopped_in=stopped_in)
        self._save(phase=ComparisonPhase.CLEAN)
        remains = self._clean()
        if remains:
            self._again_later(remains)
        else:
            self._save(status=self.comparison.outcome, remains="", retry_at=None, finished_at=timezone.now())

    def _measured(self) -> tuple[JobStatus, str]:
        if self.comparison.started_at is not None:
            return JobStatus.FAILED, WORKER_GONE
        self._save(started_at=timezone.now())
        try:
            for phase, step in self._steps():
                self._check()
                self._save(phase=phase)
                step()
        except Stopped:
            return JobStatus.CANCELLED, ""
        except Lost:
            raise
        except (ApplicationError, ValidationError, PermissionDenied) as error:
            return JobStatus.FAILED, words_of(error)
        except Exception as error:
            logger.exception("comparison %s", self.comparison.uuid)
            return (
                JobStatus.FAILED,
                f"The panel failed during this server comparison: {type(error).__name__}. See the panel's log.",
            )
        return JobStatus.SUCCEEDED, ""

    def _steps(self) -> Iterator[tuple[ComparisonPhase, Callable[[], None]]]:
        yield ComparisonPhase.COPY, self._copy
        yield ComparisonPhase.DEPLOY, self._deploy
        yield ComparisonPhase.COMPARE, self._compare
        yield ComparisonPhase.MEASURE, self._measure

    # --- the row ---

    def _save(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self.comparison, name, value)
        if not self.claim.rows.filter(pk=self.comparison.pk).update(**values, row_version=F("row_version") + 1):
            raise Lost

    def _check(self) -> None:
        wanted = self.claim.rows.filter(pk=self.comparison.pk).values_list("cancel_requested", flat=True).first()
        if wanted is None:
            raise Lost
        if wanted:
            raise Stopped

    def _check_owned(self) -> None:
        """Raise Lost if another worker owns the comparison. Unlike `_check`, this method ignores cancellation, which
        has no effect during cleanup.
        """
        if not self.claim.rows.filter(pk=self.comparison.pk).exists():
            raise Lost

    def _mark(self, contender: Contender, status: ContenderStatus, detail: str = "") -> None:
        contender.status, contender.detail = status, detail
        contender.save(update_fields=["status", "detail"])
        self._save()

    def _contenders(self, *statuses: ContenderStatus) -> list[Contender]:
        rows = self.comparison.contenders.select_related("web_server__host", "copy__team", "copy__web_server__host")
        return list(rows.filter(status__in=statuses))

    # --- the phases ---

    def _copy(self) -> None:
        original = site_export(self.comparison.original, with_secrets=True)
        contenders = self._contenders(ContenderStatus.WAITING)
        each = len(copies.listeners(original))
        ports = iter(self._ports(contenders[0], each * len(contenders)))
        for contender in contenders:
            assert contender.web_server is not None
            name = f"{self.comparison.original.name[:40].rstrip('-')}-copy{self.comparison.pk}-{contender.position + 1}"
            data = copies.definition_of_copy(original, name=name, web_server=contender.web_server.pk, ports=ports)
            with transaction.atomic():
                contender.copy = site_define(actor=self.actor, data=data)
                contender.save(update_fields=["copy"])

    def _ports(self, contender: Contender, count: int) -> list[int]:
        assert contender.web_server is not None
        with pool.session(target_for(contender.web_server.host)) as agent:
            found: list[int] = agent.call("ports", {"count": count})["ports"]
        return found

    def _deploy(self) -> None:
        for contender in self._contenders(ContenderStatus.WAITING):
            self._check()
            assert contender.copy is not None
            try:
                self._note_whether_stopped(contender)
                (plan,) = deployments.deployment_plan(actor=self.actor, sites=[contender.copy])
                done = carry_out(self.actor, plan, self._check)
            except (ApplicationError, ValidationError) as error:
                self._mark(contender, ContenderStatus.REFUSED, words_of(error))
                continue
            if done.status == DeploymentStatus.SUCCEEDED:
                self._mark(contender, ContenderStatus.DEPLOYED)
            else:
                self._mark(contender, ContenderStatus.REFUSED, done.error)

    def _note_whether_stopped(self, contender: Contender) -> None:
        """Record whether the web server is stopped now, before the deployment of the copy starts it. With this record,
        the cleanup can stop the web server again, even if another worker does the cleanup.
        """
        assert contender.web_server is not None
        contender.was_stopped = servers.is_stopped(contender.web_server)
        contender.save(update_fields=["was_stopped"])

    def _compare(self) -> None:
        deployed = self._contenders(ContenderStatus.DEPLOYED)
        if not deployed or deployed[0].position != 0:
            first = self.comparison.contenders.get(position=0)
            raise ApplicationError(f"The copy on the site's current web server could not be deployed: {first.detail}")
        sites = [contender.copy for contender in deployed if contender.copy]
        found = compare(sites, self.comparison.load, base_url=self._base_url(), may_leave_out=self.comparison.is_replay)
        arguments = {**self.comparison.load["arguments"], "dynamic": found.dynamic}
        load = {**self.comparison.load, "paths": found.paths, "arguments": arguments}
        self._save(load=load, left_out=[*self.comparison.left_out, *found.left_out])
        for contender, difference in zip(deployed, found.differences, strict=True):
            self._mark(contender, ContenderStatus.DIFFERENT if difference else ContenderStatus.SAME, difference)

    def _base_url(self) -> str:
        """Return the URL at which visitors reach the original site. Requests to the copies use the same URL."""
        revision = targets.live_revision(self.comparison.original)
        return targets.endpoint(revision, self.comparison.load["arguments"]).base_url

    def _measure(self) -> None:
        same = [contender for contender in self._contenders(ContenderStatus.SAME) if contender.copy]
        if len(same) < 2:
            raise ApplicationError(
                "No other web server returns the same responses as the live site, so there is nothing to compare."
            )
        run = self._run_of(same)
        while not run.is_ended:
            self._check()
            attempt = run_execute(run.uuid)
            run.refresh_from_db()
            if attempt != Attempt.DONE:
                time.sleep(WAIT_S if attempt == Attempt.BUSY else POLL_S)
        if run.status == RunStatus.CANCELLED:
            raise Stopped
        if run.status == RunStatus.FAILED:
            raise ApplicationError(f"The benchmark failed: {run.error}")

    def _run_of(self, same: list[Contender]) -> Run:
        """Create the benchmark run that measures the copies in `same`, whose responses are equal.
        Each target has the name of its web server, and requests contain the URL of the original site, because the names
        and ports of copies mean nothing to users.
        """
        scenario = Scenario(team=self.comparison.original.team, **self.comparison.load)
        scenario.keeps_methods = self.comparison.is_replay
        title = f"{self.comparison.original.name}: server comparison"
        with transaction.atomic():
            run = benchmarks.run_create_once(
                actor=self.actor, scenario=scenario, sites=[row.copy for row in same if row.copy], title=title
            )
            for position, contender in enumerate(same):
                aim = RunTarget.objects.filter(run=run, position=position)
                aim.update(label=contender.label, base_url=self._base_url())
            self._save(run=run)
        return run

    # --- afterwards ---

    def _clean(self) -> str:
        """Remove every copy, and stop web servers that were stopped before the comparison; return in words what could
        not be cleaned up.
        """
        remains = []
        try:
            self._run_leave()
        except (ApplicationError, PermissionDenied) as error:
            return words_of(error)
        for contender in self.comparison.contenders.select_related("copy__team", "web_server__host"):
            name = contender.copy.name if contender.copy else str(self.comparison)
            try:
                if contender.copy is not None:
                    copy_remove(self.actor, contender.copy, self._check_owned)
                self._stop_again(contender)
            except (ApplicationError, ValidationError, PermissionDenied) as error:
                remains.append(f"{name} on {contender.label}: {words_of(error)}")
        return "\n".join(remains)

    def _stop_again(self, contender: Contender) -> None:
        if contender.web_server is None or not contender.was_stopped:
            return
        assert self.comparison.started_at is not None
        servers.stop_again(
            contender.web_server, f"server comparison {self.comparison.uuid}", self.comparison.started_at
        )
        # only the row, because the copy no longer exists
        Contender.objects.filter(pk=contender.pk).update(was_stopped=False)

    def _run_leave(self) -> None:
        """End the comparison's run: cancel the run if it has not ended, and wait for its end. Then let its results
        refer to the original site instead of the copies, which are removed next.
        """
        run = Run.objects.filter(comparisons=self.comparison).first()
        if run is None:
            return
        if not run.is_ended:
            benchmarks.run_cancel(actor=self.actor, run=run)
        while not run.is_ended:
            self._check_owned()
            time.sleep(POLL_S)
            run.refresh_from_db()
        (site,) = Comparison.objects.filter(pk=self.comparison.pk).values_list("site", flat=True)
        run.targets.update(site=site, revision=None)

    def _again_later(self, remains: str) -> None:
        """Release the claim and schedule another attempt to remove the copies, because the host can be unreachable for
        a while.
        `remains` describes the problem. The comparison's row lists the copies until they are removed.
        """
        wait = min(RETRY_FIRST * 2 ** min(self.comparison.cleanings, 10), RETRY_MOST)
        self._save(remains=remains, retry_at=timezone.now() + wait, cleanings=self.comparison.cleanings + 1)
        self.claim.release([self.comparison.pk])
