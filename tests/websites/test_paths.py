"""A path on a host belongs to the team whose site uses it: no other team's site may serve it or log to it."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from panel.hosts.logs import Log
from panel.hosts.models import Connection, Engine, Host, HostStatus
from panel.websites import checks, logs, paths, services
from panel.websites.models import Location, ServerBlock, Site
from tests.support.cast import Cast, web_server

LOG = "/var/log/nginx/blog.log"
WORDS = "ask an administrator"


@pytest.fixture
def blog(people: Cast) -> Site:
    """The other team's site: root, logs, a location's root and another's alias."""
    site = made(people, "blog", people.outsider, root="/srv/www/blog/public")
    block = site.blocks.get()
    services.block_update(actor=people.outsider, block=block, access_log=LOG, error_log="/var/log/nginx/blog-error.log")
    services.location_create(actor=people.outsider, block=block, pattern="/a", root="/srv/www/blog-a")
    services.location_create(actor=people.outsider, block=block, pattern="/b/", alias="/srv/www/blog-b/")
    return site


@pytest.fixture
def shop(people: Cast, blog: Site) -> Site:
    return made(people, "shop", people.owner, root="/srv/www/shop")


def made(people: Cast, name: str, actor: Any, **values: Any) -> Site:
    team = people.other_team if actor == people.outsider else people.team
    given = {"web_server": people.nginx, "domains": [f"{name}.example"], "root": f"/srv/www/{name}"} | values
    return services.site_create(actor=actor, team=team, name=name, **given)


def refused(error: ValidationError, path: str) -> list[str]:
    """The fields at fault; every message names the path asked for, and neither the other site nor its team."""
    for messages in error.message_dict.values():
        for message in messages:
            assert path in message and WORDS in message
            assert "Blog" not in message and "blog.example" not in message
    return list(error.message_dict)


THEIRS = [
    "/srv/www/blog/public",
    "/srv/www/blog/public/",
    "/srv/www/blog/public/uploads",
    "/srv/www/blog",
    "/srv/www",
    "/srv/www/blog-a",
    "/srv/www/blog-a/x",
    "/srv/www/blog-b",
]


@pytest.mark.parametrize("path", THEIRS)
def test_root_overlapping_another_teams_root_is_rejected(people: Cast, blog: Site, shop: Site, path: str) -> None:
    block = shop.blocks.get()
    with pytest.raises(ValidationError) as caught:
        services.block_update(actor=people.owner, block=block, root=path)
    assert refused(caught.value, path) == ["root"]
    for name, value in (("root", path), ("alias", f"{path.rstrip('/')}/")):
        with pytest.raises(ValidationError) as caught:
            services.location_create(actor=people.owner, block=block, pattern="/x/", **{name: value})
        assert refused(caught.value, path) == [name]
    with pytest.raises(ValidationError) as caught:
        made(people, "second", people.owner, root=path)
    assert refused(caught.value, path) == ["root"]
    assert ServerBlock.objects.get(pk=block.pk).root == "/srv/www/shop" and not block.locations.exists()
    assert not Site.objects.filter(name="second").exists()


@pytest.mark.parametrize("path", ["/srv/www/blog2", "/srv/www/blog/publicity", "/srv/www/blog/private", "/srv/www/a"])
def test_neighboring_folder_is_no_overlap(people: Cast, shop: Site, path: str) -> None:
    services.block_update(actor=people.owner, block=shop.blocks.get(), root=path)
    assert checks.site_problems(shop, actor=people.owner) == []


@pytest.mark.parametrize("path", [LOG, "/var/log/nginx/access.log", "/var/log/nginx/error.log"])
@pytest.mark.parametrize("name", ["access_log", "error_log"])
def test_log_path_of_another_team_or_web_server_is_rejected(people: Cast, shop: Site, name: str, path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        services.block_update(actor=people.owner, block=shop.blocks.get(), **{name: path})
    assert refused(caught.value, path) == [name]


def test_location_change_to_another_teams_files_is_rejected(people: Cast, shop: Site) -> None:
    location = services.location_create(actor=people.owner, block=shop.blocks.get(), pattern="/x/", root="/srv/www/s")
    with pytest.raises(ValidationError, match=WORDS):
        services.location_update(actor=people.owner, location=location, root="/srv/www/blog")
    assert Location.objects.get(pk=location.pk).root == "/srv/www/s"


def test_definition_error_names_field_of_path(people: Cast, shop: Site) -> None:
    data = services.site_export(shop)
    data["blocks"][0]["locations"] = [{"pattern": "/x/", "alias": "/srv/www/blog-b/"}]
    with pytest.raises(ValidationError) as caught:
        services.site_define(actor=people.owner, data=data, site=shop)
    assert refused(caught.value, "/srv/www/blog-b/") == ["blocks/0/locations/0/alias"]


def test_paths_of_disabled_sites_are_checked(people: Cast, blog: Site, shop: Site) -> None:
    """Their files exist and the logs page reads them."""
    services.site_enable(actor=people.outsider, site=blog, enabled=False)
    services.site_enable(actor=people.owner, site=shop, enabled=False)
    with pytest.raises(ValidationError, match=WORDS):
        services.block_update(actor=people.owner, block=shop.blocks.get(), root="/srv/www/blog")


def test_paths_are_checked_across_web_servers_of_host(people: Cast, blog: Site) -> None:
    with pytest.raises(ValidationError, match=WORDS):
        made(people, "second", people.owner, web_server=people.apache, port=8080, root="/srv/www/blog")


def test_path_is_checked_when_site_moves_to_host(people: Cast, blog: Site) -> None:
    host = Host.objects.create(
        name="web-2", connection=Connection.LOCAL, status=HostStatus.READY, site_roots=["/srv/www"]
    )
    there = web_server(host, Engine.NGINX, "")
    site = made(people, "second", people.owner, web_server=there, root="/srv/www/blog")
    with pytest.raises(ValidationError) as caught:
        services.site_web_server_set(actor=people.owner, site=site, web_server=people.nginx)
    assert refused(caught.value, "/srv/www/blog") == ["web_server"]
    site = Site.objects.get(pk=site.pk)
    assert site.web_server == there
    problems = checks.site_problems(site, people.nginx, actor=people.owner)
    assert [problem.where for problem in problems] == ["blocks/0/root"]
    data = services.site_export(site) | {"web_server": people.nginx.pk}
    with pytest.raises(ValidationError, match=WORDS):
        services.site_define(actor=people.owner, data=data, site=site)


def test_path_is_checked_when_draft_gets_a_web_server(people: Cast, blog: Site) -> None:
    site = made(people, "second", people.owner, web_server=None, root="/srv/www/blog")
    with pytest.raises(ValidationError, match=WORDS):
        services.site_web_server_set(actor=people.owner, site=site, web_server=people.nginx)


def test_teammates_share_paths(people: Cast, shop: Site) -> None:
    made(people, "second", people.owner, root="/srv/www/shop/second")
    services.site_clone(actor=people.owner, site=shop, name="copy")
    rows = Site.objects.filter(team=people.team)
    roots = dict(rows.values_list("name", "blocks__root"))
    assert roots == {"copy": "/srv/www/shop", "second": "/srv/www/shop/second", "shop": "/srv/www/shop"}


def test_administrator_override_lets_operators_continue(people: Cast, blog: Site, shop: Site) -> None:
    block = shop.blocks.get()
    services.block_update(actor=people.admin, block=block, root="/srv/www/blog/public")
    services.block_update(actor=people.owner, block=block, autoindex=True)
    services.block_update(actor=people.outsider, block=blog.blocks.get(), autoindex=True)
    services.site_define(actor=people.owner, data=services.site_export(shop), site=shop)
    with pytest.raises(ValidationError, match=WORDS):
        services.block_update(actor=people.owner, block=shop.blocks.get(), root="/srv/www/blog/public/other")
    with pytest.raises(ValidationError, match=WORDS):
        services.site_clone(actor=people.owner, site=shop, name="copy")
    assert checks.site_problems(shop, actor=people.admin) == []


def test_site_transfer_must_not_mix_files_of_teams(people: Cast, shop: Site) -> None:
    made(people, "second", people.owner, root="/srv/www/shop/second")
    people.owner.teams.add(people.other_team)
    with pytest.raises(ValidationError) as caught:
        services.site_update(actor=people.owner, site=shop, team=people.other_team)
    assert refused(caught.value, "/srv/www/shop") == ["team"]
    assert Site.objects.get(pk=shop.pk).team == people.team


def test_log_reading_rejects_path_of_another_team(people: Cast, blog: Site, shop: Site) -> None:
    """The path was stored before the rule existed."""
    ServerBlock.objects.filter(site=shop).update(access_log=LOG)
    (log,) = logs.site_logs(people.owner, shop)
    with pytest.raises(PermissionDenied, match=WORDS):
        logs.site_log_tail(people.owner, shop, log, lines=10)
    for path in ("/var/log/nginx/access.log", "/srv/www/blog/public/config.php"):
        with pytest.raises(PermissionDenied, match=WORDS):
            logs.site_log_tail(people.owner, shop, Log("x", "x", path), lines=10)


def test_path_check_query_count_does_not_grow(people: Cast, shop: Site) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            checks.path_clashes(people.owner, shop, people.host)
        return len(captured)

    before = queries()
    for number in range(5):
        site = made(people, f"b-{number}", people.outsider, root=f"/srv/www/b-{number}")
        services.location_create(
            actor=people.outsider, block=site.blocks.get(), pattern="/x", root=f"/srv/www/x-{number}"
        )
        services.location_create(
            actor=people.owner, block=shop.blocks.get(), pattern=f"/{number}", root=f"/srv/www/s{number}"
        )
    assert queries() == before


def test_path_overlap_compares_whole_segments(people: Cast, blog: Site) -> None:
    asked = [
        "/srv/www/blog/public",
        "/srv/www/blog/publi",
        "/",
        "/srv/www/blog-b/x",
        "/srv/www/blog-bx",
        LOG,
        LOG + "s",
    ]
    assert paths.foreign_paths(asked, people.team, people.host) == {asked[0], "/", asked[3], LOG}
    assert paths.foreign_paths(asked[:2], people.other_team, people.host) == set()
