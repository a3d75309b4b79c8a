"""Listeners of OpenLiteSpeed's own files: reused as they are, or rejected on conflict."""

from __future__ import annotations

import pytest

from panel.rendering import render_web_server
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import Listen, OwnListener, ServerBlock, SiteSpec, WebServerSpec

OWN = (
    OwnListener("Default", "", 80, False, "address *:80\nsecure 0\nmap old *"),
    OwnListener("Both", "::", 8080, False, "address [ANY]:8080\nsecure 0"),
    OwnListener("Secure", "", 443, True, "address *:443\nsecure 1\nkeyFile /k\ncertFile /c"),
    OwnListener("One", "192.0.2.1", 81, False, "address 192.0.2.1:81\nsecure 0"),
)


def rendered(*listens: Listen) -> str:
    web_server = WebServerSpec("openlitespeed", "vhosts", "/srv/conf", "/srv/log", own_listeners=OWN)
    files = render_web_server([SiteSpec("shop", (ServerBlock(listens, ("shop.test",)),))], web_server)
    return next(file.text for file in files if file.path == "/srv/conf/paddock.conf")


@pytest.mark.parametrize(
    ("listen", "words"),
    [
        (Listen(80, tls=True), "the web server's own listener Default already uses port 80 without TLS"),
        (Listen(443), "the web server's own listener Secure already uses port 443 with TLS"),
        (Listen(8080, tls=True), "the web server's own listener Both already uses port 8080 without TLS"),
        (Listen(80, address="::"), "the web server's own listener Default already uses port 80 for IPv4 only"),
    ],
)
def test_listener_conflict_is_reported_at_site_field(listen: Listen, words: str) -> None:
    with pytest.raises(NotExpressible) as refused:
        rendered(listen)
    assert refused.value.field == "/blocks/0/listens"
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("listen", "name", "address"),
    [
        (Listen(80), "Default", "*:80"),
        (Listen(8080), "Both", "[ANY]:8080"),
        (Listen(8080, address="::"), "Both", "[ANY]:8080"),
        (Listen(81, address="192.0.2.1"), "One", "192.0.2.1:81"),
    ],
)
def test_existing_listener_with_same_socket_is_reused(listen: Listen, name: str, address: str) -> None:
    text = rendered(listen)
    assert text.count("\nlistener ") == 1
    assert f"listener {name} {{" in text
    assert f"address {address}" in text
    assert "map shop shop.test" in text


def test_new_socket_gets_panel_listener() -> None:
    text = rendered(Listen(8081))
    assert "listener paddock_any_8081 {" in text
    assert "Default" not in text
