"""Every service that changes what a deployment may write counts up the version of the sites that it concerns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from panel.accounts.models import User
from panel.core.errors import Conflict
from panel.websites import services
from panel.websites.models import Certificate, Location, PhpPool, RawSnippet, ServerBlock, Site, StreamServer, Upstream
from panel.websites.versions import IS_PENDING
from tests.support.cast import Cast


@dataclass
class Parts:
    """A site with one part of every kind."""

    admin: User
    site: Site
    block: ServerBlock
    location: Location
    upstream: Upstream
    pool: PhpPool
    database: Upstream
    stream: StreamServer
    snippet: RawSnippet
    certificate: Certificate
    people: Cast

    def version(self) -> int:
        return Site.objects.get(pk=self.site.pk).version


@pytest.fixture
def parts(people: Cast) -> Parts:
    admin = people.admin
    names = ["shop.example", "blog.example"]
    certificate = services.certificate_self_sign(actor=admin, team=people.team, name="shop", names=names)
    site = services.site_create(
        actor=admin,
        team=people.team,
        name="shop",
        domains=["shop.example"],
        web_server=people.nginx,
        certificate=certificate,
        root="/srv/www/shop",
    )
    block = site.blocks.get()
    servers = [{"address": "127.0.0.1:9001"}]
    database = services.upstream_create(actor=admin, site=site, name="db", servers=servers)
    return Parts(
        admin=admin,
        site=site,
        block=block,
        location=services.location_create(actor=admin, block=block, pattern="/app/"),
        upstream=services.upstream_create(actor=admin, site=site, name="app", servers=servers),
        pool=services.php_pool_create(actor=admin, site=site, name="main", address="unix:/run/php/shop.sock"),
        database=database,
        stream=services.stream_server_create(actor=admin, site=site, name="db", port=5432, upstream=database),
        snippet=services.snippet_create(actor=admin, site=site, engine="nginx", text="etag off;", block=block),
        certificate=certificate,
        people=people,
    )


def replace_certificate(it: Parts) -> None:
    new = services.certificate_self_sign(actor=it.admin, team=it.site.team, name="new", names=["shop.example"])
    services.certificate_replace(
        actor=it.admin,
        certificate=it.certificate,
        certificate_pem=new.certificate_pem,
        private_key_pem=new.private_key_pem,
    )


def allow(it: Parts) -> Any:
    values = {"kind": "name", "value": "a.example", "team": it.site.team}
    return services.allowance_create(actor=it.admin, **values)


def redefine(it: Parts) -> None:
    services.site_define(actor=it.admin, site=it.site, data=services.site_export(it.site) | {"cache_mb": 7})


# By service: calls that change the site. A certificate that is made or deleted is no site's.
COUNTS: dict[str, Callable[[Parts], Any]] = {
    "allowance_create": allow,
    "allowance_delete": lambda it: services.allowance_delete(actor=it.admin, allowance=allow(it)),
    "block_create": lambda it: services.block_create(
        actor=it.admin, site=it.site, listens=[{"port": 81}], names=["b.example"], root="/srv/www/shop"
    ),
    "block_delete": lambda it: services.block_delete(actor=it.admin, block=it.block),
    "block_update": lambda it: services.block_update(actor=it.admin, block=it.block, autoindex=True),
    "certificate_replace": replace_certificate,
    "location_create": lambda it: services.location_create(actor=it.admin, block=it.block, pattern="/b/"),
    "location_delete": lambda it: services.location_delete(actor=it.admin, location=it.location),
    "location_update": lambda it: services.location_update(actor=it.admin, location=it.location, pattern="/c/"),
    "locations_reorder": lambda it: services.locations_reorder(
        actor=it.admin, block=it.block, order=list(it.block.locations.values_list("pk", flat=True))
    ),
    "php_pool_create": lambda it: services.php_pool_create(
        actor=it.admin, site=it.site, name="b", address="unix:/run/php/shop.sock"
    ),
    "php_pool_delete": lambda it: services.php_pool_delete(actor=it.admin, pool=it.pool),
    "php_pool_update": lambda it: services.php_pool_update(actor=it.admin, pool=it.pool, name="b"),
    "site_define": redefine,
    "site_enable": lambda it: services.site_enable(actor=it.admin, site=it.site, enabled=False),
    "site_web_server_set": lambda it: services.site_web_server_set(
        actor=it.admin, site=it.site, web_server=it.people.apache
    ),
    "site_update": lambda it: services.site_update(actor=it.admin, site=it.site, cache_mb=7),
    "snippet_create": lambda it: services.snippet_create(
        actor=it.admin, site=it.site, engine="nginx", text="etag on;", location=it.location
    ),
    "snippet_delete": lambda it: services.snippet_delete(actor=it.admin, snippet=it.snippet),
    "snippet_update": lambda it: services.snippet_update(actor=it.admin, snippet=it.snippet, text="etag on;"),
    "stream_server_create": lambda it: services.stream_server_create(
        actor=it.admin, site=it.site, name="b", port=5433, upstream=it.database
    ),
    "stream_server_delete": lambda it: services.stream_server_delete(actor=it.admin, server=it.stream),
    "stream_server_update": lambda it: services.stream_server_update(actor=it.admin, server=it.stream, port=5433),
    "upstream_create": lambda it: services.upstream_create(
        actor=it.admin, site=it.site, name="b", servers=[{"address": "127.0.0.1:9002"}]
    ),
    "upstream_delete": lambda it: services.upstream_delete(actor=it.admin, upstream=it.upstream),
    "upstream_update": lambda it: services.upstream_update(actor=it.admin, upstream=it.upstream, keepalive=3),
}
# Services that change no site that is there, or nothing that a host is told of.
DOES_NOT_COUNT = {
    "upstreams_follow",  # counts for sites whose hosts changed (tests/websites/test_following_hosts.py)
    "shared_setting_create",
    "shared_setting_delete",  # refused while a site uses it
    "shared_setting_update",  # counts for sites that use it (tests/websites/test_shared_settings.py)
    "certificate_revoked",
    "certificate_delete",  # refused while a site uses it
    "certificate_export",
    "certificate_issue",  # a renewal outdates plans (tests/certificates)
    "certificate_observed",  # of a file that the host has already
    "certificate_refer",
    "certificate_self_sign",
    "certificate_upload",
    "site_clone",
    "site_create",
    "site_from_preset",
    "site_delete",
    "site_export",
    "sites_tag",
}


def test_every_service_is_known_to_count_or_not() -> None:
    assert set(COUNTS) | DOES_NOT_COUNT == set(services.__all__)
    assert not set(COUNTS) & DOES_NOT_COUNT


@pytest.mark.parametrize("service", COUNTS)
def test_service_counts_up_the_version_of_the_site(parts: Parts, service: str) -> None:
    before = parts.version()
    COUNTS[service](parts)
    assert parts.version() > before


def test_notes_tags_and_an_equal_definition_count_nothing(parts: Parts) -> None:
    before = parts.version()
    services.site_update(actor=parts.admin, site=parts.site, notes="ask Ann", tags=["prod"])
    services.site_update(actor=parts.admin, site=parts.site, cache_mb=parts.site.cache_mb)
    services.sites_tag(actor=parts.admin, sites=[parts.site], add=["eu"])
    services.site_define(actor=parts.admin, site=parts.site, data=services.site_export(parts.site))
    services.site_clone(actor=parts.admin, site=parts.site, name="copy")
    assert parts.version() == before


def test_password_in_a_definition_counts(parts: Parts) -> None:
    hashed = {"ann": "$2y$05$" + "a" * 53}
    values = {"basic_auth_realm": "shop", "basic_auth_users": hashed}
    services.location_update(actor=parts.admin, location=parts.location, **values)
    before = parts.version()
    data = services.site_export(parts.site, with_secrets=True)
    data["blocks"][0]["locations"][0]["basic_auth_users"] = {"ann": "$2y$05$" + "b" * 53}
    services.site_define(actor=parts.admin, site=parts.site, data=data)
    assert parts.version() == before + 1


def test_shared_certificate_counts_for_every_site_that_uses_it(parts: Parts) -> None:
    other = services.site_create(
        actor=parts.admin,
        team=parts.site.team,
        name="blog",
        domains=["blog.example"],
        web_server=parts.people.nginx,
        certificate=parts.certificate,
        root="/srv/www/blog",
    )
    before = parts.version()
    replace_certificate(parts)
    assert parts.version() == before + 1
    assert Site.objects.get(pk=other.pk).version == other.version + 1


def test_refused_change_counts_nothing(parts: Parts) -> None:
    before = parts.version()
    with pytest.raises(Conflict):
        services.block_update(actor=parts.admin, block=parts.block, expected_version=99, autoindex=True)
    assert parts.version() == before


def test_saving_a_stale_copy_does_not_count_back(parts: Parts) -> None:
    stale = Site.objects.get(pk=parts.site.pk)
    services.block_update(actor=parts.admin, block=parts.block, autoindex=True)
    before = parts.version()
    stale.save()
    assert parts.version() == before


def test_site_that_was_never_deployed_has_no_changes_to_deploy(parts: Parts) -> None:
    assert not Site.objects.filter(IS_PENDING).exists()
