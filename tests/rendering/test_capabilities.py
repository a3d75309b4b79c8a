"""The settings that a web server cannot express follow from a table with every field of SiteSpec."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from panel.rendering import spec as spec_module
from panel.rendering.capabilities import OFFERS, READ_BY, TABLE, Difference, differences, overview
from panel.rendering.spec import (
    AccessRule,
    Header,
    Listen,
    Location,
    RateLimit,
    ServerBlock,
    SiteSpec,
    TlsFiles,
    Upstream,
    UpstreamServer,
    WebServerSpec,
)
from tests.rendering.cases import CASES, WEB_SERVERS, limits, names, tls
from tests.rendering.hostile import block, located, site

OUTSIDE = {"LocalServices", "WebServerSpec", "OwnListener", "RenderedFile"}


def found(spec: SiteSpec, engine: str) -> dict[str, Difference]:
    return {item.field: item for item in differences(spec, WEB_SERVERS[engine])}


def test_capability_table_covers_every_spec_field() -> None:
    kinds = [item for item in vars(spec_module).values() if dataclasses.is_dataclass(item) and isinstance(item, type)]
    members = {f"{kind.__name__}.{item.name}" for kind in kinds for item in dataclasses.fields(kind)}
    assert set(TABLE) == {member for member in members if member.split(".")[0] not in OUTSIDE}


def test_capability_rows_name_existing_fields() -> None:
    for rows in OFFERS.values():
        assert set(rows) <= set(TABLE)
    assert set(READ_BY) <= {item.name for item in dataclasses.fields(Location)}


def test_http3_depends_on_nginx_version() -> None:
    assert found(tls(), "nginx")["/blocks/0/listens/1/http3"].severity == "not_offered"
    new = WebServerSpec("nginx", "conf_d", "/etc/nginx", "/var/log", "1.27.4")
    assert not [item for item in differences(tls(), new) if item.field.endswith("http3")]


def test_apache_lacks_http3_limits_and_regex_names() -> None:
    assert found(tls(), "apache")["/blocks/0/listens/1/http3"].severity == "not_offered"
    assert {"/blocks/0/locations/0/rate_limit", "/blocks/0/locations/1/connection_limit"} <= set(
        found(limits(), "apache")
    )
    assert found(names(), "apache")["/blocks/3/names"].severity == "not_offered"


def test_openlitespeed_lacks_limits_per_location() -> None:
    where = set(found(limits(), "openlitespeed"))
    assert {"/blocks/0/locations/0/rate_limit", "/blocks/0/locations/0/client_max_body_mb"} <= where


def test_openlitespeed_index_file_access_follows_folder() -> None:
    """If the folder's location has access control, rules of the index file's own location apply to its own URL only,
    which the report says. Otherwise they apply to both."""
    deny = (AccessRule("deny", "all"),)

    def said(path: str, *of_folder: AccessRule) -> list[str]:
        own = Location("=", path, "static", access_rules=deny)
        folder = Location("", "/docs/", "static", access_rules=of_folder)
        spec = site(block(index=("index.html",), locations=(own, folder)))
        found = [
            item for item in differences(spec, WEB_SERVERS["openlitespeed"]) if item.field.endswith("access_rules")
        ]
        return [item.nearest for item in found]

    office = AccessRule("allow", "10.0.0.0/8")
    words = "the access rules of the folder's location apply; set the same rules in both locations"
    assert words in said("/docs/index.html", office, *deny)
    assert words not in said("/docs/index.html")
    assert words not in said("/docs/a.html", office, *deny)


def test_gallop_expresses_all_golden_sites() -> None:
    for case in CASES:
        assert differences(case(), WEB_SERVERS["native"]) == [], case.__name__


@pytest.mark.parametrize("engine", OFFERS)
def test_plain_site_has_no_differences(engine: str) -> None:
    assert differences(site(block(locations=(Location("", "/", "static"),))), WEB_SERVERS[engine]) == []


@pytest.mark.parametrize(
    ("location", "member"),
    [
        (Location("", "/", "static", websocket=True), "websocket"),
        (Location("", "/", "return", return_code=404, rate_limit=RateLimit(1)), "rate_limit"),
        (Location("", "/", "deny", headers=(Header("X-A", "b"),)), "headers"),
        (Location("", "/", "static", return_code=301), "return_code"),
        (Location("", "/", "return", return_code=404, access_rules=(AccessRule("deny", "all"),)), "access_rules"),
    ],
)
def test_unused_handler_fields_are_reported(location: Location, member: str) -> None:
    where = found(site(block(locations=(location,))), "nginx")
    assert where[f"/blocks/0/locations/0/{member}"].severity == "not_offered"


def test_nginx_drops_backup_servers_with_ip_hash() -> None:
    servers = (UpstreamServer("10.0.0.1:80"), UpstreamServer("10.0.0.2:80", backup=True))
    spec = site(block(), upstreams=(Upstream("up", servers, balancing="ip_hash"),))
    assert found(spec, "nginx")["/upstreams/0/servers/1/backup"].nearest == "Paddock leaves the backup server out"


def test_missing_apache_module_is_named() -> None:
    web_server = WebServerSpec(
        "apache", "conf_d", "/etc/httpd", "/var/log", "2.4.62", modules=frozenset({"alias", "allowmethods", "dir"})
    )
    spec = site(block(headers=(Header("X-A", "b"),)))
    assert [item.what for item in differences(spec, web_server)] == [
        "Apache has not loaded mod_headers, which this site needs"
    ]


def test_overview_has_verdict_for_every_engine() -> None:
    table = overview()
    assert table["Location.rate_limit"] == {
        "nginx": "same",
        "apache": "not_offered",
        "openlitespeed": "not_offered",
        "native": "same",
    }
    assert all(set(row) == set(OFFERS) for row in table.values())


def test_tls_only_listener_is_no_difference() -> None:
    secure = ServerBlock((Listen(443, tls=True),), ("a.test",), root="/srv/a", tls=TlsFiles("t", "/t.pem", "/t.key"))
    for engine in OFFERS:
        assert differences(site(secure), WEB_SERVERS[engine]) == []


def _cases() -> list[Callable[[], SiteSpec]]:
    return [*CASES, lambda: located(handler="proxy", upstream="up", websocket=True)]


@pytest.mark.parametrize("engine", OFFERS)
def test_each_difference_names_existing_settings(engine: str) -> None:
    for case in _cases():
        for item in differences(case(), WEB_SERVERS[engine]):
            value: object = spec_module.to_json(case())
            for part in item.field.split("/")[1:]:
                value = value[int(part)] if isinstance(value, list) else value[part]  # type: ignore[index]
            assert item.what and item.nearest
