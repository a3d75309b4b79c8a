"""Schedules, their dates, and a report of a real run with its deliveries."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from django.urls import reverse
from django.utils import timezone

from panel.accounts.models import User
from panel.benchmarks.models import Run
from panel.reports import building, storing
from panel.reports.models import Occurrence, Report, Schedule
from panel.reports.services import schedule_create
from panel.websites.models import Site
from tests.suites.browser.world.sites import LONG_SITE
from tests.suites.security.world import KEY

WHY_MISSED = (
    "The panel, its scheduler, or its worker was not running from 2026-01-05 01:59 UTC to 2026-01-26 07:00 UTC."
)


def build(owner: User, sites: list[Site]) -> list[str]:
    """A schedule with every kind of date, a report of a real run with all there is to say, its deliveries; and a
    schedule of a suite, paused."""
    run = Run.objects.get(status="finished", title__startswith="The shop")
    schedule = _schedule(owner, run, sites[:1])
    _dates(schedule)
    report = _report(run, schedule)
    _deliveries(report, schedule)
    Schedule.objects.create(
        name="The suite", cron="0 3 * * 0", kind="suite", suite="http3-2019", preset="short", is_paused=True
    )
    paths = [reverse("reports:schedule", args=[item.pk]) for item in Schedule.objects.exclude(pk=KEY)]
    paths += [reverse("reports:schedule-edit", args=[schedule.pk]), reverse("reports:schedule-create", args=["suite"])]
    return [*paths, reverse("reports:detail", args=[report.uuid]), f"{reverse('reports:list')}?outcome=better"]


def _schedule(owner: User, run: Run, sites: list[Site]) -> Schedule:
    return schedule_create(
        actor=owner,
        name="Every Monday morning, before anybody is in the office",
        cron="30 2 * * 1",
        kind="scenario",
        scenario=run.scenario,
        timezone="Europe/Vienna",
        recipients=["ops@company.example"],
        webhook_url="https://hooks.company.example/paddock/a/rather/long/path",
        webhook_secret="s" * 20,
        sites=sites,
    )


def _dates(schedule: Schedule) -> None:
    """One that did not become a run, of every kind."""
    now = timezone.now()
    for days, (status, dates, reason) in enumerate(
        (
            ("waiting", 1, "The run of 2026-02-02 01:30 UTC was still in progress."),
            ("skipped", 1, "The run of 2026-02-02 01:30 UTC was still in progress."),
            ("failed", 1, f"The site {LONG_SITE} of this schedule was deleted. Choose other sites."),
            ("missed", 3, WHY_MISSED),
        )
    ):
        due = now - timedelta(days=7 * days)
        Occurrence.objects.create(schedule=schedule, due_at=due, status=status, dates=dates, reason=reason)


def _report(run: Run, schedule: Schedule) -> Report:
    due = timezone.now() - timedelta(days=90)
    row = Occurrence.objects.create(schedule=schedule, due_at=due, status="finished", run=run)
    document = replace(
        building.run_document(run, [f"Missed: 3 dates until 2026-01-26 01:30 UTC. {WHY_MISSED}"]),
        outcome="worse",
        headline="A significant change since the run of 2026-01-05 01:30 UTC. shop, nginx: throughput is 0.82 "
        "× the previous value (0.81 to 0.84, 95 % confidence), worse: significant.",
        changes=[
            "shop, nginx: throughput is 0.82 × the previous value.",
            "shop, Apache httpd: latency, 99 % is worse.",
        ],
        around=["The server's version of shop, nginx changed from 1.22.1 to 1.24.0."],
    )
    return storing.store(run=run, document=document, occurrence=row)


def _deliveries(report: Report, schedule: Schedule) -> None:
    """One that failed and one that waits."""
    words = "No mail server is configured. Set PADDOCK_SMTP_HOST for the panel's worker."
    log = [{"at": "2026-02-02T01:40:00+00:00", "words": words, "seconds": 0.01}]
    for delivery, status in zip(storing.deliver(report, schedule), ("failed", "queued"), strict=True):
        type(delivery).objects.filter(pk=delivery.pk).update(status=status, attempts=1, log=log)
