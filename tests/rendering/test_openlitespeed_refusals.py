"""OpenLiteSpeed's rules that refuse methods and resolve paths."""

from __future__ import annotations

from dataclasses import replace

from panel.rendering import render
from panel.rendering.spec import (
    Header,
    Listen,
    Location,
    ServerBlock,
    SiteSpec,
    Upstream,
    UpstreamServer,
    WebServerSpec,
)

WEB_SERVER = WebServerSpec("openlitespeed", "vhosts", "/srv/lsws/conf", "/srv/lsws/log")
BLOCK = ServerBlock((Listen(80),), ("shop.example",), root="/srv/www", headers=(Header("X-One", "a"),))
TEXT = Location("~", r"\.txt$", "static", headers=(Header("X-Two", "b"),))
APP = Location("", "/", "proxy", upstream="app")


def rendered(block: ServerBlock) -> str:
    spec = SiteSpec("shop", (block,), upstreams=(Upstream("app", (UpstreamServer("127.0.0.1:8000"),)),))
    return "".join(file.text for file in render(spec, WEB_SERVER))


def test_contexts_refuse_methods_where_headers_are_sent() -> None:
    text = rendered(replace(BLOCK, locations=(TEXT,)))
    assert "[E=PADDOCK_REFUSED:1,L]" in text
    assert text.count('RewriteCond "%{ENV:PADDOCK_REFUSED}" =1') == 2  # the context / and that of the texts


def test_virtual_host_refuses_methods_without_headers() -> None:
    text = rendered(replace(BLOCK, headers=()))
    assert "PADDOCK_REFUSED" not in text and "[R=405,L]" in text


def test_virtual_host_refuses_methods_beside_raw_rules_of_a_location() -> None:
    raw = replace(TEXT, snippet="rewrite {\n  enable 1\n}\n")
    text = rendered(replace(BLOCK, locations=(raw,)))
    assert "PADDOCK_REFUSED" not in text and "[R=405,L]" in text


def test_site_of_an_application_has_no_rules_of_files() -> None:
    text = rendered(replace(BLOCK, locations=(APP,)))
    assert "PADDOCK_REFUSED" not in text and "as nginx resolves them" not in text


def test_paths_of_applications_stay_as_they_came() -> None:
    text = rendered(replace(BLOCK, locations=(replace(APP, pattern="/app/"),)))
    before, found, _ = text.partition('\\.\\.)$" $1')
    assert found and before.splitlines()[-2] == "RewriteCond $1 !^(?=/app/)"
