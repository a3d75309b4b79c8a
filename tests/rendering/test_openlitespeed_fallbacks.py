"""Fallbacks of try_files on OpenLiteSpeed, which chooses contexts by the rewritten path."""

from __future__ import annotations

import pytest

from panel.rendering import render
from panel.rendering.spec import Listen, Location, ServerBlock, SiteSpec, WebServerSpec

WEB_SERVER = WebServerSpec("openlitespeed", "vhosts", "/srv/lsws/conf", "/srv/lsws/log")


@pytest.mark.parametrize(
    "location",
    [
        Location("", "/own/", "static", root="/srv/www/elsewhere", try_files=("$uri", "/docs/index.html")),
        Location("", "/own/", "static", alias="/srv/www/elsewhere/", try_files=("$uri", "/docs/index.html")),
    ],
    ids=["root", "alias"],
)
def test_fallback_to_another_folder_is_a_plain_rewrite(location: Location) -> None:
    block = ServerBlock((Listen(80),), ("shop.example",), root="/srv/www", locations=(location,))
    text = "".join(file.text for file in render(SiteSpec("shop", (block,)), WEB_SERVER))
    rules = [line for line in text.splitlines() if " /docs/index.html" in line]
    assert len(rules) == 1 and rules[0].startswith("RewriteRule ^/own/") and rules[0].endswith("[PT,QSD,L]")
    assert "PADDOCK_TO" not in text
