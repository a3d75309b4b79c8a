"""Schedules and reports over the API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from panel.benchmarks.models import Scenario
from panel.hosts.models import Connection, Host, HostStatus
from panel.reports.models import Report, Schedule
from panel.websites.models import Site
from tests.api.caller import Caller, pointers
from tests.support.cast import Cast


@pytest.fixture
def scenario(people: Cast) -> Scenario:
    parameters: dict[str, Any] = {"tool": "ab", "arguments": {"requests": 100, "concurrency": 1}, "paths": ["/"]}
    row = Scenario(name="Quick", team=people.team, **parameters)
    row.full_clean()
    row.save()
    return row


@pytest.fixture
def body(people: Cast, scenario: Scenario) -> dict[str, Any]:
    Site.objects.create(name="shop", team=people.team, web_server=people.nginx)
    return {
        "name": "Nightly",
        "team": "shop",
        "cron": "0 2 * * *",
        "timezone": "Europe/Vienna",
        "kind": "scenario",
        "scenario": scenario.pk,
        "sites": ["shop"],
        "recipients": ["anna@example.com"],
        "webhook_url": "https://hooks.example/paddock",
        "webhook_secret": "a secret that nobody reads",
    }


def test_schedule_is_created_changed_and_deleted(
    owner: Caller, viewer: Caller, outsider: Caller, body: dict[str, Any]
) -> None:
    tried = owner.post("schedules/?dry_run=true", body)
    assert tried.status_code == 200 and not Schedule.objects.exists()
    made = owner.post("schedules/", body)
    assert made.status_code == 201
    path = made["Location"].removeprefix("/api/v1/")
    told = made.json()
    assert told["sites"] == ["shop"] and told["has_webhook_secret"] is True and told["run_as"] == "olaf"
    assert "webhook_secret" not in told and told["next_due_at"].endswith("Z")
    assert viewer.get(path).status_code == 200 and outsider.get(path).status_code == 404
    assert viewer.post(f"{path}pause/").status_code == 403
    changed = owner.patch(path, {"cron": "@weekly", "sites": ["shop"]}, If_Match=made["ETag"])
    assert changed.status_code == 200 and changed.json()["cron"] == "0 0 * * 0"
    assert owner.patch(path, {"cron": "@daily"}, If_Match=made["ETag"]).status_code == 412
    assert Schedule.objects.get().webhook_secret == "a secret that nobody reads"
    assert owner.post(f"{path}pause/").json()["is_paused"] is True
    assert owner.post(f"{path}pause/").status_code == 409
    assert owner.post(f"{path}resume/").json()["is_paused"] is False
    begun = owner.post(f"{path}run-now/")  # the site is not deployed: the date fails with that reason
    assert begun.status_code == 202 and "not deployed" in begun.json()["reason"]
    (occurrence,) = owner.get(f"{path}occurrences/").json()
    assert (occurrence["status"], occurrence["by_hand"]) == ("failed", True)
    report = owner.get(f"reports/{occurrence['report']}/").json()
    assert report["outcome"] == "failed" and "not deployed" in report["headline"]
    assert owner.delete(path).status_code == 204 and Report.objects.count() == 1


def test_report_is_served_in_every_format(owner: Caller, outsider: Caller, body: dict[str, Any]) -> None:
    path = owner.post("schedules/", body)["Location"].removeprefix("/api/v1/")
    owner.post(f"{path}run-now/")
    (row,) = owner.get("reports/").json()["results"]
    for form, kind in (
        ("html", "text/html"),
        ("pdf", "application/pdf"),
        ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
        ("csv", "text/csv"),
        ("json", "application/json"),
    ):
        answer = owner.get(f"reports/{row['uuid']}/report.{form}/")
        assert answer.status_code == 200 and answer["Content-Type"].startswith(kind)
        assert outsider.get(f"reports/{row['uuid']}/report.{form}/").status_code == 404
    sent = owner.get(f"reports/{row['uuid']}/deliveries/").json()
    assert {(item["channel"], item["status"]) for item in sent} == {("mail", "queued"), ("webhook", "queued")}
    assert owner.post(f"reports/{row['uuid']}/send/").status_code == 409
    assert outsider.delete(f"reports/{row['uuid']}/").status_code == 404
    assert owner.delete(f"reports/{row['uuid']}/").status_code == 204


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"cron": "nonsense"}, "/cron"),
        ({"timezone": "Mars"}, "/timezone"),
        ({"scenario": 999}, "/scenario"),
        ({"sites": ["nobody"]}, "/sites/0"),
        ({"sites": []}, "/sites"),
        ({"recipients": ["no address"]}, "/recipients"),
        ({"attachments": ["exe"]}, "/attachments/0"),
        ({"webhook_url": "http://127.0.0.1/"}, "/webhook_url"),
        ({"webhook_secret": "short"}, "/webhook_secret"),
        ({"keep_days": 0}, "/keep_days"),
        ({"shell": "rm"}, "/shell"),
    ],
)
def test_schedule_errors_appear_at_their_field(
    owner: Caller, body: dict[str, Any], changes: dict[str, Any], pointer: str
) -> None:
    answer = owner.post("schedules/", body | changes)
    assert answer.status_code == 422 and pointers(answer)[0] == pointer, answer.content
    assert not Schedule.objects.exists()


def test_cron_preview_lists_next_dates(owner: Caller) -> None:
    told = owner.get("schedules/dates/?cron=30+2+*+*+1&timezone=Europe/Vienna").json()
    assert len(told["dates"]) == 5 and told["explained"].startswith("At 02:30")
    assert owner.get("schedules/dates/?cron=30").status_code == 400
    assert owner.get("schedules/dates/?cron=@daily&timezone=Mars").status_code == 400


def test_report_requires_finished_visible_run(owner: Caller) -> None:
    assert pointers(owner.post("reports/", {})) == ["/run", "/suite"]
    nobody = "70010000-0000-4000-8000-00000000ffff"
    assert json.loads(owner.post("reports/", {"run": nobody}).content)["errors"][0]["pointer"] == "/run"
    assert owner.get(f"suites/compare/?suites={nobody},{nobody}").status_code in (400, 422)


def test_suite_part_schedule_is_created_and_deleted(owner: Caller, body: dict[str, Any]) -> None:
    Host.objects.create(name="bench", connection=Connection.LOCAL, status=HostStatus.READY)
    suite = {"kind": "suite", "suite": "http3-2019", "preset": "full", "host": "bench", "scenario": None, "sites": []}
    chosen = {"cases": ["small-short-0"], "protocols": ["h3"], "setups": ["gallop"]}
    made = owner.post("schedules/", body | suite | {"chosen": chosen})
    assert made.status_code == 201, made.content
    assert made.json()["chosen"] == chosen
    path = made["Location"].removeprefix("/api/v1/")
    for wrong, pointer in (
        ({"chosen": {"cases": ["file-2tb"]}}, "/chosen"),
        ({"chosen": {"setups": ["caddy"]}}, "/chosen/setups/0"),
        ({"preset": "short", "chosen": {"cases": ["file-1gb"]}}, "/chosen"),
        ({"chosen": {"servers": ["gallop"]}}, "/chosen/servers"),
    ):
        answer = owner.patch(path, wrong, If_Match=made["ETag"])
        assert answer.status_code == 422 and pointers(answer)[0] == pointer, answer.content
    whole = owner.patch(path, {"chosen": {}}, If_Match=made["ETag"])
    assert whole.status_code == 200 and whole.json()["chosen"] == {}
