"""Requests of a preview and the differences between two responses, without a server."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from panel.previews import asking, results
from panel.previews.asking import Listener, Question, Visitor, logged, questions, visitors
from panel.previews.copies import LOOPBACK, listeners, private
from panel.previews.results import Change, Difference, Heard, SiteResult, difference
from panel.rendering.spec import BasicAuth, Listen, Location, RateLimit, ServerBlock, SiteSpec, TlsFiles

PLAIN, TLS = Listener("", 80, False), Listener("", 443, True)
PORTS = {PLAIN: 20001, TLS: 20002}
OTHER_PORTS = {PLAIN: 20003, TLS: 20004}
QUESTION = Question(Visitor("shop.example", TLS), "GET", "/a")


def response(**values: Any) -> dict[str, Any]:
    return {"status": 200, "sha256": "x", "bytes": 3, "headers": {}} | values


def changes(one: dict[str, Any], two: dict[str, Any], again: dict[str, Any] | None = None) -> list[Change]:
    found = difference(QUESTION, Heard(one, "/", PORTS, again or one), Heard(two, "/", OTHER_PORTS))
    return found.changes if found else []


def test_private_ports_are_shown_as_the_sites_own() -> None:
    one = response(status=301, headers={"location": "https://shop.example:20002/b", "link": "<http://x:20001/>"})
    two = response(status=301, headers={"location": "https://shop.example:20004/b", "link": "<http://x:20003/>"})
    assert changes(one, two) == []
    moved = response(status=301, headers={"location": "https://shop.example:20004/c"})
    assert changes(one, moved)[0] == Change("redirect", "https://shop.example/b", "https://shop.example/c")


def test_values_that_change_by_themselves_are_no_difference() -> None:
    one = response(sha256="1", headers={"x-id": "1", "x-kept": "a"})
    again = response(sha256="2", headers={"x-id": "2", "x-kept": "a"})
    two = response(sha256="3", headers={"x-id": "3", "x-kept": "b"})
    assert changes(one, two, again) == [Change("header", "a", "b", "x-kept")]


def test_content_of_another_status_is_not_compared() -> None:
    assert changes(response(), response(status=404, sha256="y")) == [Change("status", "200", "404")]
    assert [change.kind for change in changes(response(), response(sha256="y"))] == ["content"]


def test_response_and_none_differ() -> None:
    assert changes({"error": "ConnectionRefusedError"}, response())[0].before == "ConnectionRefusedError"


def test_log_lines_become_requests_without_queries_and_secrets() -> None:
    lines = [
        '192.0.2.1 - - [x] "GET /a?token=1 HTTP/1.1" 200 5 "-" "x"',
        '192.0.2.1 - - [x] "GET /a HTTP/2.0" 404 5 "-" "x"',
        '{"request":"HEAD /json HTTP/1.1","status":"200"}',
        '192.0.2.1 - - [x] "POST /form HTTP/1.1" 200 5 "-" "x"',
        '192.0.2.1 - - [x] "GET /reset/9f8e7d6c5b4a39281716 HTTP/1.1" 200 5 "-" "x"',
        '192.0.2.1 - - [x] "GET //evil.example/ HTTP/1.1" 200 5 "-" "x"',
        f'127.0.0.1 - - [x] "GET /own HTTP/1.1" 200 5 "-" "{asking._OWN}"',
        "no request at all",
    ]
    assert logged(lines) == [("GET", "/a"), ("HEAD", "/json")]


@given(st.lists(st.text(max_size=80), max_size=20))
def test_any_log_gives_requests_that_can_be_sent(lines: list[str]) -> None:
    for method, path in logged([f'"GET {line} HTTP/1.1"' for line in lines]):
        assert method == "GET" and path.startswith("/") and path.isascii() and path.isprintable() and " " not in path


def site(*blocks: ServerBlock) -> SiteSpec:
    return SiteSpec("shop", blocks)


def test_every_socket_is_asked_by_a_name_that_it_serves() -> None:
    spec = site(
        ServerBlock((Listen(80), Listen(80, "::"), Listen(8443, tls=True)), ("~^x", "*.shop.example")),
        ServerBlock((Listen(80),), ("mail.*",)),
        ServerBlock((Listen(80, "192.0.2.1"),), (".blog.example", "www.blog.example")),
    )
    assert [visitor.url("/") for visitor in visitors([spec])] == [
        "http://www.shop.example/",
        "https://www.shop.example:8443/",
        "http://mail.example/",
        "http://www.blog.example/",
    ]


def test_number_of_requests_is_limited_whatever_the_log_and_the_names() -> None:
    blocks = tuple(ServerBlock((Listen(port),), (f"{port}.example",)) for port in range(8000, 8100))
    requests = [("GET", f"/{number}") for number in range(1000)]
    assert len(questions([site(*blocks)], requests)) <= asking.MOST_REQUESTS


def test_copy_is_on_private_ports_and_keeps_nothing_that_a_second_instance_cannot_share() -> None:
    location = Location(
        "",
        "/",
        "static",
        basic_auth=BasicAuth("r", (("a", "b"),), "/etc/nginx/paddock/shop/users-1.htpasswd"),
        rate_limit=RateLimit(1),
    )
    block = ServerBlock(
        (Listen(80, default_server=True), Listen(80, "::", default_server=True), Listen(443, tls=True, http3=True)),
        ("shop.example",),
        access_log="/var/log/shop.log",
        tls=TlsFiles("shop", "/etc/a.crt", "/etc/a.key"),
        locations=(location,),
    )
    spec = site(block, ServerBlock((Listen(80, default_server=True),)))
    assert listeners(spec) == [PLAIN, TLS]
    copy = private(spec, PORTS, "/bed/after")
    first, second = copy.blocks
    assert [(item.port, item.address, item.tls, item.http3) for item in first.listens] == [
        (20001, LOOPBACK, False, False),
        (20002, LOOPBACK, True, False),
    ]
    assert [item.default_server for item in (*first.listens, *second.listens)] == [True, False, False]
    assert first.access_log == "off" and first.tls and "/etc" not in first.tls.key_path
    assert first.locations[0].rate_limit is None
    assert first.locations[0].basic_auth and first.locations[0].basic_auth.path == "/bed/after/users-1.htpasswd"
    assert first.locations[0].basic_auth.users != (("a", "b"),), "hashes of the site's users stay in its own file"


def test_results_survive_their_json() -> None:
    found = [
        SiteResult("a", 3, 1, [Difference("GET", "http://a/", [Change("status", "200", "404")])], 2, "", ["note"]),
        SiteResult("b", error="why"),
    ]
    assert results.from_json(results.to_json(found)) == found
    assert found[0].count == 3
