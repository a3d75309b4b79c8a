"""The pages of schedules and reports as operators, viewers and outsiders see them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from panel.accounts.models import User
from panel.benchmarks.models import Run, Scenario
from panel.reports import watching
from panel.reports.models import Report, Schedule, Watch
from panel.reports.services import report_create
from panel.websites.models import Site
from tests.reports.conftest import History, at, end_run, ended_suite


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def form(scenario: Scenario, site: Site) -> dict[str, Any]:
    return {
        "name": "Every Monday",
        "team": str(site.team.pk),
        "cron": "30 2 * * 1",
        "timezone": "Europe/Vienna",
        "scenario": str(scenario.pk),
        "sites": [site.name],
        "overlap": "skip",
        "grace_minutes": "60",
        "notify": "always",
        "recipients": "anna@example.com\nben@example.com",
        "attachments": ["pdf"],
        "webhook_url": "https://hooks.example/",
        "webhook_secret": "a secret that is long enough",
        "keep_reports": "10",
    }


def test_empty_report_pages_name_next_step(operator: User, viewer: User) -> None:
    assert "Add a schedule" in client_of(operator).get("/reports/").content.decode()
    assert "No schedules yet" in client_of(operator).get("/reports/schedules").content.decode()
    page = client_of(viewer).get("/reports/").content.decode()
    assert "An operator of your team can schedule a benchmark." in page and "New schedule" not in page


def test_schedule_form_previews_next_five_dates(operator: User) -> None:
    client = client_of(operator)
    page = client.get("/reports/schedules/dates", {"cron": "30 2 * * 1", "timezone": "Europe/Vienna"}).content.decode()
    assert "At 02:30" in page and page.count("<li>") == 5
    assert page.count("02:30 CE") == 5, "the dates are not in the schedule's own zone"
    wrong = client.get("/reports/schedules/dates", {"cron": "30 2 * *", "timezone": "UTC"})
    assert wrong.status_code == 200 and "you entered 4" in wrong.content.decode()
    form = client.get("/reports/schedules/new/scenario").content.decode()
    assert 'hx-get="/reports/schedules/dates"' in form and form.count("<li><time") == 5


def test_schedule_is_created_changed_paused_run_and_deleted(operator: User, form: dict[str, Any]) -> None:
    client = client_of(operator)
    made = client.post("/reports/schedules/new/scenario", form)
    schedule = Schedule.objects.get()
    assert made.status_code == 302 and made["Location"] == f"/reports/schedules/{schedule.pk}"
    assert schedule.recipients == ["anna@example.com", "ben@example.com"] and schedule.run_as == operator
    here = f"/reports/schedules/{schedule.pk}"
    page = client.get(here).content.decode()
    assert "At 02:30" in page and "a secret that is long enough" not in page
    changed = form | {"name": "Each Monday", "webhook_secret": "", "version": schedule.row_version}
    assert client.post(f"{here}/edit", changed).status_code == 302
    schedule.refresh_from_db()
    assert (schedule.name, schedule.webhook_secret) == ("Each Monday", "a secret that is long enough")
    again = client.post(f"{here}/edit", changed | {"version": "1"})
    assert again.status_code == 422 and "changed or deleted by someone else" in again.content.decode()
    for step, words in (("pause", "was paused"), ("resume", "was resumed"), ("run", "was started")):
        assert words in client.post(f"{here}/{step}", follow=True).content.decode()
    assert Run.objects.get().title == "Each Monday"
    assert "You will lose" in client.get(f"{here}/delete").content.decode()
    assert client.post(f"{here}/delete").status_code == 302
    assert not Schedule.objects.exists() and Run.objects.exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cron": "61 * * * *"}, "The field “minute” is not valid. Enter * or 0 to 59"),
        ({"timezone": "Mars/Base"}, "Mars/Base"),
        ({"recipients": "anna@example.com\nnot an address"}, "is not an email address"),
        ({"webhook_url": "http://169.254.169.254/"}, "not a public address"),
        ({"webhook_secret": ""}, "at least 16 characters"),
        ({"sites": []}, "Select at least one site"),
        ({"grace_minutes": "0"}, "from 1 to 10080"),
        ({"name": "A\nB"}, "control character"),
    ],
)
def test_schedule_errors_appear_at_their_field(
    operator: User, form: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    answer = client_of(operator).post("/reports/schedules/new/scenario", form | changes)
    assert answer.status_code == 422 and words in answer.content.decode()
    assert not Schedule.objects.exists()


def test_schedules_are_hidden_from_other_teams(
    schedule: Schedule, history: History, operator: User, outsider: User, viewer: User
) -> None:
    report = report_create(actor=operator, run=history.run())
    stranger, reader = client_of(outsider), client_of(viewer)
    for path in (f"/reports/schedules/{schedule.pk}", f"/reports/{report.uuid}", f"/reports/{report.uuid}/report.pdf"):
        assert stranger.get(path).status_code == 404 and reader.get(path).status_code == 200
    for path in (
        f"/reports/schedules/{schedule.pk}/pause",
        f"/reports/{report.uuid}/send",
        f"/reports/{report.uuid}/delete",
    ):
        assert stranger.post(path).status_code == 404 and reader.post(path).status_code == 403
    assert report.title not in stranger.get("/reports/").content.decode()
    assert report.title in reader.get("/reports/").content.decode()


def test_report_is_created_read_downloaded_and_deleted(history: History, operator: User) -> None:
    client, run = client_of(operator), history.run()
    assert "/reports/create" in client.get(f"/benchmarks/{run.uuid}").content.decode()
    client.post("/reports/create", {"run": str(run.uuid)})
    report = Report.objects.get()
    page = client.get(f"/reports/{report.uuid}").content.decode()
    assert "no earlier result to compare with" in page and "<svg" in page and "<style" not in page
    for form, kind in (
        ("html", "text/html"),
        ("pdf", "application/pdf"),
        ("csv", "text/csv"),
        ("json", "application/json"),
    ):
        answer = client.get(f"/reports/{report.uuid}/report.{form}")
        assert answer.status_code == 200 and answer["Content-Type"].startswith(kind)
        assert answer["Content-Disposition"].endswith(f'.{form}"')
    assert client.get(f"/reports/{report.uuid}/report.exe").status_code == 404
    client.post(f"/reports/{report.uuid}/delete")
    assert not Report.objects.exists() and Run.objects.filter(pk=run.pk).exists()


def test_report_lists_can_be_filtered(history: History, operator: User) -> None:
    report = report_create(actor=operator, run=history.run())
    client = client_of(operator)
    assert report.title in client.get("/reports/", {"outcome": "first"}).content.decode()
    assert "No report matches the filters" in client.get("/reports/", {"outcome": "worse"}).content.decode()
    assert "No report matches the filters" in client.get("/reports/", {"outcome": "nonsense"}).content.decode()


def test_report_page_warns_when_worker_is_missing(operator: User, schedule: Schedule) -> None:
    client = client_of(operator)
    watching.look()
    assert "The scheduler has been inactive since" not in client.get("/reports/").content.decode()
    Watch.objects.update(looked_at=at("2026-01-01 00:00"))
    for path in ("/reports/", "/reports/schedules", f"/reports/schedules/{schedule.pk}"):
        assert "The scheduler has been inactive since" in client.get(path).content.decode()


# --- side by side ---


def test_run_comparison_shows_difference_and_confidence(history: History, operator: User) -> None:
    first, second = history.run(1.0), history.run(0.8)
    page = client_of(operator).get("/benchmarks/compare", {"run": [str(first.uuid), str(second.uuid)]})
    text = page.content.decode()
    assert page.status_code == 200 and "compared with" in text and "0.800" in text and "95 % confidence" in text


def test_suite_runs_are_compared(history: History, operator: User) -> None:
    rows = [str(ended_suite(history, speed).uuid) for speed in (1.0, 0.8)]
    client = client_of(operator)
    text = client.get("/benchmarks/suites/compare", {"suite": rows}).content.decode()
    assert "A new connection for each request" in text and "0.800" in text and "worse, but not significant yet" in text
    assert "Selected runs" in client.get("/benchmarks/suites").content.decode()
    answer = client.get("/benchmarks/suites/compare", {"suite": rows[:1]}, follow=True)
    assert "Select 2 to 4 runs" in answer.content.decode()


def test_runs_at_several_concurrencies_are_drawn_as_curve(operator: User, scenario: Scenario, site: Site) -> None:
    client = client_of(operator)
    form = {"scenario": str(scenario.pk), "sites": [site.name], "concurrencies": "1, 4 16", "title": ""}
    assert client.post("/benchmarks/new", form).status_code == 302
    runs = list(Run.objects.order_by("pk"))
    assert [run.parameters["arguments"]["concurrency"] for run in runs] == [1, 4, 16]
    assert runs[0].title == "Quick: paper, concurrency 1"
    for run, speed in zip(runs, (0.5, 1.0, 1.1), strict=True):
        end_run(run, speed)
    page = client.get("/benchmarks/compare", {"run": [str(run.uuid) for run in runs]}).content.decode()
    assert "Throughput by concurrency" in page and "at 16 connections" in page
    # they are three loads, of which the scenario asks for one: the others are not in its history
    assert "Throughput of 1 measurements" in client.get(f"/benchmarks/scenarios/{scenario.pk}").content.decode()
    for wrong, words in (("1 x", "is not a number"), ("4", "2 to 8 different"), ("1 0", "With concurrency 0")):
        answer = client.post("/benchmarks/new", form | {"concurrencies": wrong})
        assert answer.status_code == 422 and words in answer.content.decode()
    assert Run.objects.count() == 3


def test_dashboard_lists_regressions(history: History, operator: User, schedule: Schedule) -> None:
    history.runs((1.0, 1.01, 0.99, 1.0, 1.02))
    report = report_create(actor=operator, run=history.run(0.8))
    Report.objects.update(schedule=schedule)
    client = client_of(operator)
    assert report.title in client.get("/").content.decode()
    later = report_create(actor=operator, run=history.run(0.8))
    Report.objects.filter(pk=later.pk).update(schedule=schedule)
    assert report.outcome == "worse" and later.outcome == "no_difference"
    assert f"/reports/{report.uuid}" not in client.get("/").content.decode()


def test_report_of_deleted_sites_is_visible_to_administrators_only(
    history: History, operator: User, outsider: User, admin: User
) -> None:
    report = report_create(actor=operator, run=history.run())
    report.teams.clear()  # as deleting the sites, then their team, does
    for user, status in ((operator, 404), (outsider, 404), (admin, 200)):
        assert client_of(user).get(f"/reports/{report.uuid}").status_code == status


def test_history_marks_changes_on_page_and_api(history: History, operator: User, scenario: Scenario) -> None:
    history.runs([1.0, 1.01, 0.99, 1.005, 0.995, 0.8, 0.81, 0.79, 0.805, 0.795])
    client = client_of(operator)
    page = client.get(f"/benchmarks/scenarios/{scenario.pk}").content.decode()
    assert "0.80 × the previous level, worse (p = 0.0" in page
    points = client.get(f"/api/v1/scenarios/{scenario.pk}/history/?figure=throughput_rps").json()
    assert [bool(point["change"]) for point in points] == [index == 5 for index in range(10)]
    assert client.get(f"/api/v1/scenarios/{scenario.pk}/history/?figure=nonsense").status_code == 400
