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
from tests.comparisons.conftest import LiveSites, carried_out, load, logged


def statuses(comparison: Comparison) -> list[str]:
    return list(comparison.contenders.values_list("status", flat=True))


def assert_asked_as_the_original(live_sites: LiveSites, run: Run) -> None:
    """An application answers by the host name and port that it is asked for; the copies' ports stay hidden."""
    original = f"http://shop.example:{live_sites.machine.port}"
    assert {target["base_url"] for target in run.fingerprint["targets"]} == {original}
    assert len({target["listener"] for target in run.fingerprint["targets"]}) == 3
    for row in Round.objects.filter(target__run=run):
        assert f"Host: shop.example:{live_sites.machine.port}" in row.argv


def test_comparison_measures_three_web_servers_without_leftovers(live_sites: LiveSites) -> None:
    comparison = live_sites.tried(rounds=3)
    assert comparison.status == JobStatus.SUCCEEDED, comparison.error
    assert statuses(comparison) == [ContenderStatus.SAME] * 3
    assert comparison.run is not None
    assert comparison.run.status in (RunStatus.FINISHED, RunStatus.INVALID)
    labels = [web_server.get_engine_display() for web_server in live_sites.web_servers.values()]
    assert [target["label"] for target in comparison.run.summary["targets"]] == labels
    assert_asked_as_the_original(live_sites, comparison.run)
    live_sites.assert_as_before()
    assert len(live_sites.log.read_text().splitlines()) < 10  # what verified the deployment; no load
    assert runs_visible(live_sites.machine.people.owner).get() == comparison.run
    with pytest.raises(ApplicationError, match="copies of shop, which were removed"):
        benchmarks.run_repeat(actor=live_sites.machine.people.owner, run=comparison.run)


def test_web_server_with_different_responses_is_excluded_by_name(live_sites: LiveSites) -> None:
    people = live_sites.machine.people
    text = "default_type text/html; return 200 other;"
    websites.snippet_create(
        actor=people.admin, site=live_sites.site, engine="native", text=text, block=live_sites.block
    )
    people.owner.role = "admin"  # whoever copies raw directives must be allowed to write them
    people.owner.save()
    comparison = live_sites.tried()
    native = comparison.contenders.get(label="gallop")
    assert native.status == ContenderStatus.DIFFERENT
    assert "The site's current web server sends 12 bytes" in native.detail
    assert "this web server sends 5 bytes" in native.detail
    assert "start with “other”" in native.detail
    assert comparison.status == JobStatus.SUCCEEDED, comparison.error
    assert comparison.run is not None
    assert [target["label"] for target in comparison.run.summary["targets"]] == ["nginx", "Apache httpd"]
    with pytest.raises(ApplicationError, match="cannot move to"):
        services.comparison_switch(actor=people.owner, contender=native)


def test_comparison_stops_when_site_returns_errors(live_sites: LiveSites) -> None:
    comparison = live_sites.tried(paths=["/missing"])
    assert comparison.status == JobStatus.FAILED
    assert "404" in comparison.error
    live_sites.assert_as_before()


def test_site_switches_to_winner_and_back(live_sites: LiveSites) -> None:
    comparison = live_sites.tried()
    folders = {
        position: live_sites.web_servers[name].paths["log_dir"] for position, name in ((2, "native"), (0, "nginx"))
    }
    for position, name in ((2, "gallop"), (0, "nginx")):
        live_sites.switched(comparison.contenders.get(position=position))
        assert name in live_sites.machine.get("shop").headers["server"]
        assert live_sites.block.access_log == f"{folders[position]}/shop.log", "the site's log follows"
        comparison = Comparison.objects.select_related("site", "switch", "run").get()
        way_back = results.way_back(comparison)
        assert (way_back.label if way_back else "") == ("nginx" if position else "")
    actions = AuditEntry.objects.filter(action__startswith="comparison.").order_by("pk")
    assert list(actions.values_list("action", flat=True)) == [
        "comparison.create",
        "comparison.switch",
        "comparison.switch",
    ]


def test_comparison_replays_own_log_without_missing_pages(live_sites: LiveSites) -> None:
    logged(live_sites, ["/?secret=1", "/", "/index.html", "/gone"])
    owner = live_sites.machine.people.owner
    found = services.load_from_log(actor=owner, site=live_sites.site, duration_s=1, concurrency=2, rounds=1).load
    assert set(found["paths"]) == {"/", "/index.html", "/gone"}
    assert found["tool"] == "wrk"
    comparison = services.comparison_create(
        actor=owner, site=live_sites.site, web_servers=live_sites.others, load=found, is_replay=True
    )
    carried_out(comparison)
    assert comparison.status == JobStatus.SUCCEEDED, comparison.error
    assert set(comparison.load["paths"]) == {"/", "/index.html"}
    (words,) = comparison.left_out
    assert "/gone with status 404" in words


def test_invalid_comparison_is_rejected_before_queuing(live_sites: LiveSites) -> None:
    people = live_sites.machine.people
    with pytest.raises(ApplicationError, match="at least one other"):
        services.comparison_create(
            actor=people.owner, site=live_sites.site, web_servers=[live_sites.web_servers["nginx"]], load=load()
        )
    with pytest.raises(PermissionDenied):
        services.comparison_create(
            actor=people.viewer, site=live_sites.site, web_servers=live_sites.others, load=load()
        )
    with pytest.raises(ApplicationError, match="no address for HTTP"):
        live_sites.queued(arguments={"concurrency": 2, "requests": 50, "tls": True})
    live_sites.queued()
    with pytest.raises(Conflict, match="already running"):
        live_sites.queued()
    assert (Comparison.objects.count(), Contender.objects.count()) == (1, 3)
