"""Access lists, header sets and directive sets through the API and the pages, and in rendered files."""

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
from panel.websites.models import AccessList, DirectiveSet, HeaderSet, Location, RawSnippet, Site
from panel.websites.shared import rules_expanded
from panel.websites.web_server_specs import web_server_spec
from tests.api.caller import Caller, caller_of, pointers
from tests.deployments.sample_plans import live, planned, shop
from tests.support.cast import Cast, signed_in

RULES = [{"action": "allow", "source": "@office"}, {"action": "deny", "source": "all"}]


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
    assert rules_expanded(RULES, {"office": ["192.0.2.7"]}) == (
        AccessRule("allow", "192.0.2.7"),
        AccessRule("deny", "all"),
    )
    with pytest.raises(ApplicationError, match="“office” does not exist"):
        rules_expanded(RULES, {})


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


# --- header sets ---

SECURITY = [
    {"name": "X-Frame-Options", "value": "DENY", "always": True},
    {"name": "Referrer-Policy", "value": "same-origin", "always": True},
]
OWN = [{"name": "@security", "value": "", "always": True}, {"name": "x-frame-options", "value": "SAMEORIGIN"}]


@pytest.fixture
def secured(people: Cast, api: Caller) -> Site:
    """A site whose server block names a header set, and has one of its headers itself."""
    body = {"team": people.team.slug, "name": "security", "headers": SECURITY}
    assert api.post("header-sets/", body).status_code == 201
    row = shop(people)
    assert api.patch(f"blocks/{row.blocks.get().pk}/", {"headers": OWN}).status_code == 200
    return row


def test_header_set_is_rendered_except_for_headers_that_the_site_has(secured: Site) -> None:
    text = text_of(secured)
    assert "Referrer-Policy same-origin" in text and "@security" not in text
    assert "SAMEORIGIN" in text and "DENY" not in text


@pytest.mark.parametrize("engine", ["nginx", "apache", "openlitespeed", "native"])
def test_header_set_is_rendered_for_each_web_server(engine: str, secured: Site) -> None:
    assert secured.web_server is not None
    secured.web_server.engine = engine
    assert "same-origin" in text_of(secured)


def test_changed_header_set_is_a_change_of_the_sites_that_use_it(people: Cast, api: Caller, secured: Site) -> None:
    other = shop(people, "blog")
    before = [Site.objects.get(pk=row.pk).version for row in (secured, other)]
    new = [{"name": "Referrer-Policy", "value": "no-referrer"}]
    response = api.patch("header-sets/security/", {"headers": new})
    assert response.status_code == 200 and body_of(response)["sites"] == ["shop"]
    assert [Site.objects.get(pk=row.pk).version for row in (secured, other)] == [before[0] + 1, before[1]]
    assert "no-referrer" in text_of(secured)
    assert api.delete("header-sets/security/").status_code == 409


def test_header_set_of_another_team_is_unknown(people: Cast, secured: Site) -> None:
    assert caller_of(people.outsider).get("header-sets/security/").status_code == 404
    foreign = shop(people, "foreign", actor=people.admin, team=people.other_team)
    path = f"blocks/{foreign.blocks.get().pk}/"
    assert pointers(caller_of(people.admin).patch(path, {"headers": OWN})) == ["/headers"]
    moved = caller_of(people.admin).patch("sites/shop/", {"team": people.other_team.slug})
    assert pointers(moved) == ["/team"] and "security" in moved.content.decode()


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [{"name": "@other", "value": ""}],
        [{"name": "X Y", "value": "1"}],
        [{"name": "X-A", "value": "1"}, {"name": "x-a", "value": "2"}],
        [{"name": "X-A", "value": "$unknown"}],
        [{"name": "X-A"}],
        "x",
    ],
)
def test_bad_headers_of_a_set_are_refused_at_their_field(people: Cast, api: Caller, headers: Any) -> None:
    response = api.post("header-sets/", {"team": people.team.slug, "name": "security", "headers": headers})
    assert response.status_code == 422
    assert all(pointer.startswith("/headers") for pointer in pointers(response))


@pytest.mark.parametrize("item", [{"name": "@security", "value": "x"}, {"name": "@No Such", "value": ""}])
def test_wrong_name_of_a_header_set_is_refused(api: Caller, secured: Site, item: dict[str, str]) -> None:
    refused = api.patch(f"blocks/{secured.blocks.get().pk}/", {"headers": [item]})
    assert pointers(refused) == ["/headers"]


def test_request_headers_name_no_header_set(api: Caller, secured: Site) -> None:
    body = {"pattern": "/x/", "request_headers": [{"name": "@security", "value": ""}]}
    refused = api.post(f"blocks/{secured.blocks.get().pk}/locations/", body)
    assert pointers(refused) == ["/request_headers"]


def test_editor_shows_and_saves_the_name_of_a_header_set(people: Cast, secured: Site) -> None:
    browser = signed_in(people.owner)
    page = browser.get(f"/sites/shop/blocks/{secured.blocks.get().pk}/").content.decode()
    assert "@security\nx-frame-options: SAMEORIGIN" in page
    assert browser.post("/sites/+header-sets/+new/", {"name": "x", "team": people.team.pk}).status_code == 422
    assert browser.post("/sites/+header-sets/security/", {"headers": ""}).status_code == 422
    browser.post("/sites/+header-sets/security/", {"headers": "X-Frame-Options: DENY\n[2xx] X-Kind: page"})
    assert HeaderSet.objects.get().headers[1] == {"name": "X-Kind", "value": "page", "always": False}


# --- directive sets ---


@pytest.fixture
def raw(people: Cast, site: Site) -> RawSnippet:
    """Raw directives of a location that name a directive set between lines of their own."""
    admin = caller_of(people.admin)
    body = {"team": people.team.slug, "name": "cors", "engine": "nginx", "text": "add_header X-One 1;\nexpires 5m;\n"}
    assert admin.post("directive-sets/", body).status_code == 201
    location = site.blocks.get().locations.get(pattern="/admin/")
    text = "etag off;\n  @cors\nif_modified_since off;"
    made = admin.post("snippets/", {"site": "shop", "engine": "nginx", "location": location.pk, "text": text})
    assert made.status_code == 201, made.content
    return RawSnippet.objects.get()


def test_line_that_names_a_directive_set_is_rendered_as_its_directives(site: Site, raw: RawSnippet) -> None:
    text = " ".join(text_of(site).split())
    assert "etag off; add_header X-One 1; expires 5m; if_modified_since off;" in text and "@cors" not in text
    assert "@cors" in raw.text


def test_changed_directive_set_is_checked_and_rendered_where_it_is_used(
    people: Cast, site: Site, raw: RawSnippet
) -> None:
    admin, before = caller_of(people.admin), Site.objects.get(pk=site.pk).version
    refused = admin.patch("directive-sets/cors/", {"text": "add_header X-One 1;\nload_module x.so;"})
    assert pointers(refused) == ["/text"]
    assert "shop, " in refused.content.decode() and "line 2, load_module" in refused.content.decode()
    assert DirectiveSet.objects.get().text.startswith("add_header") and "expires 5m" in text_of(site)
    assert admin.patch("directive-sets/cors/", {"text": "expires 9m;"}).status_code == 200
    assert "expires 9m;" in text_of(site) and "expires 5m" not in text_of(site)
    assert Site.objects.get(pk=site.pk).version == before + 1
    assert "used by shop" in admin.delete("directive-sets/cors/").content.decode()


def test_directive_sets_are_for_administrators(people: Cast, api: Caller, raw: RawSnippet) -> None:
    assert api.get("directive-sets/cors/").status_code == 200
    assert api.patch("directive-sets/cors/", {"text": "expires 9m;"}).status_code == 403
    assert api.delete("directive-sets/cors/").status_code == 403
    body = {"team": people.team.slug, "name": "own", "engine": "nginx", "text": "expires 1m;"}
    assert api.post("directive-sets/", body).status_code == 403


@pytest.mark.parametrize("text", ["", "\n", "@other", "expires 1m;\n@other\n"])
def test_bad_text_of_a_directive_set_is_refused(people: Cast, text: str) -> None:
    body = {"team": people.team.slug, "name": "own", "engine": "nginx", "text": text}
    assert pointers(caller_of(people.admin).post("directive-sets/", body)) == ["/text"]


def test_unknown_directive_set_is_refused_where_it_is_named(people: Cast, raw: RawSnippet) -> None:
    admin = caller_of(people.admin)
    refused = admin.patch(f"snippets/{raw.pk}/", {"text": "@other"})
    assert pointers(refused) == ["/text"] and "“other” does not exist" in refused.content.decode()
    DirectiveSet.objects.update(engine="apache")
    assert pointers(admin.patch(f"snippets/{raw.pk}/", {"text": "@cors"})) == ["/text"]


def test_line_numbers_of_errors_count_within_the_text_that_has_the_error(people: Cast, raw: RawSnippet) -> None:
    refused = caller_of(people.admin).patch(f"snippets/{raw.pk}/", {"text": "@cors\nload_module x.so;"})
    assert "line 2, load_module" in refused.content.decode()


def test_cloned_site_names_the_same_settings(people: Cast, api: Caller, site: Site, raw: RawSnippet) -> None:
    body = {"name": "copy", "domains": ["copy.example"]}
    made = caller_of(people.admin).post("sites/shop/clone/", body)
    assert made.status_code == 201, made.content
    copy = RawSnippet.objects.get(site__name="copy")
    assert copy.text == raw.text and copy.expanded == raw.expanded
