"""The periodic work on schedules: start due runs, follow runs in progress, and create reports of ended runs.

Database rows are the source of truth (docs/decisions/0002). One transaction records a date, queues its run and advances
the schedule. If a worker dies before the transaction is committed, the next call of `look` starts the run.
"""

from __future__ import annotations

import datetime as dt
import logging

from django.db import transaction
from django.utils import timezone

from panel.benchmarks.models import ENDED, Run, RunStatus, SuiteRun
from panel.benchmarks.runs.services import run_expire
from panel.benchmarks.suites.services import suite_expire
from panel.core.errors import ApplicationError
from panel.reports import building, cron, starting, storing
from panel.reports.choices import OccurrenceStatus
from panel.reports.models import Occurrence, Schedule, Watch
from panel.reports.selectors import SILENT_AFTER

logger = logging.getLogger(__name__)

Gap = tuple[dt.datetime, dt.datetime]
LATE = dt.timedelta(minutes=2)


def look(now: dt.datetime | None = None) -> None:
    """Start due runs, follow runs in progress, create reports of ended runs, and delete old reports. Safe if several
    workers call this function at once.
    """
    now = now or timezone.now()
    gap = _gap(now)
    for pk in Schedule.objects.filter(is_paused=False, next_due_at__lte=now).values_list("pk", flat=True):
        _date(pk, now, gap)
    open_ones = Occurrence.objects.filter(status__in=(OccurrenceStatus.RUNNING, OccurrenceStatus.WAITING))
    for row in open_ones.select_related("schedule__run_as", "run", "suite_run").order_by("due_at", "pk"):
        _follow(row, now)
    for schedule in Schedule.objects.filter(keep_days__isnull=False):
        with transaction.atomic():
            storing.prune(schedule)
    # Last: an interrupted round does not count as a check.
    Watch.objects.update_or_create(pk=1, defaults={"looked_at": now})


def _gap(now: dt.datetime) -> Gap | None:
    """Return the period in which schedules were not checked as (last check, `now`); None if the check is recent."""
    last = Watch.objects.filter(pk=1).first()
    return (last.looked_at, now) if last and now - last.looked_at > SILENT_AFTER else None


# --- dates ---


@transaction.atomic
def _date(pk: int, now: dt.datetime, gap: Gap | None) -> None:
    schedule = Schedule.objects.select_for_update(skip_locked=True, no_key=True).filter(pk=pk).first()
    if schedule is None or schedule.is_paused or schedule.next_due_at is None or schedule.next_due_at > now:
        return  # another worker was faster
    dates = cron.passed(schedule.cron, schedule.timezone, schedule.next_due_at, now)
    newest = dates[-1]
    is_late = now - newest > dt.timedelta(minutes=schedule.grace_minutes)
    _missed(schedule, dates if is_late else dates[:-1], gap)
    if not is_late and not schedule.occurrences.filter(due_at=newest).exists():
        starting.begin(schedule, newest, reason=_why_late(newest, now, gap))
    Schedule.objects.filter(pk=pk).update(next_due_at=_next(schedule, now))


def _next(schedule: Schedule, now: dt.datetime) -> dt.datetime | None:
    try:
        return cron.next_date(schedule.cron, schedule.timezone, now)
    except ApplicationError:
        return None


def _missed(schedule: Schedule, dates: list[dt.datetime], gap: Gap | None) -> None:
    if not dates or schedule.occurrences.filter(due_at=dates[-1]).exists():
        return
    Occurrence.objects.create(
        schedule=schedule,
        due_at=dates[-1],
        dates=len(dates),
        status=OccurrenceStatus.MISSED,
        reason=_why(gap, dates[0]),
        finished_at=timezone.now(),
    )


def _why(gap: Gap | None, date: dt.datetime) -> str:
    if gap is not None and gap[0] <= date + SILENT_AFTER:
        begun, ended = (building.when(moment) for moment in gap)
        return f"The panel, its scheduler, or its worker was not running from {begun} to {ended}."
    return "The panel's worker was too busy to check its schedules on time."


def _why_late(date: dt.datetime, now: dt.datetime, gap: Gap | None) -> str:
    return f"The run started {_minutes(now - date)} late. {_why(gap, date)}" if now - date > LATE else ""


def _minutes(span: dt.timedelta) -> str:
    count = round(span.total_seconds() / 60)
    return f"{count} minute" if count == 1 else f"{count} minutes"


# --- running ---


def _follow(row: Occurrence, now: dt.datetime) -> None:
    try:
        if row.status == OccurrenceStatus.WAITING:
            _begin_waiting(row, now)
        elif row.run is None and row.suite_run is None:
            _gone(row)
        elif _is_ended(row):
            _report(row)
        elif not row.by_hand and now - row.due_at > dt.timedelta(minutes=row.schedule.grace_minutes):
            _give_up(row)
    except Exception as error:  # one schedule's error must not affect the others
        logger.exception("the report of %s could not be made", row)
        words = f"The panel could not create this report ({type(error).__name__}). See the panel's log."
        _end(row, OccurrenceStatus.FAILED, words)


def _is_ended(row: Occurrence) -> bool:
    return row.run.is_ended if row.run else bool(row.suite_run and row.suite_run.is_ended)


def _end(row: Occurrence, status: OccurrenceStatus, words: str) -> bool:
    """Mark a schedule's date as ended.
    Return False if the date has ended already, because another worker was faster.
    """
    running = Occurrence.objects.filter(pk=row.pk, status=OccurrenceStatus.RUNNING)
    return bool(running.update(status=status, reason=words, finished_at=timezone.now()))


def _gone(row: Occurrence) -> None:
    _end(row, OccurrenceStatus.FAILED, "The run was deleted before the panel created its report.")


@transaction.atomic
def _begin_waiting(row: Occurrence, now: dt.datetime) -> None:
    Schedule.objects.select_for_update(no_key=True).get(pk=row.schedule_id)
    if row.schedule.occurrences.filter(status=OccurrenceStatus.RUNNING).exists():
        return
    words = f"The run started {_minutes(now - row.due_at)} late because the previous run was still in progress."
    waiting = Occurrence.objects.filter(pk=row.pk, status=OccurrenceStatus.WAITING)
    if waiting.update(status=OccurrenceStatus.RUNNING, reason=words):
        row.status, row.reason = OccurrenceStatus.RUNNING, words
        starting.start(row, row.schedule.run_as)


@transaction.atomic
def _give_up(row: Occurrence) -> None:
    """Cancel a run that no worker started in time, and mark its date as missed with the reason."""
    run = row.run or (row.suite_run.runs.filter(case=0).first() if row.suite_run else None)
    if run is None or run.status != RunStatus.QUEUED:
        return
    busy = run.progress if "busy" in run.progress else "No worker was available."
    words = f"The run could not start within {row.schedule.grace_minutes} minutes. {busy}"
    expired = run_expire(row.run, words) if row.run else bool(row.suite_run and suite_expire(row.suite_run, words))
    if expired:
        _end(row, OccurrenceStatus.MISSED, words)


# --- reports ---


def _report(row: Occurrence) -> None:
    """Create and deliver the report of a schedule's date whose run has ended.
    The document is built before the transaction, because building takes time and changes no data.
    """
    run, suite_run = _fresh(row)
    notes = notes_of(row, run, suite_run)
    document = building.document_of(run, suite_run, notes)
    with transaction.atomic():
        if not _end(row, OccurrenceStatus.DONE, row.reason):
            return
        removed = storing.prune(row.schedule, making_room=1)
        if removed:
            document.notes.append(f"Reports removed by the retention limit: {'; '.join(removed)}.")
        report = storing.store(run=run, suite_run=suite_run, document=document, occurrence=row)
        if storing.is_told(report, row.schedule, notes):
            storing.deliver(report, row.schedule)


def _fresh(row: Occurrence) -> tuple[Run | None, SuiteRun | None]:
    run = Run.objects.filter(pk=row.run_id, status__in=ENDED).first() if row.run_id else None
    return run, None if run else row.suite_run


def notes_of(row: Occurrence, run: Run | None, suite_run: SuiteRun | None) -> list[str]:
    """Return remarks for a report: missed, skipped and failed dates since the previous report, and the reason for a
    late start.
    """
    told = row.schedule.occurrences.filter(status=OccurrenceStatus.DONE, due_at__lt=row.due_at).first()
    since = row.schedule.occurrences.filter(due_at__lt=row.due_at).order_by("due_at")
    if told is not None:
        since = since.filter(due_at__gt=told.due_at)
    lost = (OccurrenceStatus.MISSED, OccurrenceStatus.SKIPPED, OccurrenceStatus.FAILED)
    notes = [_lost(item) for item in since.filter(status__in=lost)]
    if row.reason:
        notes.append(row.reason)
    first = run or (suite_run.runs.filter(case=0).first() if suite_run else None)
    if first is not None and first.started_at and row.started_at and first.started_at - row.started_at > LATE:
        waited = _minutes(first.started_at - row.started_at)
        notes.append(f"The run waited {waited} in the queue because its host or every worker was busy.")
    return notes


def _lost(row: Occurrence) -> str:
    dates = f"{row.dates} dates until {building.when(row.due_at)}" if row.dates > 1 else building.when(row.due_at)
    return f"{row.get_status_display()}: {dates}. {row.reason}"
