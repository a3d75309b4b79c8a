"""A schedule for part of a suite: selected on its page or over the API, started as selected, named in its report."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from panel.accounts.models import User
from panel.benchmarks.models import Run, SuiteRun
from panel.benchmarks.suites.services import suite_advance
from panel.hosts.models import Host, WebServer
from panel.reports import watching
from panel.reports.models import Report, Schedule
from panel.reports.services import report_create, schedule_run_now
from tests.reports.conftest import History, end_run, ended_suite

NEW = "/reports/schedules/new/suite"
PART = {"cases": ["keepalive"], "setups": ["nginx"]}
STORED = PART | {"protocols": []}


@pytest.fixture
def client(operator: User) -> Client:
    client = Client()
    client.force_login(operator)
    return client


@pytest.fixture
def form(host: Host, web_server: WebServer) -> dict[str, Any]:
    return {
        "name": "Small files on Sundays",
        "cron": "0 3 * * 0",
        "timezone": "UTC",
        "suite": "small-static-files",
        "preset": "short",
        "host": host.name,
        "overlap": "skip",
        "grace_minutes": "60",
        "notify": "always",
    }


def made(client: Client, values: dict[str, Any]) -> Schedule:
    answer = client.post(NEW, values)
    assert answer.status_code == 302, answer.content.decode()
    return Schedule.objects.get()


def test_suite_part_is_selected_shown_saved_and_started(client: Client, form: dict[str, Any], operator: User) -> None:
    schedule = made(client, form | PART)
    assert schedule.chosen == STORED
    page = client.get(f"/reports/schedules/{schedule.pk}").content.decode()
    for words in ("Small static files, preview", "Keep-alive connections", "<dd>nginx</dd>"):
        assert words in page, words
    edited = client.get(f"/reports/schedules/{schedule.pk}/edit").content.decode()
    assert re.findall(r'name="(?:cases|setups|protocols)" value="([^"]*)"[^>]* checked', edited) == [
        "keepalive",
        "nginx",
    ]
    answer = client.post(f"/reports/schedules/{schedule.pk}/edit", form | PART | {"preset": "full"})
    assert answer.status_code == 302
    schedule.refresh_from_db()
    assert (schedule.preset, schedule.chosen) == ("full", STORED)
    schedule_run_now(actor=operator, schedule=schedule)
    row = SuiteRun.objects.get()
    assert [case["slug"] for case in row.plan] == ["keepalive"]
    assert ([item["slug"] for item in row.setups], row.preset) == (["nginx"], "full")


def test_schedule_without_selection_runs_whole_suite(client: Client, form: dict[str, Any]) -> None:
    schedule = made(client, form)
    assert schedule.chosen == {}
    assert "all on the host" in client.get(f"/reports/schedules/{schedule.pk}").content.decode()


def test_schedule_form_offers_parts_of_selected_suite(client: Client) -> None:
    first = client.get(NEW, {"suite": "php-application-2020"}).content.decode()
    assert "Bundled shop" in first and "Custom pages" in first and 'value="h3"' not in first
    second = " ".join(client.get(NEW, {"suite": "http3-2019"}).content.decode().split())
    assert "Bundled shop" not in second and 'value="h3"' in second
    assert "Preview: 4 cases, about" in second and "Full suite:" in second
    words = client.get("/benchmarks/suites/http3-2019/expected?words&protocols=h3").content.decode()
    words = " ".join(words.split())
    assert "Preview: 2 cases" in words and "<button" not in words


def test_schedule_rejects_part_missing_in_preset(client: Client, form: dict[str, Any]) -> None:
    wrong = form | {"suite": "http3-2019", "cases": ["file-1gb"]}
    answer = client.post(NEW, wrong)
    page = answer.content.decode()
    assert answer.status_code == 422 and "This preset has no case “One file of 1 GB” (file-1gb)" in page
    assert 'aria-invalid="true"' in page and not Schedule.objects.exists()
    assert client.post(NEW, wrong | {"preset": "full"}).status_code == 302
    unknown = client.post(NEW, form | {"setups": ["caddy"]}).content.decode()
    assert "“caddy” is not available" in unknown


def test_page_save_keeps_case_selected_over_api(client: Client, form: dict[str, Any], host: Host) -> None:
    schedule = made(client, form | {"suite": "http3-2019", "preset": "full"})
    Schedule.objects.update(chosen={"cases": ["small-short-0"]})
    page = client.get(f"/reports/schedules/{schedule.pk}/edit").content.decode()
    assert 'value="small-short-0"' in page and "100 Mbit/s, 100 ms" in page
    values = form | {"suite": "http3-2019", "preset": "full", "cases": ["small-short-0"]}
    assert client.post(f"/reports/schedules/{schedule.pk}/edit", values).status_code == 302
    assert Schedule.objects.get().chosen["cases"] == ["small-short-0"]


def test_report_names_selected_part(client: Client, form: dict[str, Any], operator: User) -> None:
    schedule = made(client, form | PART)
    schedule_run_now(actor=operator, schedule=schedule)
    row = SuiteRun.objects.get()
    suite_advance(row)
    end_run(Run.objects.get(suite_run=row))
    SuiteRun.objects.filter(pk=row.pk).update(status="finished", position=1)
    watching.look()
    report = Report.objects.get()
    facts = dict(report.content["facts"])
    assert (facts["Suite"], facts["Part"]) == ("Small static files, preview", "Keep-alive connections")
    assert "nginx" in facts["Web servers"] and "a part" in report.title


# --- what else changed ---


def test_report_names_changed_environment_once(history: History, operator: User) -> None:
    ended_suite(history)
    row = ended_suite(history, 0.8, version="1.24.0", governor="powersave", digest="b" * 64)
    report = report_create(actor=operator, suite_run=row)
    assert report.content["around"] == [
        "The CPU governor of here changed from performance to powersave.",
        "The web server's version of nginx changed from 1.22.1 to 1.24.0.",
        "The configuration of nginx has changed since the run.",
    ]
    again = report_create(
        actor=operator, suite_run=ended_suite(history, version="1.24.0", governor="powersave", digest="b" * 64)
    )
    assert again.content["around"] == []


def test_changed_case_is_not_compared(history: History, operator: User) -> None:
    ended_suite(history)
    row = ended_suite(history, 0.5)
    row.plan[0]["arguments"]["concurrency"] = 50
    row.save()
    report = report_create(actor=operator, suite_run=row)
    assert report.content["around"] == [
        "The settings of the case “A new connection for each request” differ, so the report does not compare this case."
    ]
    assert report.content["changes"] == []


def test_default_application_equals_named_default(history: History, operator: User) -> None:
    for chosen in ({}, {"application": "shop"}):
        row = ended_suite(history, suite="php-application-2020", setup="nginx-fpm")
        SuiteRun.objects.filter(pk=row.pk).update(chosen=chosen)
    assert report_create(actor=operator, suite_run=SuiteRun.objects.first()).content["since"]
