"""Services that change schedules and reports. All arguments are keyword-only; `actor` is the requesting user.
Each service checks permission (PermissionDenied) and values (ValidationError keyed by field), and writes an audit row
in the same transaction. watching.py handles due dates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from panel.accounts.models import User
from panel.accounts.permissions import Action, require, require_each
from panel.audit.services import audit_record, snapshot
from panel.benchmarks.models import Run, SuiteRun
from panel.benchmarks.runs.services import MAX_SITES
from panel.benchmarks.selectors import scenarios_visible
from panel.core.errors import ApplicationError, Conflict
from panel.core.jobs import JobStatus
from panel.core.models import version_bump
from panel.reports import cron, starting, storing
from panel.reports.choices import OPEN, Kind
from panel.reports.models import Delivery, Occurrence, Report, Schedule, ScheduleSite
from panel.websites.models import Site

SCHEDULE_FIELDS = (
    *("name", "team", "cron", "timezone", "kind", "scenario", "suite", "preset", "chosen", "host"),
    *(
        "overlap",
        "grace_minutes",
        "notify",
        "recipients",
        "attachments",
        "webhook_url",
        "webhook_secret",
        "keep_reports",
        "keep_days",
    ),
)


def require_schedule(actor: User, schedule: Schedule) -> None:
    """Raise PermissionDenied unless `actor` may benchmark for the schedule's team and all of its sites."""
    rows = schedule.sites.select_related("site__team") if schedule.pk is not None else []
    require_each(actor, Action.BENCHMARK, [schedule.team, *(row.site.team for row in rows if row.site is not None)])


def _assign(schedule: Schedule, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if name not in SCHEDULE_FIELDS:
            known = ", ".join(SCHEDULE_FIELDS)
            raise ApplicationError(
                f"Unknown field “{name}” of a schedule. Known fields: {known}.", field=name, code="unknown"
            )
        setattr(schedule, name, value)


def _check(actor: User, schedule: Schedule, sites: Sequence[Site]) -> None:
    """Check a schedule before it is saved: its fields by the model's rules, the actor's permission, the scenario, and
    the sites.
    """
    require(actor, Action.BENCHMARK, schedule.team)
    schedule.full_clean()
    if schedule.kind != Kind.SCENARIO:
        return
    if schedule.scenario not in scenarios_visible(actor):
        raise ApplicationError("The scenario does not exist, or you do not have access to it.", field="scenario")
    if not 1 <= len(sites) <= MAX_SITES:
        raise ApplicationError(f"Choose 1 to {MAX_SITES} sites to benchmark.", field="sites")
    if len({site.pk for site in sites}) != len(sites):
        raise ApplicationError("Each site can appear only once in a schedule.", field="sites")
    require_each(actor, Action.BENCHMARK, (site.team for site in sites))


def _store_sites(schedule: Schedule, sites: Sequence[Site]) -> None:
    schedule.sites.all().delete()
    if schedule.kind == Kind.SCENARIO:
        ScheduleSite.objects.bulk_create(
            ScheduleSite(schedule=schedule, position=position, site=site, name=site.name)
            for position, site in enumerate(sites)
        )


def _told(schedule: Schedule, sites: Sequence[Site]) -> dict[str, object]:
    return {**snapshot(schedule), "sites": [site.name for site in sites]}


@transaction.atomic
def schedule_create(*, actor: User, sites: Sequence[Site] = (), **values: Any) -> Schedule:
    """Create a schedule of a scenario on `sites`, the first of which is the baseline, or of a suite on a host."""
    schedule = Schedule(run_as=actor)
    _assign(schedule, values)
    _check(actor, schedule, sites)
    schedule.next_due_at = cron.next_date(schedule.cron, schedule.timezone, timezone.now())
    schedule.save()
    _store_sites(schedule, sites)
    audit_record(actor=actor, action="schedule.create", target=schedule, after=_told(schedule, sites))
    return schedule


@transaction.atomic
def schedule_update(
    *,
    actor: User,
    schedule: Schedule,
    sites: Sequence[Site] | None = None,
    expected_version: int | None = None,
    **values: Any,
) -> Schedule:
    """Change a schedule. If `sites` is None, the schedule keeps its sites. Its future runs have the permissions of
    `actor`.
    """
    require_schedule(actor, schedule)
    version_bump(schedule, expected_version)
    stored = Schedule.objects.select_for_update().get(pk=schedule.pk)
    old = [row.site for row in stored.sites.select_related("site__team") if row.site is not None]
    chosen = old if sites is None else list(sites)
    before = _told(stored, old)
    dates = (stored.cron, stored.timezone)
    url = stored.webhook_url
    _assign(stored, values)
    if stored.webhook_url != url and "webhook_secret" not in values:
        _forget_webhook_secret(stored)
    stored.run_as = actor
    _check(actor, stored, chosen)
    if (stored.cron, stored.timezone) != dates and not stored.is_paused:
        stored.next_due_at = cron.next_date(stored.cron, stored.timezone, timezone.now())
    stored.save()
    _store_sites(stored, chosen)
    audit_record(actor=actor, action="schedule.update", target=stored, before=before, after=_told(stored, chosen))
    return stored


def _forget_webhook_secret(schedule: Schedule) -> None:
    """Delete the webhook secret after a change of the URL, because a secret signs deliveries to one URL only.
    ValidationError if a secret was stored and the schedule has a new URL: the user must enter a secret for the new URL.
    """
    had_one, schedule.webhook_secret = bool(schedule.webhook_secret), ""
    if had_one and schedule.webhook_url:
        words = "The stored secret belongs to the old URL. Enter the secret for the new URL."
        raise ValidationError({"webhook_secret": words})


@transaction.atomic
def schedule_delete(*, actor: User, schedule: Schedule) -> None:
    """Delete a schedule. Its reports and runs are kept."""
    require_schedule(actor, schedule)
    audit_record(actor=actor, action="schedule.delete", target=schedule, before=snapshot(schedule))
    schedule.delete()


@transaction.atomic
def schedule_pause(*, actor: User, schedule: Schedule) -> Schedule:
    """Pause a schedule: no further run starts, but a run in progress continues. Conflict if the schedule is paused
    already.
    """
    require_schedule(actor, schedule)
    if not Schedule.objects.filter(pk=schedule.pk, is_paused=False).update(is_paused=True, next_due_at=None):
        raise Conflict(f"{schedule} is already paused.")
    return _steered(actor, schedule, "schedule.pause")


@transaction.atomic
def schedule_resume(*, actor: User, schedule: Schedule) -> Schedule:
    """Resume a paused schedule from its next date on. Dates during the pause start no run. Conflict if the schedule is
    not paused.
    """
    require_schedule(actor, schedule)
    following = cron.next_date(schedule.cron, schedule.timezone, timezone.now())
    if not Schedule.objects.filter(pk=schedule.pk, is_paused=True).update(is_paused=False, next_due_at=following):
        raise Conflict(f"{schedule} is not paused.")
    return _steered(actor, schedule, "schedule.resume")


def _steered(actor: User, schedule: Schedule, action: str) -> Schedule:
    version_bump(schedule, None)
    schedule.refresh_from_db()
    audit_record(actor=actor, action=action, target=schedule)
    return schedule


@transaction.atomic
def schedule_run_now(*, actor: User, schedule: Schedule) -> Occurrence:
    """Start a run of a schedule in addition to its dates, even if the schedule is paused. Conflict if a run is in
    progress.
    """
    require_schedule(actor, schedule)
    stored = Schedule.objects.select_for_update().get(pk=schedule.pk)
    if stored.occurrences.filter(status__in=OPEN).exists():
        raise Conflict(f"A run of {stored} is in progress. Wait until the run ends, or cancel it.")
    occurrence = starting.begin(stored, timezone.now().replace(microsecond=0), by_hand=True, actor=actor)
    audit_record(actor=actor, action="schedule.run", target=stored)
    return occurrence


# --- reports ---


def require_report(actor: User, report: Report) -> None:
    """Raise PermissionDenied unless `actor` may benchmark for the report's team and all teams of its sites."""
    require_each(actor, Action.BENCHMARK, [report.team, *report.teams.all()])


@transaction.atomic
def report_create(*, actor: User, run: Run | None = None, suite_run: SuiteRun | None = None) -> Report:
    """Create a report of an ended run or suite run, independent of any schedule."""
    require(actor, Action.BENCHMARK)
    row = run or suite_run
    if row is None:
        raise ApplicationError("Send the UUID of a run or of a suite run for the report.", field="run")
    if not row.is_ended:
        raise Conflict(f"{row} is in progress. Create the report when the run has ended.")
    report = storing.store(run=run, suite_run=suite_run)
    require_report(actor, report)
    audit_record(actor=actor, action="report.create", target=report, after={"title": report.title})
    return report


@transaction.atomic
def report_delete(*, actor: User, report: Report) -> None:
    """Delete a report. Its run is kept."""
    require_report(actor, report)
    audit_record(actor=actor, action="report.delete", target=report, before={"title": report.title})
    report.delete()


@transaction.atomic
def report_send(*, actor: User, report: Report) -> list[Delivery]:
    """Send a report again to all recipients of its schedule. ApplicationError without recipients, Conflict while the
    report is being sent.
    """
    require_report(actor, report)
    if report.schedule is None:
        raise ApplicationError("This report has no recipients because it belongs to no schedule.")
    if report.deliveries.filter(status__in=(JobStatus.QUEUED, JobStatus.RUNNING)).exists():
        raise Conflict("Paddock is already sending this report. The page of the report lists the deliveries.")
    made = storing.deliver(report, report.schedule)
    if not made:
        raise ApplicationError(f"{report.schedule} has no recipients. Add email addresses or a webhook.")
    audit_record(actor=actor, action="report.send", target=report, after={"to": [row.target for row in made]})
    return made
