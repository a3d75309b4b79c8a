"""A due date starts one run in every circumstance; a missed date is shown with its reason."""

from __future__ import annotations

import datetime as dt
import os
import signal
from unittest import mock

import pytest
from django.db import connections

from panel.accounts.models import User
from panel.benchmarks.models import Run, RunStatus, SuiteRun
from panel.benchmarks.runs.services import run_cancel
from panel.core.errors import Conflict
from panel.deployments.models import Revision, SiteState
from panel.hosts.models import Host
from panel.reports import starting, watching
from panel.reports.choices import Kind, OccurrenceStatus, Overlap
from panel.reports.models import Occurrence, Report, Schedule, Watch
from panel.reports.services import schedule_create, schedule_pause, schedule_resume, schedule_run_now
from panel.websites.models import Site
from tests.reports.conftest import at, end_run

DUE = at("2026-03-02 02:00")
MINUTE = dt.timedelta(minutes=1)


def due(schedule: Schedule, moment: dt.datetime = DUE) -> Schedule:
    """As it is just before `moment`, when the sweep looked last."""
    Schedule.objects.filter(pk=schedule.pk).update(next_due_at=moment)
    Watch.objects.update_or_create(pk=1, defaults={"looked_at": moment - dt.timedelta(seconds=10)})
    return Schedule.objects.get(pk=schedule.pk)


def rows(schedule: Schedule) -> list[tuple[str, dt.datetime, int]]:
    return [(row.status, row.due_at, row.dates) for row in schedule.occurrences.order_by("due_at")]


def test_due_date_starts_exactly_one_run(schedule: Schedule, operator: User) -> None:
    due(schedule)
    for _ in range(3):
        watching.look(DUE + dt.timedelta(seconds=5))
    run = Run.objects.get()
    assert (run.status, run.title, run.requested_by) == ("queued", "Nightly", operator)
    assert rows(schedule) == [("running", DUE, 1)]
    schedule.refresh_from_db()
    assert schedule.next_due_at == at("2026-03-03 02:00")
    assert Occurrence.objects.get().reason == ""


def test_run_does_not_start_before_its_date(schedule: Schedule) -> None:
    due(schedule)
    watching.look(DUE - MINUTE)
    assert not Run.objects.exists()


def test_finished_run_creates_one_report(schedule: Schedule) -> None:
    due(schedule)
    watching.look(DUE)
    end_run(Run.objects.get())
    for _ in range(2):
        watching.look(DUE + 10 * MINUTE)
    report = Report.objects.get()
    assert (report.outcome, report.schedule, report.run) == ("first", schedule, Run.objects.get())
    assert Occurrence.objects.get().status == OccurrenceStatus.DONE
    assert list(report.teams.all()) == [schedule.team or Site.objects.get().team]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("point", ["before", "after"])
def test_killed_worker_neither_loses_nor_repeats_date(schedule: Schedule, point: str) -> None:
    """kill -9 of a separate process within the transaction: before the run is created, and after all is written."""
    due(schedule)
    for open_one in connections.all():  # neither a connection nor a pool of them may be shared with a child
        open_one.close()
        getattr(open_one, "close_pool", lambda: None)()
    child = os.fork()
    if child == 0:  # it never comes back from here
        begin = starting.begin

        def killed(*args: object, **kwargs: object) -> None:
            if point == "after":
                begin(*args, **kwargs)  # type: ignore[arg-type]
            os.kill(os.getpid(), signal.SIGKILL)

        with mock.patch.object(starting, "begin", killed):
            watching.look(DUE)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert not Run.objects.exists() and not Occurrence.objects.exists()
    watching.look(DUE + MINUTE)
    watching.look(DUE + MINUTE)
    assert Run.objects.count() == 1 and rows(schedule) == [("running", DUE, 1)]


def test_dates_missed_during_downtime_are_counted_and_reported(schedule: Schedule) -> None:
    due(schedule)
    watching.look(DUE + dt.timedelta(days=3, hours=5))
    assert rows(schedule) == [("missed", DUE + dt.timedelta(days=3), 4)]
    row = Occurrence.objects.get()
    assert "was not running from 2026-03-02 01:59 UTC to 2026-03-05 07:00 UTC" in row.reason
    assert not Run.objects.exists()
    # the next report says so
    watching.look(at("2026-03-06 02:00"))
    end_run(Run.objects.get())
    watching.look(at("2026-03-06 02:10"))
    (note,) = Report.objects.get().content["notes"]
    assert note.startswith(
        "Missed: 4 dates until 2026-03-05 02:00 UTC. The panel, its scheduler, or its worker was not"
    )


def test_late_date_within_limit_starts_run_and_is_reported_late(schedule: Schedule) -> None:
    due(schedule)
    watching.look(DUE + dt.timedelta(days=1, minutes=30))
    assert rows(schedule) == [("missed", DUE, 1), ("running", DUE + dt.timedelta(days=1), 1)]
    reason = Occurrence.objects.get(status="running").reason
    assert reason.startswith("The run started 30 minutes late. The panel, its scheduler")


def test_date_is_missed_when_host_stays_busy(schedule: Schedule) -> None:
    due(schedule)
    watching.look(DUE)
    Run.objects.update(progress="here is busy with deployment 4f1c. Wait until it ends, or cancel it.")
    watching.look(DUE + 59 * MINUTE)
    assert Run.objects.get().status == RunStatus.QUEUED
    watching.look(DUE + 61 * MINUTE)
    assert Run.objects.get().status == RunStatus.CANCELLED
    row = Occurrence.objects.get()
    assert row.status == "missed" and "within 60 minutes. here is busy with deployment 4f1c" in row.reason
    assert not Report.objects.exists()


def test_report_mentions_wait_for_host(schedule: Schedule) -> None:
    due(schedule)
    watching.look(DUE)
    end_run(Run.objects.get())
    started = Occurrence.objects.get().started_at
    assert started is not None
    Run.objects.update(started_at=started + 12 * MINUTE)
    watching.look(DUE + 20 * MINUTE)
    (note,) = Report.objects.get().content["notes"]
    assert note == "The run waited 12 minutes in the queue because its host or every worker was busy."


@pytest.mark.parametrize(("overlap", "second"), [(Overlap.SKIP, "skipped"), (Overlap.WAIT, "waiting")])
def test_date_during_previous_run_is_skipped_or_waits(schedule: Schedule, overlap: Overlap, second: str) -> None:
    Schedule.objects.update(overlap=overlap, grace_minutes=10_000)
    due(schedule)
    watching.look(DUE)
    watching.look(DUE + dt.timedelta(days=1))
    assert [status for status, *_ in rows(schedule)] == ["running", second]
    assert "still in progress" in schedule.occurrences.get(status=second).reason
    watching.look(DUE + dt.timedelta(days=2))  # a third never waits too
    assert [status for status, *_ in rows(schedule)] == ["running", second, "skipped"]
    end_run(Run.objects.get())
    watching.look(DUE + dt.timedelta(days=2, minutes=1))
    watching.look(DUE + dt.timedelta(days=2, minutes=2))
    begun = Run.objects.filter(status=RunStatus.QUEUED).count()
    assert begun == (1 if overlap == Overlap.WAIT else 0)
    assert schedule.occurrences.filter(status="finished").count() == 1


def test_paused_schedule_starts_no_runs_and_does_not_catch_up(schedule: Schedule, operator: User) -> None:
    schedule_pause(actor=operator, schedule=schedule)
    Schedule.objects.update(next_due_at=DUE)
    watching.look(DUE + MINUTE)
    assert not Occurrence.objects.exists()
    with pytest.raises(Conflict):
        schedule_pause(actor=operator, schedule=schedule)
    resumed = schedule_resume(actor=operator, schedule=schedule)
    assert resumed.next_due_at is not None and resumed.next_due_at > dt.datetime.now(dt.UTC)


def test_run_now_starts_one_run_beside_schedule(schedule: Schedule, operator: User) -> None:
    before = schedule.next_due_at
    schedule_run_now(actor=operator, schedule=schedule)
    schedule.refresh_from_db()
    assert schedule.next_due_at == before and Occurrence.objects.get().by_hand
    with pytest.raises(Conflict, match="in progress"):
        schedule_run_now(actor=operator, schedule=schedule)


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        ("site", "The site paper of this schedule was deleted"),
        ("scenario", "The scenario of this schedule was deleted"),
        ("account", "runs as the user who saved it last"),
        ("role", "does not allow the action “benchmark”"),
    ],
)
def test_date_that_cannot_start_is_reported_with_reason(
    schedule: Schedule, operator: User, site: Site, loss: str, words: str
) -> None:
    if loss == "site":
        SiteState.objects.all().delete()  # it was disabled and taken off its host first
        Revision.objects.all().delete()
        site.delete()
    elif loss == "scenario":
        assert schedule.scenario is not None
        schedule.scenario.delete()
    elif loss == "account":
        User.objects.filter(pk=operator.pk).update(is_active=False)
    else:
        User.objects.filter(pk=operator.pk).update(role="viewer")
    due(schedule)
    watching.look(DUE)
    row = Occurrence.objects.get()
    assert row.status == OccurrenceStatus.FAILED and words in row.reason
    report = Report.objects.get()
    assert report.outcome == "failed" and words in report.headline
    assert not Run.objects.exists()


def test_cancelled_and_deleted_runs_close_their_dates(schedule: Schedule, operator: User) -> None:
    due(schedule)
    watching.look(DUE)
    run_cancel(actor=operator, run=Run.objects.get())
    watching.look(DUE + MINUTE)
    assert Report.objects.get().headline == "No figures: The run was cancelled."
    watching.look(DUE + dt.timedelta(days=1))
    Run.objects.filter(status="queued").delete()
    watching.look(DUE + dt.timedelta(days=1, minutes=1))
    assert schedule.occurrences.first().reason == "The run was deleted before the panel created its report."  # type: ignore[union-attr]


def test_suite_schedule_starts_on_its_host(operator: User, host: Host, site: Site) -> None:
    schedule = schedule_create(
        actor=operator,
        name="Weekly suite",
        cron="0 3 * * 0",
        kind=Kind.SUITE,
        suite="small-static-files",
        preset="short",
        host=host,
    )
    due(schedule)
    watching.look(DUE)
    row = SuiteRun.objects.get()
    assert (row.host, row.preset, row.requested_by) == (host, "short", operator)
    assert Occurrence.objects.get().suite_run == row


def test_old_reports_are_deleted_and_deletion_is_shown(schedule: Schedule) -> None:
    Schedule.objects.update(keep_reports=2)
    for day in range(4):
        due(schedule, DUE + dt.timedelta(days=day))
        watching.look(DUE + dt.timedelta(days=day))
        end_run(Run.objects.get(status="queued"))
        watching.look(DUE + dt.timedelta(days=day, minutes=5))
    assert Report.objects.count() == 2 and Run.objects.count() == 4
    newest = Report.objects.first()
    assert newest is not None
    assert any(note.startswith("Reports removed by the retention limit:") for note in newest.content["notes"])
    from panel.reports.selectors import removed_of

    assert len(removed_of(schedule)) == 2
    Report.objects.update(created_at=DUE)
    Schedule.objects.update(keep_days=30)
    watching.look(dt.datetime.now(dt.UTC))
    assert not Report.objects.exists()
