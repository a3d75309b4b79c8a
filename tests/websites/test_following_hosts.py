"""Upstreams whose servers follow the hosts with given tags."""

from __future__ import annotations

import json
from typing import Any

import pytest

from panel.audit.models import AuditEntry
from panel.deployments.planning.services import deployment_plan
from panel.deployments.tasks import follow_hosts
from panel.hosts.models import Host
from panel.hosts.services import hosts_tag
from panel.websites.models import Site, Upstream
from tests.api.caller import Caller, pointers
from tests.deployments.sample_plans import live, planned, shop
from tests.support.cast import Cast, signed_in


@pytest.fixture
def hosts(people: Cast) -> list[Host]:
    """Three hosts: two that run the application in different zones, and one that does not."""
    rows = [("app-1", "192.0.2.1", ["role=app", "zone=a"]), ("app-2", "2001:db8::2", ["role=app"])]
    rows.append(("db-1", "192.0.2.9", ["role=db"]))
    return [Host.objects.create(name=name, address=address, tags=tags) for name, address, tags in rows]


@pytest.fixture
def site(people: Cast, api: Caller, hosts: list[Host]) -> Site:
    row = shop(people)
    body = {"site": "shop", "name": "app", "host_tags": ["role=app"], "host_port": 8080}
    made = api.post("upstreams/", body)
    assert made.status_code == 201, made.content
    return row


def addresses() -> list[str]:
    return list(Upstream.objects.get(name="app").servers.values_list("address", flat=True))


def test_servers_are_the_hosts_with_all_tags(api: Caller, site: Site) -> None:
    assert addresses() == ["192.0.2.1:8080", "[2001:db8::2]:8080"]
    pk = Upstream.objects.get(name="app").pk
    assert api.patch(f"upstreams/{pk}/", {"host_tags": ["role=app", "zone=a"]}).status_code == 200
    assert addresses() == ["192.0.2.1:8080"]


def test_host_that_gains_or_loses_the_tag_is_a_change_of_the_draft(people: Cast, site: Site, hosts: list[Host]) -> None:
    live(people, site)
    before = site_version(site)
    follow_hosts()
    assert site_version(site) == before
    hosts_tag(actor=people.admin, hosts=[hosts[2]], add=["role=app"])
    hosts_tag(actor=people.admin, hosts=[hosts[0]], remove=["role=app"])
    follow_hosts()
    assert addresses() == ["[2001:db8::2]:8080", "192.0.2.9:8080"]
    assert site_version(site) == before + 1
    assert "/sites/shop/" in signed_in(people.owner).get("/sites/?status=pending").content.decode()
    entry = AuditEntry.objects.get(action="upstream.follow")
    assert (entry.actor_label, entry.team) == ("system", people.team)
    follow_hosts()
    assert site_version(site) == before + 1


def site_version(site: Site) -> int:
    return Site.objects.get(pk=site.pk).version


def test_plan_holds_the_hosts_of_this_moment(people: Cast, api: Caller, site: Site, hosts: list[Host]) -> None:
    location = {"pattern": "/", "handler": "proxy", "upstream": "app"}
    made = api.post(f"blocks/{site.blocks.get().pk}/locations/", location)
    assert made.status_code == 201, made.content
    Host.objects.filter(pk=hosts[0].pk).update(address="198.51.100.1")
    revision = planned(people, site).items.get().revision
    assert revision is not None
    frozen = json.dumps(revision.spec)
    assert "198.51.100.1:8080" in frozen and "192.0.2.1:" not in frozen


def test_options_of_a_server_stay_while_its_host_has_the_tag(api: Caller, site: Site, hosts: list[Host]) -> None:
    pk = Upstream.objects.get(name="app").pk
    servers = [{"address": "192.0.2.1:8080", "weight": 5, "down": True}, {"address": "203.0.113.5:1"}]
    assert api.patch(f"upstreams/{pk}/", {"servers": servers}).status_code == 200
    Host.objects.filter(pk=hosts[2].pk).update(tags=["role=app"])
    follow_hosts()
    assert addresses() == ["192.0.2.1:8080", "[2001:db8::2]:8080", "192.0.2.9:8080"]
    first = Upstream.objects.get(pk=pk).servers.first()
    assert first is not None and (first.weight, first.down) == (5, True)


def test_hosts_of_other_teams_are_left_out(people: Cast, site: Site, hosts: list[Host]) -> None:
    hosts[0].teams.add(people.other_team)
    follow_hosts()
    assert addresses() == ["[2001:db8::2]:8080"]


def test_plan_without_a_matching_host_is_refused_and_says_so(people: Cast, site: Site) -> None:
    Host.objects.filter(name__startswith="app-").update(tags=[])
    with pytest.raises(Exception, match="no host of the team has the tags role=app"):
        deployment_plan(actor=people.owner, sites=[site])
    assert addresses() == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"host_tags": ["role=app"]}, "/host_port"),
        ({"host_port": 80, "servers": [{"address": "192.0.2.1:80"}]}, "/host_tags"),
        ({"host_tags": ["role=app"], "host_port": 70000}, "/host_port"),
        ({"host_tags": ["Not A Tag"], "host_port": 80}, "/host_tags"),
        ({}, "/servers"),
    ],
)
def test_incomplete_upstream_is_refused_at_its_field(
    people: Cast, api: Caller, body: dict[str, object], field: str
) -> None:
    shop(people)
    assert pointers(api.post("upstreams/", {"site": "shop", "name": "app", **body})) == [field]


def test_definition_keeps_the_tags_and_can_be_put_again(api: Caller, site: Site) -> None:
    definition = api.get("sites/shop/definition/").json()
    row = definition["upstreams"][0]
    assert (row["host_tags"], row["host_port"]) == (["role=app"], 8080)
    row["servers"] = []
    put = api.put("sites/shop/definition/", definition)
    assert put.status_code == 200, put.content
    assert addresses() == ["192.0.2.1:8080", "[2001:db8::2]:8080"]


def test_page_adds_an_upstream_with_tags(people: Cast, hosts: list[Host]) -> None:
    shop(people)
    browser = signed_in(people.owner)
    fields = {"name": "app", "balancing": "round_robin", "keepalive": 16, "servers": ""}
    assert browser.post("/sites/shop/upstreams/+new/", fields).status_code == 422
    added = browser.post("/sites/shop/upstreams/+new/", fields | {"host_tags": "role=app", "host_port": 3000})
    assert added.status_code == 302
    assert addresses() == ["192.0.2.1:3000", "[2001:db8::2]:3000"]
    assert "role=app" in browser.get("/sites/shop/upstreams/").content.decode()


def test_look_at_many_upstreams_costs_a_constant_number_of_queries(
    people: Cast, api: Caller, site: Site, django_assert_num_queries: Any
) -> None:
    for number in range(5):
        body = {"site": "shop", "name": f"app-{number}", "host_tags": ["role=app"], "host_port": 9000 + number}
        assert api.post("upstreams/", body).status_code == 201
    with django_assert_num_queries(4):  # upstreams, their servers, hosts, teams of hosts
        follow_hosts()


def test_host_without_address_is_left_out(site: Site) -> None:
    Host.objects.create(name="local", tags=["role=app"])
    follow_hosts()
    assert addresses() == ["192.0.2.1:8080", "[2001:db8::2]:8080"]


def test_unusable_address_of_a_host_is_logged_once_until_it_changes(
    people: Cast, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host.objects.create(name="metadata", address="169.254.169.254", tags=["role=app"])

    def logged(rounds: int) -> int:
        caplog.clear()
        for _ in range(rounds):
            follow_hosts()
        return caplog.text.count("the upstream app of shop keeps its servers")

    Upstream.objects.filter(name="app").update(name="app", host_port=8081)
    assert logged(3) == 1
    Host.objects.filter(pk=host.pk).update(address="169.254.169.253")
    assert logged(3) == 1
    Host.objects.filter(pk=host.pk).update(address="192.0.2.77")
    assert logged(2) == 0 and "192.0.2.77:8081" in addresses()
    Host.objects.filter(pk=host.pk).update(address="169.254.169.253")
    assert logged(3) == 1


def test_address_that_no_site_may_use_does_not_stop_other_upstreams(
    people: Cast, api: Caller, site: Site, hosts: list[Host], caplog: pytest.LogCaptureFixture
) -> None:
    body = {"site": "shop", "name": "other", "host_tags": ["role=db"], "host_port": 5432}
    assert api.post("upstreams/", body).status_code == 201
    Host.objects.create(name="metadata", address="169.254.169.254", tags=["role=app"])
    Host.objects.create(name="db-2", address="192.0.2.10", tags=["role=db"])
    follow_hosts()
    assert addresses() == ["192.0.2.1:8080", "[2001:db8::2]:8080"] and "the upstream app of shop" in caplog.text
    other = Upstream.objects.get(name="other").servers.values_list("address", flat=True)
    assert list(other) == ["192.0.2.9:5432", "192.0.2.10:5432"]
