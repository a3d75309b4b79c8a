"""Scenarios and runs over the API. tests/benchmarks measures with the real tools."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest

from panel.benchmarks.models import Run, Scenario, SuiteRun
from panel.hosts.models import Connection, Host, HostStatus, Layout, WebServer
from tests.api.caller import Caller, caller_of, pointers
from tests.suites.security import world
from tests.suites.security.world import World, build

SCENARIO = {
    "name": "quick",
    "team": "owners",
    "tool": "ab",
    "arguments": {"requests": 100, "concurrency": 2},
    "paths": ["/"],
}


@pytest.fixture
def made(db: None) -> World:
    return build()


@pytest.fixture
def owner(made: World) -> Caller:
    return caller_of(made.owner)


def test_scenarios_are_created_changed_and_deleted(owner: Caller) -> None:
    answer = owner.post("scenarios/", SCENARIO)
    assert answer.status_code == 201, answer.content
    path = answer["Location"].removeprefix("/api/v1/")
    changed = owner.patch(path, {"rounds": 5}, If_Match=answer["ETag"])
    assert changed.json()["rounds"] == 5
    assert owner.patch(path, {"rounds": 6}, If_Match=answer["ETag"]).status_code == 412
    assert owner.delete(path).status_code == 204


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"tool": "curl"}, "/tool"),
        ({"arguments": {"requests": 100, "extra": "-o /etc/passwd"}}, "/arguments"),
        ({"arguments": {"requests": "100; id", "concurrency": 1}}, "/arguments"),
        ({"paths": ["no-slash"]}, "/paths"),
        ({"paths": ["http://169.254.169.254/"]}, "/paths"),
        ({"paths": ["/a\r\nX: y"]}, "/paths"),
        ({"rounds": 0}, "/rounds"),
        ({"rounds": True}, "/rounds"),
        ({"allowed_error_percent": True}, "/allowed_error_percent"),
        ({"name": ""}, "/name"),
        ({"command": "ab -n 1"}, "/command"),
    ],
)
def test_invalid_scenarios_are_reported_at_their_field(owner: Caller, changes: dict[str, object], pointer: str) -> None:
    answer = owner.post("scenarios/", SCENARIO | changes)
    assert answer.status_code == 422 and pointers(answer)[0].startswith(pointer), answer.content
    assert Scenario.objects.count() == 1


def test_runs_are_shown_with_rounds_output_and_exports(owner: Caller) -> None:
    run = owner.get(f"runs/{world.RUN}/").json()
    assert run["status"] == "failed" and run["targets"][0]["site"] == world.NAME
    assert owner.get(f"runs/{world.RUN}/rounds/").json()[0]["number"] == 1
    assert owner.get(f"runs/{world.RUN}/rounds/0/1/output/")["Content-Type"].startswith("text/plain")
    assert owner.get(f"runs/{world.RUN}/rounds/0/9/output/").status_code == 404
    assert owner.get(f"runs/{world.RUN}/export.json/").json()["uuid"] == str(world.RUN)
    assert owner.get(f"runs/{world.RUN}/export.csv/").content.startswith(b"target,engine")
    job = owner.get(f"jobs/{world.RUN}/").json()
    assert (job["type"], job["is_finished"]) == ("run", True)


def test_runs_of_other_teams_return_404(made: World) -> None:
    outsider = caller_of(made.outsider)
    assert outsider.get("runs/").json()["results"] == []
    for path in ("", "rounds/", "rounds/0/1/output/", "export.json/", "export.csv/"):
        assert outsider.get(f"runs/{world.RUN}/{path}").status_code == 404
    answer = outsider.post("runs/", {"scenario": world.KEY, "sites": [world.NAME]})
    assert answer.status_code == 422 and pointers(answer) == ["/scenario"]


@pytest.mark.parametrize("sites", [[world.NAME, "none"], ["none"], [], "x"])
def test_run_with_unknown_target_is_rejected_whole(owner: Caller, sites: object) -> None:
    answer = owner.post("runs/", {"scenario": world.KEY, "sites": sites})
    assert answer.status_code == 422 and pointers(answer)[0].startswith("/sites")
    assert Run.objects.count() == 1


def test_compare_requires_two_or_more_existing_runs(owner: Caller) -> None:
    assert owner.get("runs/compare/").status_code == 400
    assert owner.get("runs/compare/?runs=x,y").status_code == 400
    other = owner.get(f"runs/compare/?runs={world.RUN},{uuid4()}")
    assert other.status_code == 422 and pointers(other) == ["?runs/1"]


def test_viewers_cannot_start_runs(made: World) -> None:
    viewer = caller_of(made.viewer)
    assert viewer.post("scenarios/", SCENARIO).status_code == 403
    assert viewer.post("runs/", {"scenario": world.KEY, "sites": [world.NAME]}).status_code == 403
    assert viewer.post(f"runs/{world.RUN}/repeat/").status_code == 403
    assert viewer.delete(f"runs/{world.RUN}/").status_code == 403


def test_run_search_finds_only_visible_runs(made: World) -> None:
    found = caller_of(made.viewer).get("search/?q=zzz").json()
    assert {hit["kind"] for hit in found} == {"site", "domain", "certificate", "folder", "run"}
    assert caller_of(made.outsider).get("search/?q=zzz").json() == []
    assert caller_of(made.viewer).get("search/?q=z").status_code == 400


def test_ready_made_scenario_can_be_copied(owner: Caller) -> None:
    made = owner.post("scenarios/quick/", {"quick": "ab-keep-alive"})
    assert made.status_code == 201, made.content
    assert (made.json()["tool"], made.json()["arguments"]["concurrency"]) == ("ab", 10)
    assert owner.post("scenarios/quick/", {"quick": "ab-keep-alive"}).json()["id"] == made.json()["id"]
    refused = owner.post("scenarios/quick/", {"quick": "other"})
    assert refused.status_code == 422 and pointers(refused) == ["/quick"]


# --- suites ---


@pytest.fixture
def suite_host(made: World) -> str:
    """A host that has nginx."""
    host = Host.objects.create(name="bench", connection=Connection.LOCAL, status=HostStatus.READY)
    WebServer.objects.create(
        host=host,
        engine="nginx",
        layout=Layout.CONF_D,
        paths={"config_root": "/etc/nginx", "binary": "/usr/sbin/nginx"},
    )
    return host.name


def test_suite_is_started_shown_as_job_and_cancelled(owner: Caller, suite_host: str) -> None:
    body = {"suite": "small-static-files", "preset": "short", "host": suite_host}
    SuiteRun.objects.all().delete()
    comparison = owner.post("suites/?dry_run=true", body)
    assert (comparison.status_code, SuiteRun.objects.count()) == (200, 0)
    answer = owner.post("suites/", body)
    assert answer.status_code == 202, answer.content
    row = answer.json()
    assert row["shortened"] is True
    assert row["setups"] == ["nginx"]
    assert row["part"] == "" and row["expected_s"] > 5
    assert [case["title"] for case in row["cases"]] == ["A new connection for each request", "Keep-alive connections"]
    assert len(row["left_out"]) == 3
    job = owner.get(f"jobs/{row['uuid']}/").json()
    assert (job["type"], job["is_finished"]) == ("suite", False)
    tables = owner.get(f"suites/{row['uuid']}/tables/").json()["tables"]
    assert tables[0]["head"][-2:] == ["Published average", "Published rating"]
    assert owner.delete(f"suites/{row['uuid']}/").status_code == 409
    assert owner.post(f"jobs/{row['uuid']}/cancel/").status_code == 200
    assert owner.get(f"suites/{row['uuid']}/").json()["status"] == "cancelled"
    assert owner.get(f"suites/{row['uuid']}/export.csv/").content.startswith(b"table,row,column")
    assert owner.get(f"suites/{row['uuid']}/export.json/").json()["published"]["id"] == "small-static-files"
    report = owner.get(f"suites/{row['uuid']}/report.html/").content.decode()
    assert "<style>" in report and "9,442" in report
    assert not re.findall(r'<script|<link|(?:src|href)="', report), "it stands alone"
    assert owner.delete(f"suites/{row['uuid']}/").status_code == 204
    assert owner.get("suites/").json()["results"] == []


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"suite": "other"}, "/suite"),
        ({"preset": "endless"}, "/preset"),
        ({"host": "example.com"}, "/host"),
        ({"setups": ["caddy"]}, "/setups/0"),
        ({"cases": ["unpublished"]}, "/cases"),
        ({"protocols": ["h4"]}, "/protocols/0"),
        ({"protocols": ["h3"]}, "/protocols"),
        ({"target": "http://example.com/"}, "/target"),
    ],
)
def test_suite_requires_managed_host(owner: Caller, suite_host: str, change: dict[str, object], pointer: str) -> None:
    body = {"suite": "small-static-files", "preset": "short", "host": suite_host, **change}
    answer = owner.post("suites/", body)
    assert answer.status_code in (400, 422), answer.content
    assert pointer in [error["pointer"] for error in answer.json()["errors"]]
    assert SuiteRun.objects.count() == 1, "the one that was there"


def test_part_of_suite_is_started_by_one_call(owner: Caller, suite_host: str) -> None:
    body = {
        "suite": "http3-2019",
        "preset": "full",
        "host": suite_host,
        "cases": ["small-short-0"],
        "protocols": ["h2"],
    }
    row = owner.post("suites/", body).json()
    assert row["part"] == "Small page, few requests per connection: 100 Mbit/s, 100 ms; HTTP/2"
    assert [case["title"][-6:] for case in row["cases"]] == ["HTTP/2"]
    assert 30 < row["expected_s"] < 90


def test_viewers_cannot_start_suites(made: World, suite_host: str) -> None:
    viewer = caller_of(made.viewer)
    body = {"suite": "small-static-files", "preset": "short", "host": suite_host}
    assert viewer.post("suites/", body).status_code == 403
