"""A comparison on real servers: copies beside the site, the same answers, one run, nothing left, and the switch."""

from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied

from panel.audit.models import AuditEntry
from panel.benchmarks.models import Round, Run, RunStatus
from panel.benchmarks.runs import services as benchmarks
from panel.benchmarks.selectors import runs_visible
from panel.comparisons import results, services
from panel.comparisons.models import Comparison, Contender, ContenderStatus
from panel.core.errors import ApplicationError, Conflict
from panel.core.jobs import JobStatus
from panel.websites import services as websites
from tests.comparisons.conftest import Stand, carried_out, load, logged


def statuses(comparison: Comparison) -> list[str]:
    return list(comparison.contenders.values_list("status", flat=True))


def assert_asked_as_the_original(stand: Stand, run: Run) -> None:
    """An application answers by the host name and port that it is asked for; the copies' ports stay hidden."""
    original = f"http://shop.example:{stand.machine.port}"
    assert {target["base_url"] for target in run.fingerprint["targets"]} == {original}
    assert len({target["listener"] for target in run.fingerprint["targets"]}) == 3
    for row in Round.objects.filter(target__run=run):
        assert f"Host: shop.example:{stand.machine.port}" in row.argv


def test_comparison_measures_three_web_servers_without_leftovers(stand: Stand) -> None:
    comparison = stand.tried(rounds=3)
    assert comparison.status == JobStatus.SUCCEEDED, comparison.error
    assert statuses(comparison) == [ContenderStatus.SAME] * 3
    assert comparison.run is not None
    assert comparison.run.status in (RunStatus.FINISHED, RunStatus.INVALID)
    labels = [web_server.get_engine_display() for web_server in stand.web_servers.values()]
    assert [target["label"] for target in comparison.run.summary["targets"]] == labels
    assert_asked_as_the_original(stand, comparison.run)
    stand.assert_as_before()
    assert len(stand.log.read_text().splitlines()) < 10  # what verified the deployment; no load
    assert runs_visible(stand.machine.people.owner).get() == comparison.run
    with pytest.raises(ApplicationError, match="copies of shop, which were removed"):
        benchmarks.run_repeat(actor=stand.machine.people.owner, run=comparison.run)


def test_web_server_with_different_responses_is_excluded_by_name(stand: Stand) -> None:
    people = stand.machine.people
    text = "default_type text/html; return 200 other;"
    websites.snippet_create(actor=people.admin, site=stand.site, engine="native", text=text, block=stand.block)
    people.owner.role = "admin"  # whoever copies raw directives must be allowed to write them
    people.owner.save()
    comparison = stand.tried()
    native = comparison.contenders.get(label="gallop")
    assert native.status == ContenderStatus.DIFFERENT
    assert "The site's current web server sends 12 bytes" in native.detail
    assert "this web server sends 5 bytes" in native.detail
    assert "start with “other”" in native.detail
    assert comparison.status == JobStatus.SUCCEEDED, comparison.error
    assert comparison.run is not None
    assert [target["label"] for target in comparison.run.summary["targets"]] == ["nginx", "Apache httpd"]
    with pytest.raises(ApplicationError, match="different responses than the live site"):
        services.comparison_switch(actor=people.owner, contender=native)


def test_comparison_stops_when_site_returns_errors(stand: Stand) -> None:
    comparison = stand.tried(paths=["/missing"])
    assert comparison.status == JobStatus.FAILED
    assert "404" in comparison.error
    stand.assert_as_before()


def test_site_switches_to_winner_and_back(stand: Stand) -> None:
    comparison = stand.tried()
    folders = {position: stand.web_servers[name].paths["log_dir"] for position, name in ((2, "native"), (0, "nginx"))}
    for position, name in ((2, "gallop"), (0, "nginx")):
        stand.switched(comparison.contenders.get(position=position))
        assert name in stand.machine.get("shop").headers["server"]
        assert stand.block.access_log == f"{folders[position]}/shop.log", "the site's log follows"
        comparison = Comparison.objects.select_related("site", "switch", "run").get()
        way_back = results.way_back(comparison)
        assert (way_back.label if way_back else "") == ("nginx" if position else "")
    actions = AuditEntry.objects.filter(action__startswith="comparison.").order_by("pk")
    assert list(actions.values_list("action", flat=True)) == [
        "comparison.create",
        "comparison.switch",
        "comparison.switch",
    ]


def test_comparison_replays_own_log_without_missing_pages(stand: Stand) -> None:
    logged(stand, ["/?secret=1", "/", "/index.html", "/gone"])
    owner = stand.machine.people.owner
    found = services.load_from_log(actor=owner, site=stand.site, duration_s=1, concurrency=2, rounds=1).load
    assert set(found["paths"]) == {"/", "/index.html", "/gone"}
    assert found["tool"] == "wrk"
    comparison = services.comparison_create(
        actor=owner, site=stand.site, web_servers=stand.others, load=found, is_replay=True
    )
    carried_out(comparison)
    assert comparison.status == JobStatus.SUCCEEDED, comparison.error
    assert set(comparison.load["paths"]) == {"/", "/index.html"}
    (words,) = comparison.left_out
    assert "/gone with status 404" in words


def test_invalid_comparison_is_rejected_before_queuing(stand: Stand) -> None:
    people = stand.machine.people
    with pytest.raises(ApplicationError, match="at least one other"):
        services.comparison_create(
            actor=people.owner, site=stand.site, web_servers=[stand.web_servers["nginx"]], load=load()
        )
    with pytest.raises(PermissionDenied):
        services.comparison_create(actor=people.viewer, site=stand.site, web_servers=stand.others, load=load())
    with pytest.raises(ApplicationError, match="no address for HTTP"):
        stand.queued(arguments={"concurrency": 2, "requests": 50, "tls": True})
    stand.queued()
    with pytest.raises(Conflict, match="already running"):
        stand.queued()
    assert (Comparison.objects.count(), Contender.objects.count()) == (1, 3)
