"""Access lists through the API and the pages, and their addresses in rendered files."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.http import HttpResponse

from panel import rendering
from panel.audit.models import AuditEntry
from panel.core.errors import ApplicationError
from panel.deployments.models import SiteState
from panel.rendering.spec import AccessRule
from panel.websites import freeze, services
from panel.websites.access_lists import expanded
from panel.websites.models import AccessList, Location, Site
from panel.websites.web_server_specs import web_server_spec
from tests.api.caller import Caller, caller_of, pointers
from tests.deployments.sample_plans import live, planned, shop
from tests.support.cast import Cast, cast, signed_in

RULES = [{"action": "allow", "source": "@office"}, {"action": "deny", "source": "all"}]


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


@pytest.fixture
def api(people: Cast) -> Caller:
    return caller_of(people.owner)


@pytest.fixture
def office(people: Cast, api: Caller) -> AccessList:
    body = {"team": people.team.slug, "name": "office", "sources": ["192.0.2.7", "2001:db8::/32"]}
    assert api.post("access-lists/", body).status_code == 201
    return AccessList.objects.get()


@pytest.fixture
def site(people: Cast, office: AccessList) -> Site:
    row = shop(people)
    services.location_create(
        actor=people.owner, block=row.blocks.get(), pattern="/admin/", match="^~", access_rules=RULES
    )
    return row


def text_of(site: Site) -> str:
    assert site.web_server is not None
    files = rendering.render(freeze.site_spec(site, site.web_server), web_server_spec(site.web_server))
    return "\n".join(file.text for file in files)


def body_of(response: HttpResponse) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(response.content)
    return found


def test_rules_that_name_a_list_are_rendered_with_its_addresses(site: Site) -> None:
    text = " ".join(text_of(site).split())
    assert "allow 192.0.2.7; allow 2001:db8::/32; deny all;" in text and "@office" not in text


def test_changed_list_is_a_change_of_the_sites_that_use_it(people: Cast, api: Caller, site: Site) -> None:
    other = shop(people, "blog")
    for row in (site, other):
        live(people, row)
    response = api.patch("access-lists/office/", {"sources": ["198.51.100.0/24"]})
    assert response.status_code == 200 and body_of(response)["sites"] == ["shop"]
    listed = signed_in(people.owner).get("/sites/?status=pending").content.decode()
    assert "/sites/shop/" in listed and "/sites/blog/" not in listed
    revision = planned(people, site).items.get().revision
    assert revision is not None and "allow 198.51.100.0/24;" in text_of(Site.objects.get(name="shop"))
    assert SiteState.objects.get(site=site).revision != revision
    actions = AuditEntry.objects.filter(team=people.team).values_list("action", flat=True)
    assert {"access_list.create", "access_list.update"} <= set(actions)


def test_list_of_another_team_is_unknown(people: Cast, site: Site) -> None:
    theirs = caller_of(people.outsider)
    assert theirs.get("access-lists/office/").status_code == 404
    assert body_of(theirs.get("access-lists/"))["results"] == []
    foreign = shop(people, "foreign", actor=people.admin, team=people.other_team)
    path = f"blocks/{foreign.blocks.get().pk}/locations/"
    refused = caller_of(people.admin).post(path, {"pattern": "/x/", "access_rules": RULES})
    assert pointers(refused) == ["/access_rules"]
    moved = caller_of(people.admin).patch("sites/shop/", {"team": people.other_team.slug})
    assert pointers(moved) == ["/team"] and "office" in moved.content.decode()


def test_list_in_use_is_not_deleted(people: Cast, api: Caller, site: Site) -> None:
    assert "used by shop" in api.delete("access-lists/office/").content.decode()
    signed_in(people.owner).post("/sites/+access-lists/office/delete/", {"confirm": "office"})
    assert AccessList.objects.exists()
    Location.objects.update(access_rules=[])
    assert api.delete("access-lists/office/").status_code == 204
    assert not AccessList.objects.exists()


@pytest.mark.parametrize(
    "sources", [[], ["all"], ["@office"], ["10.0.0.1/8"], ["nonsense"], ["192.0.2.7"] * 2, "x", [1]]
)
def test_bad_sources_are_refused_at_their_field(people: Cast, api: Caller, sources: Any) -> None:
    response = api.post("access-lists/", {"team": people.team.slug, "name": "office", "sources": sources})
    assert response.status_code == 422
    assert all(pointer.startswith("/sources") for pointer in pointers(response))


def test_definition_names_the_list_and_can_be_put_again(api: Caller, site: Site) -> None:
    text = api.get("sites/shop/definition/").content.decode()
    assert '"@office"' in text and "192.0.2.7" not in text


def test_missing_list_fails_instead_of_letting_visitors_in() -> None:
    assert expanded(RULES, {"office": ["192.0.2.7"]}) == (AccessRule("allow", "192.0.2.7"), AccessRule("deny", "all"))
    with pytest.raises(ApplicationError, match="“office” does not exist"):
        expanded(RULES, {})


def test_pages_add_change_and_show_a_list(people: Cast, site: Site) -> None:
    browser = signed_in(people.owner)
    added = {"name": "bots", "team": people.team.pk, "sources": "198.51.100.7\n\n203.0.113.0/24 "}
    assert browser.post("/sites/+access-lists/+new/", added).status_code == 302
    assert AccessList.objects.get(name="bots").sources == ["198.51.100.7", "203.0.113.0/24"]
    changed = browser.post("/sites/+access-lists/office/", {"sources": "192.0.2.8"}, follow=True)
    assert "Deploy the sites that use it: shop." in changed.content.decode()
    assert browser.post("/sites/+access-lists/office/", {"sources": "nonsense"}).status_code == 422
    listed = browser.get("/sites/+access-lists/").content.decode()
    assert ">shop</a>" in listed and ">bots</a>" in listed
    viewer = signed_in(people.viewer)
    assert "192.0.2.8" in viewer.get("/sites/+access-lists/office/").content.decode()
    assert viewer.post("/sites/+access-lists/office/", {"sources": "192.0.2.9"}).status_code == 403
