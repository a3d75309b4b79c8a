"""Names and addresses belong to teams: no operator receives requests for another team's site."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from panel.audit.models import AuditEntry
from panel.hosts.models import Connection, Engine, Host, HostStatus
from panel.websites import checks, services
from panel.websites.models import Allowance, AllowanceKind, Listen, ServerName, Site
from tests.api.caller import caller_of
from tests.support.cast import Cast, web_server

WORDS = "ask an administrator to allow it"


@pytest.fixture
def blog(people: Cast) -> Site:
    """The other team's site on every address of port 80."""
    return made(people, "blog", people.outsider, domains=["blog.example", "*.wild.blog.example"])


@pytest.fixture
def shop(people: Cast, blog: Site) -> Site:
    return made(people, "shop", people.owner)


def made(people: Cast, name: str, actor: Any, **values: Any) -> Site:
    team = people.other_team if actor == people.outsider else people.team
    given = {"web_server": people.nginx, "domains": [f"{name}.test"], "root": f"/srv/www/{name}"} | values
    return services.site_create(actor=actor, team=team, name=name, **given)


def other_host(people: Cast) -> Any:
    host = Host.objects.create(
        name="web-2", connection=Connection.LOCAL, status=HostStatus.READY, site_roots=["/srv/www"]
    )
    return web_server(host, Engine.NGINX, "")


def refused(caught: pytest.ExceptionInfo[ValidationError]) -> list[str]:
    """The fields at fault. Every message says what to do, and names neither the other site nor its team."""
    for messages in caught.value.message_dict.values():
        for message in messages:
            assert WORDS in message
            assert "Blog" not in message and "site blog" not in message
    return list(caught.value.message_dict)


OVERLAPPING = [
    "blog.example",
    "BLOG.Example",
    "*.example",
    ".example",
    ".blog.example",
    "blog.*",
    "wild.*",
    r"~^blog\.example$",
    r"~^b[a-z]+\.example$",
    "~.",
    "~^[[:alpha:]]+",
    r"~(?x) ^ blog . example $ # \.test$",
    "a.wild.blog.example",
    "*.a.wild.blog.example",
    ".wild.blog.example",
    r"~\.wild\.blog\.example$",
    r"~^(a|b)\.test$|\.blog\.example$",
]


@pytest.mark.parametrize("name", OVERLAPPING)
def test_name_overlapping_another_teams_name_is_rejected(people: Cast, shop: Site, name: str) -> None:
    block = shop.blocks.get()
    with pytest.raises(ValidationError) as caught:
        services.block_update(actor=people.owner, block=block, names=["shop.test", name])
    assert refused(caught) == ["names"]
    assert list(ServerName.objects.filter(block=block).values_list("name", flat=True)) == ["shop.test"]


@pytest.mark.parametrize(
    "name", ["www.shop.test", "*.shop.test", "wild.blog.example", "notblog.example", r"~^www\d\.shop\.test$"]
)
def test_name_without_overlap_is_saved(people: Cast, shop: Site, name: str) -> None:
    services.block_update(actor=people.owner, block=shop.blocks.get(), names=["shop.test", name])
    assert checks.site_problems(shop, actor=people.owner) == []


def test_name_belongs_to_team_on_every_port_server_and_host(people: Cast, blog: Site) -> None:
    for place in (
        {"port": 8443},
        {"web_server": people.apache, "port": 8080},
        {"web_server": other_host(people)},
        {"web_server": None},
    ):
        with pytest.raises(ValidationError) as caught:
            made(people, "second", people.owner, domains=["blog.example"], **place)
        assert refused(caught) == ["domains"]


def test_local_name_belongs_to_team_on_its_host_only(people: Cast) -> None:
    made(people, "blog", people.outsider, domains=["localhost", "10.0.0.1", "www.*"])
    there = other_host(people)
    made(people, "second", people.owner, domains=["localhost", "10.0.0.1", "www.*"], web_server=there)
    for name in ("localhost", "10.0.0.1", "www.shop.test"):
        with pytest.raises(ValidationError) as caught:
            made(people, "third", people.owner, domains=[name], port=81)
        assert refused(caught) == ["domains"]


def test_teammates_share_names(people: Cast, shop: Site) -> None:
    second = made(people, "second", people.owner, domains=["*.shop.test"], port=81)
    assert checks.site_problems(second, actor=people.owner) == []


def test_disabled_site_keeps_its_names(people: Cast, blog: Site, shop: Site) -> None:
    services.site_enable(actor=people.outsider, site=blog, enabled=False)
    services.site_enable(actor=people.owner, site=shop, enabled=False)
    with pytest.raises(ValidationError, match=WORDS):
        services.block_update(actor=people.owner, block=shop.blocks.get(), names=["blog.example"])


# --- addresses ---


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "::ffff:127.0.0.1"])
def test_specific_address_on_shared_port_is_rejected(people: Cast, shop: Site, address: str) -> None:
    with pytest.raises(ValidationError) as caught:
        services.block_update(
            actor=people.owner, block=shop.blocks.get(), listens=[{"port": 80, "address": address}], names=["shop.test"]
        )
    assert refused(caught) == ["listens"]
    with pytest.raises(ValidationError) as caught:
        made(people, "second", people.owner, address=address)
    assert refused(caught) == ["address"] or refused(caught) == ["port"]


def test_ipv6_address_is_rejected_when_its_wildcard_is_used(people: Cast, blog: Site, shop: Site) -> None:
    """nginx has one socket per address family; Apache has one virtual host for both."""
    block = shop.blocks.get()
    services.block_update(actor=people.owner, block=block, listens=[{"port": 80, "address": "::1"}])
    services.block_update(actor=people.owner, block=block, listens=[{"port": 80}])
    services.block_update(actor=people.outsider, block=blog.blocks.get(), listens=[{"port": 80, "address": "::"}])
    with pytest.raises(ValidationError) as caught:
        services.block_update(actor=people.owner, block=block, listens=[{"port": 80, "address": "::1"}])
    assert refused(caught) == ["listens"]
    made(people, "there", people.outsider, web_server=people.apache, port=8080)
    with pytest.raises(ValidationError, match=WORDS):
        made(people, "second", people.owner, web_server=people.apache, port=8080, address="::1")


def test_address_belongs_to_first_team(people: Cast) -> None:
    first = made(people, "first", people.owner, address="127.0.0.1")
    made(people, "blog", people.outsider)
    services.block_update(actor=people.owner, block=first.blocks.get(), names=["first.test", "www.first.test"])
    second = made(people, "second", people.owner, address="127.0.0.1")
    assert checks.site_problems(second, actor=people.owner) == []


def test_ipv4_address_has_one_notation(people: Cast, shop: Site) -> None:
    services.block_update(
        actor=people.owner,
        block=shop.blocks.get(),
        listens=[{"port": 80, "address": "0.0.0.0"}],
    )
    assert Listen.objects.get(block__site=shop).address == ""


def test_default_server_on_shared_port_is_rejected(people: Cast, blog: Site, shop: Site) -> None:
    with pytest.raises(ValidationError) as caught:
        services.block_update(
            actor=people.owner, block=shop.blocks.get(), listens=[{"port": 80, "default_server": True}]
        )
    assert refused(caught) == ["listens"]
    with pytest.raises(ValidationError) as caught:
        made(people, "second", people.owner, domains=[])
    assert refused(caught) == ["port"]
    second = made(people, "second", people.owner, domains=[], port=8081)
    made(people, "third", people.outsider, port=8081)
    services.site_update(actor=people.owner, site=second, notes="the catch-all stays")
    services.site_define(actor=people.owner, data=services.site_export(second), site=second)


@pytest.mark.parametrize("name", ["*.test", ".test", "www.*", "~.", r"~^www\."])
def test_catch_all_name_is_rejected_beside_another_teams_default_server(people: Cast, name: str) -> None:
    made(people, "blog", people.outsider, domains=[])
    with pytest.raises(ValidationError) as caught:
        made(people, "second", people.owner, domains=[name])
    assert refused(caught) == ["domains"]
    second = made(people, "second", people.owner, domains=["*.shop.test"])
    assert checks.site_problems(second, actor=people.owner) == []


# --- every door ---


def test_definition_error_names_field_of_owned_name(people: Cast, shop: Site) -> None:
    data = services.site_export(shop)
    data["blocks"][0]["names"] = ["blog.example"]
    data["blocks"][0]["listens"] = [{"port": 80, "address": "127.0.0.1", "default_server": True}]
    with pytest.raises(ValidationError) as caught:
        services.site_define(actor=people.owner, data=data, site=shop)
    assert refused(caught) == ["blocks/0/names", "blocks/0/listens"]


def test_clone_with_another_teams_name_is_rejected(people: Cast, shop: Site) -> None:
    with pytest.raises(ValidationError, match=WORDS):
        services.site_clone(actor=people.owner, site=shop, name="copy", domains=["x.wild.blog.example"])


def test_new_block_with_another_teams_name_is_rejected(people: Cast, shop: Site) -> None:
    with pytest.raises(ValidationError) as caught:
        services.block_create(actor=people.owner, site=shop, listens=[{"port": 443}], names=["blog.example"])
    assert refused(caught) == ["names"]


def test_site_transfer_must_not_split_name_between_teams(people: Cast, shop: Site) -> None:
    made(people, "second", people.owner, domains=["*.shop.test"])
    made(people, "third", people.owner, domains=["a.shop.test"])
    people.owner.teams.add(people.other_team)
    with pytest.raises(ValidationError) as caught:
        services.site_update(actor=people.owner, site=Site.objects.get(name="third"), team=people.other_team)
    assert refused(caught) == ["team"]


def test_web_server_change_is_rejected_when_address_takes_over_requests(people: Cast, shop: Site) -> None:
    made(people, "there", people.outsider, web_server=people.apache, port=8080)
    site = made(people, "second", people.owner, port=8080, address="127.0.0.1", web_server=None)
    with pytest.raises(ValidationError) as caught:
        services.site_web_server_set(actor=people.owner, site=site, web_server=people.apache)
    assert refused(caught) == ["web_server"]
    problems = checks.site_problems(site, people.apache, actor=people.owner)
    assert [problem.where for problem in problems] == ["blocks/0/listens"]


def test_older_row_that_breaks_rule_blocks_plan(people: Cast, shop: Site) -> None:
    ServerName.objects.filter(block__site=shop).update(name="a.wild.blog.example")
    (problem,) = checks.site_problems(shop, actor=people.owner)
    assert problem.where == "blocks/0/names" and WORDS in problem.message
    services.site_update(actor=people.owner, site=shop, notes="other changes are still possible")


# --- administrators ---


def test_administrator_override_is_recorded_and_lets_operators_continue(people: Cast, blog: Site, shop: Site) -> None:
    block = shop.blocks.get()
    services.block_update(
        actor=people.admin,
        block=block,
        names=["shop.test", "a.wild.blog.example"],
        listens=[{"port": 80, "address": "127.0.0.1"}],
    )
    recorded = Allowance.objects.exclude(kind=AllowanceKind.SERVICE)
    rows = recorded.order_by("value").values_list("kind", "value", "team", "host", "granted_by")
    assert list(rows) == [
        ("address", "127.0.0.1:80", people.team.pk, people.host.pk, people.admin.pk),
        ("name", "a.wild.blog.example", people.team.pk, None, people.admin.pk),
    ]
    entries = AuditEntry.objects.filter(action="allowance.create", actor=people.admin)
    assert {entry.after["value"] for entry in entries if entry.after} == {"a.wild.blog.example", "127.0.0.1:80"}
    assert checks.site_problems(shop, actor=people.owner) == []
    services.block_update(actor=people.owner, block=block, names=["shop.test"])
    services.block_update(actor=people.owner, block=block, names=["shop.test", "a.wild.blog.example"])
    with pytest.raises(ValidationError, match=WORDS):
        services.block_update(actor=people.owner, block=block, names=["b.wild.blog.example"])
    services.block_update(actor=people.admin, block=block, autoindex=True)
    assert recorded.count() == 2


def test_allowance_applies_to_its_team_only(people: Cast, blog: Site, shop: Site) -> None:
    Allowance.objects.create(kind=AllowanceKind.NAME, value="shop.test", team=people.other_team)
    services.block_update(
        actor=people.outsider, block=blog.blocks.get(), names=["blog.example", "shop.test"], listens=[{"port": 81}]
    )
    Allowance.objects.create(kind=AllowanceKind.NAME, value="blog.example", team=people.other_team)
    with pytest.raises(ValidationError, match=WORDS):
        services.block_update(actor=people.owner, block=shop.blocks.get(), names=["blog.example"])


# --- messages ---


def test_conflict_message_names_only_visible_sites(people: Cast, blog: Site, shop: Site) -> None:
    def clash(actor: Any, site: Site) -> str:
        return " ".join(problem.message for problem in checks.site_clashes(actor, site, people.apache))

    services.block_update(actor=people.owner, block=shop.blocks.get(), listens=[{"port": 81}])
    assert clash(people.owner, shop) == ""
    services.block_update(actor=people.outsider, block=blog.blocks.get(), listens=[{"port": 81}])
    assert "a site of another team" in clash(people.owner, shop)
    assert "the site blog" in clash(people.admin, shop)
    made(people, "mate", people.owner, port=82)
    services.block_update(actor=people.owner, block=shop.blocks.get(), listens=[{"port": 82}])
    assert "the site mate" in clash(people.owner, shop)


def test_ownership_query_count_does_not_grow_with_sites(people: Cast, shop: Site) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            checks.site_problems(shop, actor=people.owner, may_clash=False)
        return len(captured)

    before = queries()
    for number in range(5):
        made(people, f"b-{number}", people.outsider, domains=[f"b-{number}.example", f"~^b{number}\\.example$"])
    assert queries() == before


# --- the API ---

BLOCK = {"listens": [{"port": 80}], "names": ["blog.example"], "root": "/srv/www/shop"}
POOL = {"name": "php", "address": "unix:/run/php/blog.sock"}
UPSTREAM = {"name": "app", "servers": [{"address": "127.0.0.1:9000"}]}
DOORS: dict[str, tuple[str, str, Any]] = {
    "definition": ("PUT", "sites/shop/definition/", {"name": "shop", "team": "shop", "blocks": [BLOCK]}),
    "definition's upstream": ("PUT", "sites/shop/definition/", {"name": "shop", "blocks": [], "upstreams": [UPSTREAM]}),
    "definition's pool": ("PUT", "sites/shop/definition/", {"name": "shop", "blocks": [], "php_pools": [POOL]}),
    "new site": ("POST", "sites/", {"name": "new", "team": "shop", "web_server": 0, "blocks": [BLOCK]}),
    "new sites": ("POST", "sites/", [{"name": "new", "team": "shop", "web_server": 0, "blocks": [BLOCK]}]),
    "quick": ("POST", "sites/quick/", {
        "name": "new", "team": "shop", "web_server": 0, "domains": ["blog.example"], "root": "/srv/www/new",
    }),
    "clone": ("POST", "sites/shop/clone/", {"name": "new", "domains": ["blog.example"]}),
    "new block": ("POST", "blocks/", {"site": "shop"} | BLOCK),
    "block": ("PATCH", "blocks/BLOCK/", {"names": ["blog.example"]}),
    "block's address": ("PATCH", "blocks/BLOCK/", {"listens": [{"port": 80, "address": "127.0.0.1"}]}),
    "block's default": ("PATCH", "blocks/BLOCK/", {"listens": [{"port": 80, "default_server": True}]}),
    "upstream": ("POST", "upstreams/", {"site": "shop"} | UPSTREAM),
    "pool": ("POST", "php-pools/", {"site": "shop"} | POOL),
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_api_rejects_names_of_another_team_everywhere(people: Cast, shop: Site, door: str) -> None:
    Allowance.objects.all().delete()
    method, path, body = DOORS[door]
    text = json.dumps(body).replace('"web_server": 0', f'"web_server": {people.nginx.pk}')
    before = services.site_export(shop)
    answer = caller_of(people.owner).call(method, path.replace("BLOCK", str(shop.blocks.get().pk)), json.loads(text))
    assert answer.status_code == 422, answer.content
    details = " ".join(error["detail"] for error in json.loads(answer.content)["errors"])
    assert "ask an administrator to" in details and "Blog" not in details and "site blog" not in details
    assert services.site_export(Site.objects.get(pk=shop.pk)) == before
    assert set(Site.objects.values_list("name", flat=True)) == {"blog", "shop"}
