"""Start of the run of a schedule's date. Call these functions in the transaction that advances the schedule."""

from __future__ import annotations

import datetime as dt

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.utils import timezone

from panel.accounts.models import User
from panel.benchmarks.models import Run, SuiteRun
from panel.benchmarks.runs.services import run_create
from panel.benchmarks.suites.services import suite_start
from panel.core.errors import ApplicationError, words_of
from panel.reports import storing
from panel.reports.building import when
from panel.reports.choices import OPEN, Kind, OccurrenceStatus, Outcome, Overlap
from panel.reports.document import Document
from panel.reports.models import Occurrence, Schedule


def begin(
    schedule: Schedule, due_at: dt.datetime, *, reason: str = "", by_hand: bool = False, actor: User | None = None
) -> Occurrence:
    """Record a date of a schedule as an Occurrence and start its run, unless another run is in progress.
    `actor` is the user for a manual start; otherwise the run has the permissions of the schedule's user.
    """
    status, why = OccurrenceStatus.RUNNING, reason
    under_way = schedule.occurrences.filter(status__in=OPEN).order_by("due_at").first()
    if under_way is not None:
        status, why = _overlapping(schedule, under_way)
    row = Occurrence.objects.create(schedule=schedule, due_at=due_at, status=status, reason=why, by_hand=by_hand)
    if status == OccurrenceStatus.RUNNING:
        start(row, actor or schedule.run_as)
    return row


def _overlapping(schedule: Schedule, under_way: Occurrence) -> tuple[OccurrenceStatus, str]:
    waits = schedule.occurrences.filter(status=OccurrenceStatus.WAITING).exists()
    if schedule.overlap == Overlap.WAIT and not waits:
        return OccurrenceStatus.WAITING, f"The run of {when(under_way.due_at)} was still in progress."
    more = " Another run already waited for the end of that run." if waits else ""
    return OccurrenceStatus.SKIPPED, f"The run of {when(under_way.due_at)} was still in progress.{more}"


def start(row: Occurrence, actor: User | None) -> None:
    """Queue the run of a schedule's date.
    If the run cannot start, mark the date as failed with the reason, and create a report about the failure.
    """
    try:
        with transaction.atomic():
            run, suite_run = _launch(row.schedule, actor)
    except (ApplicationError, ValidationError, PermissionDenied) as error:
        refused(row, words_of(error))
        return
    row.run, row.suite_run, row.started_at = run, suite_run, timezone.now()
    row.save(update_fields=["run", "suite_run", "started_at"])


def _launch(schedule: Schedule, actor: User | None) -> tuple[Run | None, SuiteRun | None]:
    if actor is None or not actor.is_active:
        raise ApplicationError(
            "The schedule runs as the user who saved it last, but that account was deleted or disabled. "
            "Save the schedule again."
        )
    if schedule.kind == Kind.SUITE:
        if schedule.host is None:
            raise ApplicationError("The host of this schedule was deleted. Choose another host.")
        row = suite_start(
            actor=actor,
            suite=schedule.suite,
            preset=schedule.preset,
            host=schedule.host,
            setups=schedule.setups,
            choice=schedule.choice,
        )
        return None, row
    if schedule.scenario is None:
        raise ApplicationError("The scenario of this schedule was deleted. Choose another scenario.")
    rows = list(schedule.sites.select_related("site__team"))
    for row_ in rows:
        if row_.site is None:
            raise ApplicationError(f"The site {row_.name} of this schedule was deleted. Choose other sites.")
    sites = [row_.site for row_ in rows if row_.site is not None]
    return run_create(actor=actor, scenario=schedule.scenario, sites=sites, title=schedule.name), None


def refused(row: Occurrence, words: str) -> None:
    row.status, row.reason, row.finished_at = OccurrenceStatus.FAILED, words, timezone.now()
    row.save(update_fields=["status", "reason", "finished_at"])
    document = Document(
        title=row.schedule.name,
        made_at=when(row.finished_at),
        outcome=Outcome.FAILED,
        headline=f"The run of {when(row.due_at)} could not start: {words}",
    )
    report = storing.store(document=document, occurrence=row)
    storing.deliver(report, row.schedule)
