"""Storage of reports with their deliveries, and removal of old reports."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from django.utils import timezone

from panel.accounts.models import Team
from panel.audit.services import audit_record
from panel.benchmarks.models import Run, SuiteRun
from panel.core.messages import Task, task_send_on_commit
from panel.reports import building
from panel.reports.choices import NOTEWORTHY, Channel, Kind, Notify
from panel.reports.document import Document, to_json
from panel.reports.models import Delivery, Occurrence, Report, Schedule
from panel.websites.models import Site


def store(
    *,
    run: Run | None = None,
    suite_run: SuiteRun | None = None,
    document: Document | None = None,
    occurrence: Occurrence | None = None,
) -> Report:
    """Store a report and return it. Without `document`, the report's content is built from the run or suite run."""
    if document is None:
        document = building.document_of(run, suite_run, [])
    schedule = occurrence.schedule if occurrence else None
    teams = _teams(run, schedule)
    own_name = schedule is not None and schedule.name == document.title
    report = Report(
        schedule=schedule,
        occurrence=occurrence,
        run=run,
        suite_run=suite_run,
        team=schedule.team if schedule else None,
        about_sites=bool(run) or (schedule is not None and schedule.kind == Kind.SCENARIO),
        title=(document.title if own_name or schedule is None else f"{schedule}: {document.title}")[:200],
        outcome=document.outcome,
        headline=document.headline,
        content=to_json(document),
    )
    report.save()
    report.teams.set(teams)
    return report


def _teams(run: Run | None, schedule: Schedule | None) -> list[Team]:
    """Return the teams of the sites in a report: sites of the run, or of the schedule if its run could not start."""
    sites = Site.objects.none()
    if run is not None:
        sites = Site.objects.filter(pk__in=run.targets.values("site"))
    elif schedule is not None:
        sites = Site.objects.filter(pk__in=schedule.sites.values("site"))
    return list(Team.objects.filter(pk__in=sites.values("team")))


def deliver(report: Report, schedule: Schedule) -> list[Delivery]:
    """Create a delivery of the report for every recipient of the schedule, and wake a worker for each."""
    now = timezone.now()
    wanted = [(Channel.MAIL, address) for address in dict.fromkeys(schedule.recipients)]
    if schedule.webhook_url:
        wanted.append((Channel.WEBHOOK, schedule.webhook_url))
    made = [
        Delivery.objects.create(report=report, channel=channel, target=target, due_at=now) for channel, target in wanted
    ]
    for row in made:
        task_send_on_commit(Task.REPORT_DELIVER, str(row.uuid))
    return made


def is_told(report: Report, schedule: Schedule, notes: Sequence[str]) -> bool:
    return schedule.notify == Notify.ALWAYS or report.outcome in NOTEWORTHY or bool(notes)


def prune(schedule: Schedule, *, making_room: int = 0) -> list[str]:
    """Delete a schedule's reports beyond its retention limits; return the date and outcome of each deleted report, in
    words.
    `making_room`: number of reports that are added next. Runs are kept for the history.
    """
    rows = schedule.reports.order_by("-created_at", "-pk")
    gone: set[int] = set()
    if schedule.keep_reports is not None:
        kept = max(schedule.keep_reports - making_room, 0)
        gone.update(rows.values_list("pk", flat=True)[kept:])
    if schedule.keep_days is not None:
        limit = timezone.now() - dt.timedelta(days=schedule.keep_days)
        gone.update(rows.filter(created_at__lt=limit).values_list("pk", flat=True))
    if not gone:
        return []
    removed = list(schedule.reports.filter(pk__in=gone).order_by("created_at"))
    titles = [f"{building.when(report.created_at)}, {report.get_outcome_display()}" for report in removed]
    schedule.reports.filter(pk__in=gone).delete()
    audit_record(actor=None, action="report.prune", target=schedule, before={"reports": titles})
    return titles
