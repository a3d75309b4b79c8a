"""Sockets and ports of a host are usable by the teams that they are listed for."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from panel.hosts.models import Connection, Engine, Host, HostStatus
from panel.rendering.targets import LocalServices, service_canonical, target_of
from panel.websites import checks, services
from panel.websites.models import Allowance, AllowanceKind, PhpPool, Site, UpstreamServer
from tests.support.cast import Cast, web_server

WORDS = "ask an administrator to add this service"
POOL = "unix:/run/php/blog.sock"


@pytest.fixture
def blog(people: Cast) -> Site:
    """The other team's site, whose PHP pool is listed for that team alone."""
    Allowance.objects.all().delete()
    listed(people, POOL, people.other_team)
    site = made(people, "blog", people.outsider)
    services.php_pool_create(actor=people.outsider, site=site, name="php", address=POOL)
    return site


@pytest.fixture
def shop(people: Cast, blog: Site) -> Site:
    return made(people, "shop", people.owner)


def made(people: Cast, name: str, actor: Any, **values: Any) -> Site:
    team = people.other_team if actor == people.outsider else people.team
    given = {"web_server": people.nginx, "domains": [f"{name}.test"]} | values
    given |= {} if "upstream" in given else {"root": f"/srv/www/{name}"}
    return services.site_create(actor=actor, team=team, name=name, **given)


def listed(people: Cast, value: str, team: Any = None) -> Allowance:
    row = Allowance(kind=AllowanceKind.SERVICE, value=value, team=team, host=people.host)
    row.full_clean()
    row.save()
    return row


LOCAL = [
    POOL,
    "unix:/var/run/php/blog.sock",
    "127.0.0.1:9000",
    "127.8.9.10:9000",
    "localhost:9000",
    "LOCALHOST:9000",
    "app.localhost:9000",
    "0.0.0.0:9000",
    "[::1]:9000",
    "[::]:9000",
    "[0:0:0:0:0:0:0:1]:9000",
    "[::ffff:127.0.0.1]:9000",
    "[::ffff:7f00:1]:9000",
    "web-1:9000",
    "192.0.2.7:9000",
    "[2001:db8:0::7]:9000",
]


@pytest.mark.parametrize("address", LOCAL)
def test_local_service_is_rejected_in_every_notation(people: Cast, shop: Site, address: str) -> None:
    people.host.address = "192.0.2.7"
    people.host.facts = {"hostname": "WEB-1", "addresses": ["2001:db8::7"]}
    people.host.save()
    words = "is another spelling of 127.0.0.1" if address.startswith("0x") else WORDS
    doors: list[tuple[str, Any]] = [
        ("address", lambda: services.php_pool_create(actor=people.owner, site=shop, name="php", address=address)),
        ("servers", lambda: services.upstream_create(
            actor=people.owner, site=shop, name="app", servers=[{"address": "192.0.2.99:80"}, {"address": address}]
        )),
        ("upstream", lambda: made(people, "second", people.owner, upstream=address)),
    ]  # fmt: skip
    for field, door in doors:
        with pytest.raises(ValidationError, match=words) as caught:
            door()
        assert [key.partition("/")[0] for key in caught.value.message_dict] == [field]
        assert "Blog" not in str(caught.value)
    assert not UpstreamServer.objects.exists() and PhpPool.objects.count() == 1
    assert not Site.objects.filter(name="second").exists()


@pytest.mark.parametrize("address", ["192.0.2.99:80", "app.example:3000", "[2001:db8::8]:80", "10.0.0.1:9000"])
def test_service_of_another_host_needs_no_allowance(people: Cast, shop: Site, address: str) -> None:
    services.upstream_create(actor=people.owner, site=shop, name="app", servers=[{"address": address}])
    assert checks.site_problems(shop, actor=people.owner) == []


@pytest.mark.parametrize("address", ["0x7f000001:9000", "0x7f.0x1:9000", "127.1:9000", "2130706433:9000"])
def test_unusual_address_notation_is_rejected_before_owner_lookup(people: Cast, shop: Site, address: str) -> None:
    listed(people, "127.0.0.1:9000", people.team)
    doors: list[Any] = [
        lambda: services.php_pool_create(actor=people.owner, site=shop, name="php", address=address),
        lambda: services.upstream_create(actor=people.owner, site=shop, name="app", servers=[{"address": address}]),
        lambda: made(people, "second", people.owner, upstream=address),
    ]
    for door in doors:
        with pytest.raises(ValidationError, match=r"another spelling of 127\.0\.0\.1"):
            door()
    assert not UpstreamServer.objects.exists() and PhpPool.objects.count() == 1
    assert not Site.objects.filter(name="second").exists()


def test_listed_service_is_usable_by_its_team(people: Cast, shop: Site) -> None:
    listed(people, "localhost:3000-3009", people.team)
    listed(people, "unix:/run/shop/*", people.team)
    listed(people, "127.0.0.1:6000")
    servers = ["127.0.0.1:3000", "[::1]:3009", "unix:/run/shop/a.sock", "127.0.0.1:6000"]
    given = [{"address": address} for address in servers]
    upstream = services.upstream_create(actor=people.owner, site=shop, name="app", servers=given)
    for address in ("127.0.0.1:3010", "127.0.0.2:3000", "unix:/run/shop2/a.sock", "unix:/run/shop", "127.0.0.1:300"):
        with pytest.raises(ValidationError, match=WORDS):
            services.upstream_update(actor=people.owner, upstream=upstream, servers=[{"address": address}])
    blog = Site.objects.get(name="blog")
    with pytest.raises(ValidationError, match=WORDS):
        services.upstream_create(actor=people.outsider, site=blog, name="app", servers=given)
    services.upstream_create(actor=people.outsider, site=blog, name="app", servers=given[3:])


def test_definition_error_names_field_of_local_service(people: Cast, shop: Site) -> None:
    data = services.site_export(shop)
    data["php_pools"] = [{"name": "php", "address": POOL}]
    data["upstreams"] = [{"name": "app", "servers": [{"address": "127.0.0.1:3000"}]}]
    with pytest.raises(ValidationError, match=WORDS) as caught:
        services.site_define(actor=people.owner, data=data, site=shop)
    assert list(caught.value.message_dict) == ["upstreams/0/servers", "php_pools/0/address"]


def test_php_pool_address_change_to_local_service_is_rejected(people: Cast, shop: Site) -> None:
    pool = services.php_pool_create(actor=people.owner, site=shop, name="php", address="192.0.2.99:9000")
    with pytest.raises(ValidationError, match=WORDS):
        services.php_pool_update(actor=people.owner, pool=pool, address=POOL)
    assert PhpPool.objects.get(pk=pool.pk).address == "192.0.2.99:9000"


def test_draft_is_checked_when_it_gets_a_web_server(people: Cast, blog: Site) -> None:
    site = made(people, "second", people.owner, web_server=None, upstream="127.0.0.1:3000")
    with pytest.raises(ValidationError, match=WORDS):
        services.site_web_server_set(actor=people.owner, site=site, web_server=people.nginx)


def test_allowances_apply_per_host(people: Cast, shop: Site) -> None:
    host = Host.objects.create(
        name="web-2", connection=Connection.LOCAL, status=HostStatus.READY, site_roots=["/srv/www"]
    )
    there = web_server(host, Engine.NGINX, "")
    listed(people, "127.0.0.1:3000", people.team)
    site = made(people, "second", people.owner, upstream="127.0.0.1:3000")
    (problem,) = checks.site_problems(site, there, actor=people.owner)
    assert problem.where == "upstreams/0/servers" and WORDS in problem.message


def test_site_transfer_does_not_transfer_service_allowance(people: Cast, shop: Site) -> None:
    listed(people, "127.0.0.1:3000", people.team)
    site = made(people, "second", people.owner, upstream="127.0.0.1:3000")
    people.owner.teams.add(people.other_team)
    with pytest.raises(ValidationError, match=WORDS):
        services.site_update(actor=people.owner, site=site, team=people.other_team)


def test_administrator_save_lists_service_for_team(people: Cast, shop: Site) -> None:
    services.upstream_create(actor=people.admin, site=shop, name="app", servers=[{"address": "127.0.0.1:3000"}])
    row = Allowance.objects.get(value="127.0.0.1:3000")
    assert (row.kind, row.team, row.host, row.granted_by) == ("service", people.team, people.host, people.admin)
    assert checks.site_problems(shop, actor=people.owner) == []


def test_withdrawn_service_is_left_out_of_next_plan(people: Cast, shop: Site) -> None:
    row = listed(people, "127.0.0.1:3000", people.team)
    site = made(people, "second", people.owner, upstream="127.0.0.1:3000")
    row.delete()
    services.site_update(actor=people.owner, site=site, notes="other changes are still possible")
    (problem,) = checks.site_problems(site, actor=people.owner)
    assert problem.where == "upstreams/0/servers" and WORDS in problem.message


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("http://127.1/x", "127.0.0.1:80"),
        ("https://user@localhost:8443/x", "127.0.0.1:8443"),
        ("http://unix:/run/app.sock:/x", "unix:/run/app.sock"),
        ("unix:/run/app.sock|fcgi://localhost", "unix:/run/app.sock"),
        ("proxy:unix:/run/app.sock|fcgi://localhost", "unix:/run/app.sock"),
        ("proxy:fcgi://127.0.0.1:9000/", "127.0.0.1:9000"),
        ("fcgi://[::1]:9000/srv", "127.0.0.1:9000"),
        ("2130706433:80", "127.0.0.1:80"),
        ("017700000001:80", "127.0.0.1:80"),
        ("[fe80::1%eth0]:80", "[fe80::1]:80"),
    ],
)
def test_proxy_target_is_read_from_every_directive_form(text: str, target: str) -> None:
    assert str(target_of(text)) == target


@pytest.mark.parametrize("text", ["http://$backend", "unix:/run/%{ENV:x}", "unix:/run/shop/../php/blog.sock"])
def test_proxy_target_with_variable_is_rejected(text: str) -> None:
    assert not LocalServices(allowed=("unix:/run/shop/*", "127.0.0.1:*")).permits(text)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.5"])
def test_name_that_resolves_to_host_is_rejected(address: str) -> None:
    mine = LocalServices(own=("10.0.0.5",), allowed=("127.0.0.1:1",))
    assert not mine.permits("app.example:3000", resolved=["192.0.2.1", address])
    assert mine.permits("app.example:3000", resolved=["192.0.2.1"])


@pytest.mark.parametrize("text", ["", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:9-3", "unix:run", "unix:/a/../b", "a b:1"])
def test_invalid_allowance_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Enter (the path of a socket|an address and a port|ports)"):
        service_canonical(text)


def test_php_pool_form_suggests_only_local_services_of_the_sites_team(client: Client, people: Cast, shop: Site) -> None:
    own, shared = "unix:/run/php/shop.sock", "127.0.0.1:9000"
    listed(people, own, people.team)
    for value in (shared, "unix:/run/apps/*", "127.0.0.1:3000-3999"):
        listed(people, value)
    client.force_login(people.owner)
    page = client.get(reverse("websites:php_add", args=[shop.name])).content.decode()
    assert 'list="local-services"' in page
    assert f'<option value="{own}">' in page and f'<option value="{shared}">' in page
    assert POOL not in page and page.count("<option value=") == 2
