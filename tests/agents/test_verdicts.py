"""Whether a site is worse than before, judged from what was observed."""

from __future__ import annotations

from typing import Any

import pytest

from agents.host import busiest, verdict
from agents.host.request import check_probe


def check(**values: Any) -> dict[str, Any]:
    return check_probe({"address": "127.0.0.1", "port": 443, "host": "a.example", "tls": True} | values)


def seen(status: int, **values: Any) -> dict[str, Any]:
    return {"status": status, "connected": True} | values


CLOSED = {"status": 0, "connected": False, "error": "Connection refused"}


@pytest.mark.parametrize(
    ("values", "before", "after", "expected"),
    [
        ({}, seen(200), seen(200), "right"),
        ({}, seen(200), seen(404), "worse"),
        ({}, seen(404), seen(502), "worse"),
        ({}, seen(502), seen(502), "same"),
        ({}, seen(502), seen(404), "same"),
        ({}, seen(502), seen(200), "changed"),
        ({}, CLOSED, CLOSED, "same"),
        ({}, seen(200), CLOSED, "worse"),
        ({}, None, seen(502), "waits"),
        ({}, None, seen(200), "right"),
        ({}, None, CLOSED, "worse"),
        ({"required": True}, None, seen(404), "worse"),
        ({"kind": "location"}, seen(404), seen(404), "right"),
        ({"kind": "location", "new": True}, seen(404), seen(502), "waits"),
        ({"kind": "location", "new": True}, seen(200), seen(502), "worse"),
        ({"intended": [401]}, seen(200), seen(401), "right"),
        ({"status": 204}, seen(204), seen(200), "worse"),
        ({"status": 404}, seen(404), seen(404), "right"),
        ({"text": "ok"}, seen(200, found=True), seen(200, found=False), "worse"),
        ({"kind": "other"}, seen(404), seen(403), "worse"),
        ({"kind": "takeover", "exact": True}, seen(200), seen(204), "worse"),
        ({"kind": "takeover", "exact": True, "path": "/a"}, seen(404), seen(301, to="https://a.example/a/"), "changed"),
        ({"kind": "takeover", "exact": True, "path": "/a"}, seen(404), seen(301, to="https://a.example/b/"), "worse"),
        ({"kind": "takeover", "exact": True, "path": "/a"}, seen(200), seen(301, to="/a/"), "worse"),
        ({}, seen(302, to="/login"), seen(302, to="https://a.example/login"), "changed"),
        ({}, seen(302, to="/login"), seen(302, to="http://127.0.0.1:8000/login"), "worse"),
        ({}, seen(200), seen(302, to="https://a.example/"), "worse"),
        ({"names": ["www.a.example"]}, seen(200), seen(301, to="https://www.a.example/"), "changed"),
        ({"certificate": "new"}, seen(200, certificate="old"), seen(200, certificate="new"), "changed"),
        ({"certificate": "new"}, seen(200, certificate="old"), seen(200, certificate="other"), "worse"),
        ({"http2": True}, seen(200, alpn="h2"), seen(200, alpn="http/1.1"), "worse"),
    ],
)
def test_verdict_compares_with_before(
    values: dict[str, Any], before: dict[str, Any] | None, after: dict[str, Any], expected: str
) -> None:
    assert verdict.judge(check(**values), before, after)[0] == expected


@pytest.mark.parametrize(
    ("values", "before", "after", "has_hint"),
    [
        ({"kind": "location", "intended": [403]}, None, seen(403), False),
        ({"kind": "location", "intended": [403]}, seen(200), seen(403), False),
        ({"kind": "location"}, None, seen(404), False),
        ({}, None, seen(403), True),
        ({}, seen(200), seen(404), True),
        ({}, seen(404), seen(404), False),
        ({"kind": "location"}, None, seen(502), True),
    ],
)
def test_words_ask_about_the_cause_only_where_an_answer_is_unwanted(
    values: dict[str, Any], before: dict[str, Any] | None, after: dict[str, Any], has_hint: bool
) -> None:
    assert verdict.judge(check(**values), before, after)[1].endswith("?)") is has_hint


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ('1.2.3.4 - - [x] "GET /a?token=1 HTTP/1.1" 200 5 "-" "curl"', "/a"),
        ('1.2.3.4 - - [x] "HEAD /a HTTP/1.1" 304 5', "/a"),
        ('{"time":"x","user":"","request":"GET /b HTTP/2.0","status":200,"bytes":1}', "/b"),
        ('1.2.3.4 - - [x] "POST /a HTTP/1.1" 200 5 "-" "curl"', ""),
        ('1.2.3.4 - - [x] "GET /a HTTP/1.1" 404 5 "-" "curl"', ""),
        ('1.2.3.4 - - [x] "GET /reset/a1b2c3d4e5f6a7b8c9d0 HTTP/1.1" 200 5 "-" "curl"', ""),
        (
            '1.2.3.4 - - [x] "GET /app.3f2a1b9c3f2a1b9c3f2a.js HTTP/1.1" 200 5 "-" "curl"',
            "/app.3f2a1b9c3f2a1b9c3f2a.js",
        ),
        ('1.2.3.4 - - [x] "GET /a%0d%0aX HTTP/1.1" 200 5 "-" "curl"', ""),
        ('1.2.3.4 - - [x] "GET /a HTTP/1.1" 200 5 "-" "paddock-probe"', ""),
        ('1.2.3.4 - - [x] "\\x16\\x03" 400 5 "-" "-"', ""),
        ("", ""),
    ],
)
def test_busiest_takes_addresses_that_were_answered_well(line: str, path: str) -> None:
    assert busiest.address_of(line.encode()) == path
