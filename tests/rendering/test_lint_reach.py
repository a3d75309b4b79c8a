"""Warnings about protection that does not protect, and about locations that never win."""

from __future__ import annotations

import pytest

from panel.rendering.lint import findings
from panel.rendering.spec import AccessRule, BasicAuth, Listen, Location, ServerBlock, SiteSpec, WebServerSpec

SERVER = WebServerSpec("nginx", "sites", "/etc/nginx", "/var/log/nginx")
AUTH = BasicAuth("Members", (("ann", "$2y$12$x"),), "/etc/nginx/htpasswd")
PHP = Location("~", r"\.php$", "php", php_pool="php")


def codes(*locations: Location) -> dict[str, str]:
    """Code of each warning of this module, with its text."""
    block = ServerBlock((Listen(80, default_server=True),), ("a.example",), root="/srv", locations=locations)
    rows = findings(SiteSpec("shop", (block,)), SERVER)
    return {row.code: row.what for row in rows if row.code in ("never-chosen", "protection-bypassed", "redirect-loop")}


@pytest.mark.parametrize(
    ("locations", "code"),
    [
        ((Location("", "/wp-admin/", "static", basic_auth=AUTH), PHP), "protection-bypassed"),
        ((Location("", "/uploads/", "deny"), PHP), "protection-bypassed"),
        ((Location("", "/in/", "static", access_rules=(AccessRule("deny", "all"),)), PHP), "protection-bypassed"),
        ((Location("~", r"^/a", "static"), Location("~", r"^/ab", "static")), "never-chosen"),
        ((Location("", "/old", "return", return_code=301, return_value="/old/new"),), "redirect-loop"),
        ((Location("=", "/a", "return", return_code=302, return_value="/a"),), "redirect-loop"),
        ((Location("", "/", "return", return_code=301, return_value="$scheme://$host$request_uri"),), "redirect-loop"),
    ],
)
def test_lint_warns_about_unreached_locations(locations: tuple[Location, ...], code: str) -> None:
    assert list(codes(*locations)) == [code]


@pytest.mark.parametrize(
    "locations",
    [
        (Location("^~", "/wp-admin/", "static", basic_auth=AUTH), PHP),
        (Location("^~", "/uploads/", "deny"), PHP),
        (Location("", "/", "static"), PHP),
        (Location("", "/uploads/", "static"), Location("~*", r"^/uploads/.*\.php$", "deny"), PHP),
        (Location("", "/old", "return", return_code=301, return_value="/new"),),
        (Location("=", "/a", "return", return_code=301, return_value="/a/b"),),
    ],
)
def test_lint_is_silent_about_reached_locations(locations: tuple[Location, ...]) -> None:
    assert codes(*locations) == {}
