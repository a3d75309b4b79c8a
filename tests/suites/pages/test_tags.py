"""Tags of hosts and sites, on pages and over the API, for one and many rows. An unknown tag matches nothing."""

from __future__ import annotations

import html
import json
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from django.test import Client

from panel.audit.models import AuditEntry
from panel.core.errors import ApplicationError
from panel.deployments.models import Deployment
from panel.hosts import services as hosts
from panel.hosts.models import Host, HostJob, HostStatus
from panel.websites import services as sites
from panel.websites.models import Site
from tests.api.caller import caller_of, pointers
from tests.deployments.sample_plans import live
from tests.support.cast import Cast, signed_in


def text_of(client: Client, url: str) -> str:
    return html.unescape(client.get(url).content.decode())


@pytest.fixture
def second(people: Cast) -> Host:
    return Host.objects.create(name="web-2", connection="local", status=HostStatus.READY, site_roots=["/srv/www"])


def tags_of(*rows: Any) -> list[list[str]]:
    for row in rows:
        row.refresh_from_db()
    return [row.tags for row in rows]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["prod", "EU ", "prod"], ["eu", "prod"]),
        (["env:prod", "rack_4", "v1.2", "team=shop"], ["env:prod", "rack_4", "team=shop", "v1.2"]),
        ([], []),
    ],
)
def test_tags_are_stored_lowercase_sorted_and_unique(people: Cast, given: list[str], kept: list[str]) -> None:
    hosts.host_update(actor=people.admin, host=people.host, tags=given)
    assert tags_of(people.host) == [kept]


MANY = [f"tag-{number}" for number in range(21)]


@pytest.mark.parametrize(
    "wrong",
    [
        ["a b"],
        ["a,b"],
        ["%"],
        ["-x"],
        ["x" * 33],
        [""],
        "prod",
        [1],
        ["a", {}],
        MANY,
    ],
)
def test_invalid_tag_is_rejected_without_changes(people: Cast, wrong: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        hosts.host_update(actor=people.admin, host=people.host, tags=wrong if wrong != "prod" else {"prod": 1})
    assert set(caught.value.message_dict) == {"tags"}
    assert tags_of(people.host) == [[]]


def test_tag_filter_matches_whole_tag(people: Cast, second: Host) -> None:
    hosts.host_update(actor=people.admin, host=people.host, tags=["prod", "a_b"])
    hosts.host_update(actor=people.admin, host=second, tags=["prod-2", "axb"])
    for tag, names in (("prod", ["web-1"]), ("prod-2", ["web-2"]), ("a_b", ["web-1"]), ("pro", []), ("%", [])):
        assert list(Host.objects.filter(tags__has=tag).values_list("name", flat=True)) == names


def test_edit_page_shows_and_validates_tags(admin: Client, people: Cast, shop: Site) -> None:
    hosts.host_update(actor=people.admin, host=people.host, tags=["eu"])
    page = text_of(admin, "/hosts/web-1/edit/")
    assert 'value="eu"' in page and "Existing tags: eu." in page
    typed = {"name": "web-1", "layout": "sites", "site_roots": "/srv/www", "tags": "eu west, Prod"}
    wrong = typed | {"tags": "two words!", "_field": "tags"}
    assert "is not a valid tag" in html.unescape(admin.post("/hosts/web-1/edit/", wrong).content.decode())
    assert admin.post("/hosts/web-1/edit/", typed).status_code == 302
    assert tags_of(people.host) == [["eu", "prod", "west"]]
    page = text_of(admin, "/hosts/web-1/")
    assert 'href="/hosts/?tag=prod"' in page
    values = {"name": "shop", "team": people.team.pk, "health_path": "/", "tags": "cms"}
    admin.post("/sites/shop/edit/", values)
    assert tags_of(shop) == [["cms"]]


def test_lists_filter_by_tag(owner: Client, people: Cast, shop: Site, second: Host) -> None:
    hosts.hosts_tag(actor=people.admin, hosts=[people.host], add=["eu"])
    sites.sites_tag(actor=people.owner, sites=[shop], add=["cms"])
    sites.site_define(actor=people.owner, data={"name": "other", "team": "shop", "blocks": []})
    assert 'href="/hosts/web-1/"' in text_of(owner, "/hosts/?tag=eu")
    assert 'href="/hosts/web-2/"' not in text_of(owner, "/hosts/?tag=eu")
    for tag in ("cms", "eu"):  # its own, and its host's
        page = text_of(owner, f"/sites/?tag={tag}")
        assert 'href="/sites/shop/"' in page and 'href="/sites/other/"' not in page
    for address in ("/sites/?tag=nonsense", "/hosts/?tag=nonsense"):
        assert " matches" in text_of(owner, address)


def test_tags_of_other_teams_are_hidden(outsider: Client, people: Cast, shop: Site) -> None:
    sites.sites_tag(actor=people.owner, sites=[shop], add=["secret-project"])
    for address in ("/sites/", "/search/?q=secret"):
        assert "secret-project" not in text_of(outsider, address)


def test_search_finds_objects_by_tag(owner: Client, people: Cast, shop: Site) -> None:
    hosts.hosts_tag(actor=people.admin, hosts=[people.host], add=["prod"])
    sites.sites_tag(actor=people.owner, sites=[shop], add=["prod", "other"])
    page = text_of(owner, "/search/?q=pro")
    assert 'href="/sites/?tag=prod"' in page and 'href="/hosts/?tag=prod"' in page
    assert "tag=other" not in page
    found = caller_of(people.owner).get("search/?q=prod").json()
    assert {(hit["label"], hit["detail"]) for hit in found if hit["kind"] == "tag"} == {
        ("prod", "1 site"),
        ("prod", "1 host"),
    }


def test_bulk_tagging_page_tags_many_rows(admin: Client, people: Cast, second: Host) -> None:
    hosts.host_update(actor=people.admin, host=people.host, tags=["old", "kept"])
    asked = admin.post("/hosts/+bulk/", {"host": ["web-1", "web-2"], "action": "tag"})
    assert asked["Location"] == "/hosts/+tags/?host=web-1&host=web-2"
    assert "Existing tags: kept, old." in text_of(admin, asked["Location"])
    assert admin.post(asked["Location"], {"add": "", "remove": ""}).status_code == 422
    assert admin.post(asked["Location"], {"add": "new", "remove": "new"}).status_code == 422
    assert admin.post(asked["Location"], {"add": "new", "remove": "old"})["Location"] == "/hosts/"
    assert tags_of(people.host, second) == [["kept", "new"], ["new"]]
    told = AuditEntry.objects.filter(action="host.tag").order_by("pk")
    assert [(entry.object_label, entry.before, entry.after) for entry in told] == [
        ("web-1", {"tags": ["kept", "old"]}, {"tags": ["kept", "new"]}),
        ("web-2", {"tags": []}, {"tags": ["new"]}),
    ]
    admin.post(asked["Location"], {"add": "new", "remove": ""})
    assert AuditEntry.objects.filter(action="host.tag").count() == 2, "what they had already is no change"


def test_tags_notes_and_health_path_do_not_change_deployment_state(people: Cast, shop: Site) -> None:
    live(people, shop)
    owner = signed_in(people.owner)
    owner.post("/sites/+tags/?site=shop", {"add": "prod", "remove": ""})
    values = {"name": "shop", "team": people.team.pk, "health_path": "/", "tags": "prod, eu", "notes": "Ask Petra."}
    owner.post("/sites/shop/edit/", values)
    assert tags_of(shop) == [["eu", "prod"]] and shop.notes == "Ask Petra."
    assert "changed since last deployment" not in text_of(owner, "/sites/shop/")
    owner.post("/sites/shop/edit/", values | {"health_path": "/up"})
    assert "changed since last deployment" not in text_of(owner, "/sites/shop/")


def test_tagging_requires_permission_to_change_object(people: Cast, shop: Site) -> None:
    for person in (people.viewer, people.outsider):
        with pytest.raises(PermissionDenied):
            sites.sites_tag(actor=person, sites=[shop], add=["mine"])
    with pytest.raises(PermissionDenied):
        hosts.hosts_tag(actor=people.owner, hosts=[people.host], add=["mine"])
    assert signed_in(people.owner).get("/hosts/+tags/?host=web-1").status_code == 403
    assert tags_of(shop, people.host) == [[], []]


def test_bulk_tagging_changes_all_or_none(people: Cast, second: Host) -> None:
    hosts.host_update(actor=people.admin, host=second, tags=[f"t{number}" for number in range(20)])
    with pytest.raises(ValidationError, match="maximum is 20"):
        hosts.hosts_tag(actor=people.admin, hosts=[people.host, second], add=["one-more"])
    assert tags_of(people.host) == [[]]
    with pytest.raises(ApplicationError, match=r"No (sites|hosts) selected"):
        hosts.hosts_tag(actor=people.admin, hosts=[], add=["x"])


def test_api_reads_writes_and_filters_tags(people: Cast, shop: Site, second: Host) -> None:
    admin = caller_of(people.admin)
    assert admin.patch("hosts/web-1/", {"tags": ["prod", "EU"]}).json()["tags"] == ["eu", "prod"]
    assert admin.patch("sites/shop/", {"tags": ["cms"]}).json()["tags"] == ["cms"]
    assert pointers(admin.patch("hosts/web-1/", {"tags": ["not a valid tag"]})) == ["/tags"]
    assert pointers(admin.patch("sites/shop/", {"tags": "cms"})) == ["/tags"]
    for query, names in (
        ("hosts/?tags__has=prod", ["web-1"]),
        ("hosts/?tags__has=prod,eu", ["web-1"]),
        ("hosts/?tags__has=prod,us", []),
        ("sites/?tags__has=cms", ["shop"]),
        ("sites/?web_server__host__tags__has=eu", ["shop"]),
        ("sites/?tags__has=eu", []),
    ):
        assert [row["name"] for row in admin.get(query).json()["results"]] == names, query
    assert admin.get("hosts/?tags__has=").status_code == 400
    definition = admin.get("sites/shop/definition/").json()
    assert definition["tags"] == ["cms"]
    assert pointers(admin.put("sites/shop/definition/", definition | {"tags": "cms"})) == ["/tags"]
    assert admin.put("sites/shop/definition/", definition | {"tags": ["b", "a"]}).json()["tags"] == ["a", "b"]


def test_api_tags_many_rows_and_selects_rows_by_tag(people: Cast, shop: Site, second: Host) -> None:
    admin = caller_of(people.admin)
    answer = admin.post("hosts/bulk/", {"action": "tag", "hosts": ["web-1", "web-2"], "add": ["prod"]})
    assert [(row["name"], row["tags"]) for row in answer.json()] == [("web-1", ["prod"]), ("web-2", ["prod"])]
    admin.post("hosts/bulk/", {"action": "tag", "hosts": ["web-2"], "add": ["us"], "remove": ["prod"]})
    asked = admin.post("hosts/bulk/", {"action": "check", "hosts_tagged": ["us"]})
    assert (asked.status_code, HostJob.objects.get().host.name) == (202, "web-2")
    live(people, shop)
    sites.site_update(actor=people.owner, site=shop, cache_mb=7)
    admin.post("sites/bulk/", {"action": "tag", "sites": ["shop"], "add": ["cms"]})
    before = Deployment.objects.count()
    for body in ({"hosts_tagged": ["prod"]}, {"sites_tagged": ["cms"]}):
        made = admin.post("deployments/", body)
        assert made.status_code == 201, made.content
        assert made.json()["deployments"][0]["sites"] == ["shop"]
    assert Deployment.objects.count() == before + 2


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("hosts/bulk/", {"action": "check", "hosts_tagged": ["mistyped"]}, "/hosts_tagged"),
        ("hosts/bulk/", {"action": "check", "hosts_tagged": []}, "/hosts_tagged"),
        ("hosts/bulk/", {"action": "check"}, "/hosts"),
        ("hosts/bulk/", {"action": "check", "hosts": ["web-1"], "hosts_tagged": ["prod"]}, "/hosts_tagged"),
        ("hosts/bulk/", {"action": "check", "hosts": ["web-1"], "add": ["prod"]}, "/add"),
        ("hosts/bulk/", {"action": "tag", "hosts": ["web-1"]}, "/add"),
        ("hosts/bulk/", {"action": "tag", "hosts": ["web-1"], "add": ["not a valid tag"]}, "/add"),
        ("sites/bulk/", {"action": "enable", "sites_tagged": ["mistyped"]}, "/sites_tagged"),
        ("deployments/", {"hosts_tagged": ["mistyped"]}, "/hosts_tagged"),
        ("deployments/", {"sites_tagged": ["mistyped"]}, "/sites_tagged"),
        ("deployments/", {"sites": ["shop"], "hosts_tagged": ["prod"]}, "/hosts_tagged"),
    ],
)
def test_bulk_call_without_selection_is_rejected(
    people: Cast, shop: Site, path: str, body: dict[str, Any], pointer: str
) -> None:
    refused = caller_of(people.admin).post(path, body)
    assert (refused.status_code, pointers(refused)) == (422, [pointer]), json.loads(refused.content)
    assert not HostJob.objects.exists() and not Deployment.objects.exists()
