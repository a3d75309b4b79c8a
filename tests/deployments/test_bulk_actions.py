"""Bulk actions on sites and hosts, on pages and over the API: all or none, with a result for each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from panel.audit.models import AuditEntry
from panel.benchmarks.models import Scenario
from panel.benchmarks.runs.services import run_create_once
from panel.benchmarks.suites.services import suite_start
from panel.comparisons.services import comparison_create
from panel.core.errors import Conflict
from panel.deployments.models import Deployment, DeploymentKind, DeploymentStatus, SiteState
from panel.deployments.planning import services
from panel.hosts.models import Connection, Engine, Host, HostJob, HostStatus
from panel.websites import services as websites
from panel.websites.models import Site
from panel.websites.versions import versions_count
from tests.api.caller import caller_of, pointers
from tests.deployments.sample_plans import carried_out, live, shop
from tests.support.cast import Cast, signed_in, web_server

LOAD: dict[str, Any] = {"name": "quick", "tool": "ab", "arguments": {"requests": 10, "concurrency": 1}, "paths": ["/"]}


@pytest.fixture
def second(people: Cast) -> Host:
    """Another host that cannot be asked, with an nginx."""
    silent = {"status": HostStatus.UNREACHABLE, "status_detail": "web-2 does not answer."}
    host = Host.objects.create(name="web-2", connection=Connection.LOCAL, site_roots=["/srv/www"], **silent)
    web_server(host, Engine.NGINX, "")
    return host


@pytest.fixture
def three(people: Cast, second: Host) -> list[Site]:
    """A site that is live on each of two hosts, and a draft."""
    sites = [shop(people, "one"), shop(people, "two", web_server=second.web_servers.get()), shop(people, "draft")]
    for site in sites[:2]:
        live(people, site)
    return sites


def changed(*sites: Site) -> None:
    versions_count([site.pk for site in sites])


def text_of(client: Client, url: str) -> str:
    return client.get(url).content.decode()


# --- sites ---


def test_bulk_delete_plans_removal_of_live_sites_and_deletes_drafts(people: Cast, three: list[Site]) -> None:
    client = signed_in(people.owner)
    names = ["draft", "one", "two"]
    asked = client.post("/sites/+bulk/", {"site": names, "action": "delete"})
    assert asked["Location"] == "/sites/+delete/?site=draft&site=one&site=two"
    page = text_of(client, asked["Location"])
    assert "Delete 3 sites?" in page and "one, live on nginx on web-1" in page and "draft, not deployed" in page
    assert client.post(asked["Location"], {"confirm": "yes"}).status_code == 422
    assert Site.objects.count() == 3 and Deployment.objects.filter(kind=DeploymentKind.DISABLE).count() == 0
    client.post(asked["Location"], {"confirm": "3 sites"})
    plans = Deployment.objects.filter(kind=DeploymentKind.DISABLE).order_by("host__name")
    assert [(row.host.name, row.on_success, [line.id for line in row.plan.sites]) for row in plans] == [
        ("web-1", "delete", [three[0].pk]),
        ("web-2", "delete", [three[1].pk]),
    ]
    assert set(Site.objects.values_list("name", flat=True)) == {"one", "two"}
    services.deployment_confirm(actor=people.owner, deployment=plans[0])
    carried_out(plans[0])
    carried_out(plans[1], outcome="rolled_back", error="no")
    assert list(Site.objects.values_list("name", "enabled")) == [("two", True)]
    assert AuditEntry.objects.filter(action="site.delete").count() == 2


def test_bulk_disable_plans_removal_from_hosts(people: Cast, three: list[Site]) -> None:
    answer = signed_in(people.owner).post("/sites/+bulk/", {"site": ["draft", "one"], "action": "disable"})
    plan = Deployment.objects.get(kind=DeploymentKind.DISABLE)
    assert answer["Location"] == reverse("deployments:detail", args=[plan.uuid])
    assert [item.site.name for item in plan.items.all()] == ["one"]
    assert set(Site.objects.filter(enabled=True).values_list("name", flat=True)) == {"one", "two"}


def test_api_deletes_and_disables_many_sites(people: Cast, three: list[Site]) -> None:
    caller = caller_of(people.owner)
    body = {"action": "take-off", "sites": ["one", "draft", "gone"]}
    refused = caller.post("sites/bulk/", body)
    assert refused.status_code == 422 and pointers(refused) == ["/sites/2"]
    tried = caller.post("sites/bulk/?dry_run=true", body | {"sites": ["one", "draft"]})
    assert tried.status_code == 200 and Site.objects.count() == 3
    done = caller.post("sites/bulk/", body | {"sites": ["one", "draft"]})
    (plan,) = json.loads(done.content)["deployments"]
    assert (done.status_code, plan["host"], plan["sites"]) == (201, "web-1", ["one"])
    assert not Site.objects.filter(name="draft").exists()
    shop(people, "draft")
    assert caller.post("sites/bulk/", body | {"sites": ["draft"]}).status_code == 204


@pytest.mark.parametrize(("who", "status"), [("viewer", 403), ("outsider", 302)])
def test_bulk_delete_requires_permission(people: Cast, three: list[Site], who: str, status: int) -> None:
    url = "/sites/+delete/?site=one&site=draft"
    assert signed_in(getattr(people, who)).post(url, {"confirm": "2 sites"}).status_code == status
    assert Site.objects.count() == 3


# --- hosts ---


def test_bulk_plan_includes_changed_sites_of_selected_hosts(people: Cast, second: Host, three: list[Site]) -> None:
    client = signed_in(people.owner)
    nothing = client.post(reverse("deployments:plan"), {"host": ["web-1", "web-2"]}, follow=True)
    assert "there is nothing to plan" in nothing.content.decode()
    changed(three[0], three[1])
    assert text_of(client, "/hosts/").count("1 changed site") == 2
    client.post(reverse("deployments:plan"), {"host": ["web-1", "web-2"]})
    rows = Deployment.objects.filter(confirmed_at=None).order_by("pk")
    assert [(row.host.name, row.items.get().site.name) for row in rows] == [("web-1", "one"), ("web-2", "two")]
    assert (
        "These hosts do not exist: web-9"
        in client.post(reverse("deployments:plan"), {"host": "web-9"}, follow=True).content.decode()
    )


def test_api_plans_changed_sites_of_hosts(people: Cast, second: Host, three: list[Site]) -> None:
    caller = caller_of(people.owner)
    changed(*three)
    done = caller.post("deployments/", {"hosts": ["web-2"]})
    assert [row["sites"] for row in json.loads(done.content)["deployments"]] == [["two"]]
    for body, where in (
        ({"hosts": ["web-2", "web-9"]}, ["/hosts/1"]),
        ({"hosts": ["web-2"], "sites": ["two"]}, ["/hosts"]),
        ({"hosts": ["web-2"], "kind": "disable"}, ["/hosts"]),
        ({}, ["/sites"]),
    ):
        refused = caller.post("deployments/", body)
        assert (refused.status_code, pointers(refused)) == (422, where)


def test_bulk_plan_ignores_changes_of_other_teams(people: Cast, three: list[Site]) -> None:
    changed(*three)
    client = signed_in(people.outsider)
    assert "1 changed site" not in text_of(client, "/hosts/")
    assert (
        "there is nothing to plan"
        in client.post(reverse("deployments:plan"), {"host": "web-1"}, follow=True).content.decode()
    )


def jobs() -> list[tuple[str, str]]:
    return list(HostJob.objects.order_by("pk").values_list("host__name", "kind"))


def test_repeated_bulk_check_queues_one_check_per_host(people: Cast, second: Host) -> None:
    client = signed_in(people.admin)
    for _ in range(2):
        answer: Any = client.post("/hosts/+bulk/", {"host": ["web-1", "web-2"], "action": "check"}, follow=True)
        assert "Check host: started on 2 hosts." in answer.content.decode()
    assert jobs() == [("web-1", "check"), ("web-2", "check")]
    assert "busy" in text_of(client, "/hosts/")
    client.post("/hosts/+bulk/", {"host": ["web-1", "gone"], "action": "drift"})
    client.post("/hosts/+bulk/", {"action": "drift"})
    assert len(jobs()) == 2
    assert client.post("/hosts/+bulk/", {"host": "web-1", "action": "reboot"}).status_code == 404
    assert signed_in(people.owner).post("/hosts/+bulk/", {"host": "web-1", "action": "drift"}).status_code == 403


def test_api_checks_many_hosts(people: Cast, second: Host) -> None:
    caller = caller_of(people.admin)
    body = {"action": "check-drift", "hosts": ["web-1", "web-2"]}
    done = caller.post("hosts/bulk/", body)
    assert done.status_code == 202
    queued = json.loads(done.content)
    assert [(job["host"], job["kind"], job["status"]) for job in queued] == [
        ("web-1", "drift", "queued"),
        ("web-2", "drift", "queued"),
    ]
    assert json.loads(caller.get(f"jobs/{queued[1]['uuid']}/").content)["status"] == "queued"
    refused = caller.post("hosts/bulk/", body | {"hosts": ["web-1", "web-9"]})
    assert refused.status_code == 422 and pointers(refused) == ["/hosts/1"]
    assert caller_of(people.owner).post("hosts/bulk/", body).status_code == 403
    assert len(jobs()) == 2


# --- pausing ---


def test_paused_host_starts_no_jobs(people: Cast, second: Host, three: list[Site]) -> None:
    client = signed_in(people.admin)
    changed(three[0])
    (plan,) = services.deployment_plan(actor=people.owner, sites=[three[0]])
    client.post("/hosts/+bulk/", {"host": ["web-1", "web-2"], "action": "pause"})
    client.post("/hosts/web-2/ask/resume/")
    assert list(Host.objects.filter(is_paused=True).values_list("name", flat=True)) == ["web-1"]
    with pytest.raises(Conflict, match="These hosts are paused: web-1"):
        services.deployment_confirm(actor=people.owner, deployment=plan)
    with pytest.raises(Conflict, match="These hosts are paused: web-1"):
        comparison_create(actor=people.owner, site=three[0], web_servers=[people.apache], load={"arguments": {}})
    with pytest.raises(Conflict, match="These hosts are paused: web-1"):
        run_create_once(actor=people.owner, scenario=Scenario(**LOAD), sites=[three[0]])
    with pytest.raises(Conflict, match="These hosts are paused: web-1"):
        suite_start(actor=people.admin, suite="http3-2019", preset="short", host=people.host)
    assert "paused" in text_of(client, "/hosts/web-1/")
    assert "No deployments or benchmarks start on this host" in text_of(client, "/")
    for _ in range(2):
        client.post("/hosts/+bulk/", {"host": "web-1", "action": "resume"})
    services.deployment_confirm(actor=people.owner, deployment=plan)
    assert AuditEntry.objects.filter(action="host.pause").count() == 2
    assert AuditEntry.objects.filter(action="host.resume").count() == 2


def test_api_pauses_hosts(people: Cast, second: Host) -> None:
    body = {"action": "pause", "hosts": ["web-1", "web-2"]}
    assert caller_of(people.owner).post("hosts/bulk/", body).status_code == 403
    caller = caller_of(people.admin)
    assert json.loads(caller.post("hosts/bulk/?dry_run=true", body).content)[0]["is_paused"]
    assert not Host.objects.filter(is_paused=True).exists()
    done = caller.post("hosts/bulk/", body)
    assert (done.status_code, [row["is_paused"] for row in json.loads(done.content)]) == (200, [True, True])
    assert len(json.loads(caller.get("hosts/?is_paused=true").content)["results"]) == 2


# --- moving ---


def test_bulk_move_moves_many_sites(people: Cast, second: Host, three: list[Site]) -> None:
    """From two hosts to the Apache of one: a site leaves its old host only when it responds on the new one."""
    client = signed_in(people.owner)
    websites.site_delete(actor=people.owner, site=three[2])  # a draft holds its port, too
    asked = client.post("/sites/+bulk/", {"site": ["one", "two"], "action": "move"})
    assert asked["Location"] == "/sites/+move/?site=one&site=two"
    assert client.post(asked["Location"], {}).status_code == 422
    client.post(asked["Location"], {"web_server": people.apache.pk})
    first, rest = Deployment.objects.filter(kind=DeploymentKind.MOVE).order_by("pk")
    assert (first.host.name, {item.site.name for item in first.items.all()}) == ("web-1", {"one", "two"})
    assert (rest.host.name, [item.site.name for item in rest.items.all()]) == ("web-2", ["two"])
    assert (list(first.followers.all()), rest.waits_for) == ([rest], first)
    services.deployment_confirm(actor=people.owner, deployment=first)
    rest.refresh_from_db()
    assert rest.status == DeploymentStatus.PLANNED
    carried_out(first)
    rest.refresh_from_db()
    assert rest.status == DeploymentStatus.QUEUED
    carried_out(rest)
    assert set(Site.objects.values_list("web_server", flat=True)) == {people.apache.pk}


def test_bulk_move_changes_web_server_of_drafts_at_once(people: Cast, second: Host, three: list[Site]) -> None:
    there = second.web_servers.get()
    address = "/sites/+move/?site=draft"
    client = signed_in(people.owner)
    assert "1 draft is not deployed" in text_of(client, address)
    assert client.post(address, {"web_server": there.pk})["Location"] == "/sites/"
    assert Site.objects.get(name="draft").web_server == there
    assert "1 draft now uses nginx on web-2." in text_of(client, "/sites/")
    assert not Deployment.objects.filter(kind=DeploymentKind.MOVE).exists()


def test_bulk_move_of_drafts_and_live_sites_shares_port(people: Cast, three: list[Site]) -> None:
    """All three sites use port 80. Apache can take it when all nginx sites move together, the draft included."""
    other = shop(people, "other")  # a second draft, which makes room as well
    client, address = signed_in(people.owner), "/sites/+move/?site=draft&site=one&site=other"
    page = text_of(client, address)
    assert "1 site is live, so you review its plan first." in page and "2 drafts are not deployed" in page
    planned = client.post(address, {"web_server": people.apache.pk})
    plan = Deployment.objects.get(kind=DeploymentKind.MOVE)
    assert planned["Location"] == f"/deployments/{plan.uuid}"
    assert "2 drafts now use Apache httpd on web-1. The plan below is for the other sites." in text_of(
        client, planned["Location"]
    )
    servers = dict(Site.objects.exclude(name="two").values_list("name", "web_server__engine"))
    assert servers == {"one": "nginx", "draft": "apache", "other": "apache"}, "the one in service waits for its plan"
    services.deployment_confirm(actor=people.owner, deployment=plan)
    carried_out(plan)
    assert Site.objects.get(name="one").web_server == people.apache
    assert other.pk in set(people.apache.sites.values_list("pk", flat=True))


def test_bulk_actions_treat_disabled_sites_apart_from_drafts(people: Cast, three: list[Site]) -> None:
    """Files of disabled sites exist on the host, so the sites are no drafts and move separately."""
    state = SiteState.objects.get(site=three[0])
    SiteState.objects.filter(pk=state.pk).update(status="disabled", disabled_revision=state.revision, revision=None)
    Site.objects.filter(pk=three[0].pk).update(enabled=False)
    client = signed_in(people.owner)
    alone = text_of(client, "/sites/+move/?site=one")
    assert "1 site is disabled and still has files on its host" in alone and "Plan the move" in alone
    mixed = text_of(client, "/sites/+move/?site=draft&site=one")
    assert "Move disabled sites and enabled sites separately" in mixed and "1 draft is not deployed" in mixed
    assert "Plan the move" not in mixed and "Change the web server" not in mixed
    assert "one, disabled on nginx on web-1" in text_of(client, "/sites/+delete/?site=draft&site=one")


def test_bulk_move_leaves_drafts_unchanged_when_plan_fails(people: Cast, three: list[Site]) -> None:
    outside = shop(people, "outside", domains=["one.example"], web_server=None)
    with pytest.raises(ValidationError, match="already used by") as caught:
        services.sites_move(actor=people.owner, sites=[three[0], outside], web_server=people.apache)
    assert set(caught.value.message_dict) == {"outside/blocks/0/names", "outside/blocks/0/listens"}
    three[0].blocks.all().delete()
    with pytest.raises(ValidationError, match="Add a server block"):
        services.sites_move(actor=people.owner, sites=[three[0], three[2]], web_server=people.apache)
    assert Site.objects.get(name="draft").web_server == people.nginx
    assert not Deployment.objects.filter(kind=DeploymentKind.MOVE).exists()


def test_bulk_move_rejects_conflicts_among_moved_sites(people: Cast, three: list[Site]) -> None:
    """Two sites share nginx's port 80. Apache can take the port when both move, but not two sites with one name."""
    websites.site_delete(actor=people.owner, site=three[2])
    other = shop(people, "other")
    live(people, other)
    with pytest.raises(ValidationError, match="is already used by nginx"):
        services.site_move(actor=people.owner, site=three[0], web_server=people.apache)
    plans = services.sites_move(actor=people.owner, sites=[three[0], other], web_server=people.apache)
    assert [item.site.name for item in plans[0].items.order_by("site__name")] == ["one", "other"]
    assert set(Site.objects.values_list("web_server__engine", flat=True)) == {"nginx"}, "nothing moved yet"
    name = three[1].blocks.get().names.get()
    name.name = "one.example"
    name.save()
    with pytest.raises(ValidationError, match="already used by"):
        services.sites_move(actor=people.owner, sites=[three[0], other, three[1]], web_server=people.apache)


def test_api_moves_many_sites(people: Cast, second: Host, three: list[Site]) -> None:
    caller = caller_of(people.owner)
    body: dict[str, Any] = {"action": "move", "sites": ["one", "two"]}
    for wrong in (body, body | {"web_server": 999_999}, {"action": "enable", "sites": ["one"], "web_server": 1}):
        refused = caller.post("sites/bulk/", wrong)
        assert (refused.status_code, pointers(refused)) == (422, ["/web_server"])
    websites.site_delete(actor=people.owner, site=three[2])
    done = caller.post("sites/bulk/", body | {"web_server": people.apache.pk})
    assert done.status_code == 201
    assert [(row["host"], sorted(row["sites"])) for row in json.loads(done.content)["deployments"]] == [
        ("web-1", ["one", "two"]),
        ("web-2", ["two"]),
    ]
