"""Selectors: schedules and reports that a user can see."""

from __future__ import annotations

import datetime as dt

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.utils import timezone

from panel.accounts.models import User
from panel.accounts.permissions import Action, in_scope, team_keys
from panel.audit.models import AuditEntry
from panel.benchmarks.selectors import suites_visible
from panel.hosts.selectors import hosts_visible
from panel.reports.choices import NOTEWORTHY, Outcome
from panel.reports.models import Occurrence, Report, Schedule, ScheduleSite, Watch

# The sweep checks every 15 s; after this time without a check, a process is not running.
SILENT_AFTER = dt.timedelta(seconds=90)


def schedules_visible(user: User) -> QuerySet[Schedule]:
    """Return the schedules that the user can see. Administrators see all. For other users, a schedule has no team or
    one of the user's teams, all its sites belong to the user's teams, and its host is visible to the user.
    """
    rows = Schedule.objects.select_related("team", "scenario", "host", "run_as").prefetch_related("sites__site__team")
    if not user.is_active or not in_scope(user, Action.VIEW):
        return rows.none()
    if user.is_admin:
        return rows
    teams = team_keys(user)
    foreign = ScheduleSite.objects.filter(site__isnull=False).exclude(site__team__in=teams)
    of_teams = rows.filter(Q(team=None) | Q(team__in=teams)).exclude(sites__in=foreign).distinct()
    return of_teams.filter(Q(host=None) | Q(host__in=hosts_visible(user).values("pk")))


def reports_visible(user: User) -> QuerySet[Report]:
    """Return the reports that the user can see. Administrators see all. Other users see reports whose sites all belong
    to their teams, and reports of suite runs that they can see.
    """
    rows = Report.objects.select_related("schedule", "run", "suite_run")
    if not user.is_active or not in_scope(user, Action.VIEW):
        return rows.none()
    if user.is_admin:
        return rows
    teams = team_keys(user)
    about = Report.teams.through._default_manager.filter(report=OuterRef("pk"))
    own, others = Exists(about.filter(team__in=teams)), Exists(about.exclude(team__in=teams))
    mine = rows.filter(Q(team=None) | Q(team__in=teams), Q(about_sites=False) | own, ~others)
    return mine.filter(Q(about_sites=True, suite_run=None) | Q(suite_run__in=suites_visible(user).values("pk")))


def occurrences_of(schedule: Schedule) -> QuerySet[Occurrence]:
    return schedule.occurrences.select_related("run", "suite_run", "report")


def with_last(rows: QuerySet[Schedule]) -> QuerySet[Schedule]:
    """Prefetch `occurrences` of schedules, limited to the newest date of each schedule."""
    newest = Occurrence.objects.filter(schedule=OuterRef("schedule")).order_by("-due_at", "-pk").values("pk")[:1]
    last = Occurrence.objects.filter(pk=Subquery(newest)).select_related("report")
    return rows.prefetch_related(Prefetch("occurrences", last))


def looked_at() -> dt.datetime | None:
    """Return the time when schedules were last checked; None before the first check."""
    return Watch.objects.filter(pk=1).values_list("looked_at", flat=True).first()


def silent_since() -> dt.datetime | None:
    """Return the time of the last check of schedules if the check is too long ago, otherwise None.
    A long time without checks means that the worker or the scheduler is not running.
    """
    last = looked_at()
    return last if last and timezone.now() - last > SILENT_AFTER else None


def removed_of(schedule: Schedule) -> QuerySet[AuditEntry]:
    """Return the audit entries about deletions of the schedule's reports by its retention limits, newest first."""
    return AuditEntry.objects.filter(
        action="report.prune", object_type="reports.schedule", object_id=str(schedule.pk)
    ).order_by("-pk")


def alarming(user: User, since: dt.datetime) -> list[Report]:
    """Return reports created after `since` that need attention: worse figures, invalid figures, or a failure.
    Only the newest report of each schedule counts.
    """
    rows = reports_visible(user).filter(schedule__isnull=False, created_at__gt=since).defer("content")
    newest: dict[int | None, Report] = {}
    for row in rows.order_by("created_at", "pk"):
        newest[row.schedule_id] = row
    return [row for row in newest.values() if row.outcome in NOTEWORTHY and row.outcome != Outcome.BETTER]
