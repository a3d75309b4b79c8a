"""Limits of requests and connections per address; documented where a server has none."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from panel.rendering.capabilities import differences
from panel.rendering.spec import Location, RateLimit, SiteSpec
from tests.suites.conformance.compare import answers
from tests.suites.conformance.expected_responses import fixed, one
from tests.suites.conformance.servers import Engine, engines, serving
from tests.suites.conformance.wire import Request
from tests.suites.conformance.world import world
from tests.support.waiting import eventually

COUNT = 30
WITHOUT = ("apache", "openlitespeed")  # those that cannot limit one location's visitors


def _at_once(port: int, path: str) -> list[int]:
    """The statuses of requests that are sent in one go, so that no machine is too slow for the limit."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        request = f"GET {path} HTTP/1.1\r\nHost: a.test\r\n"
        client.sendall((f"{request}\r\n" * (COUNT - 1) + f"{request}Connection: close\r\n\r\n").encode())
        said = b""
        while data := client.recv(65536):
            said += data
    return [int(part[:3]) for part in said.split(b"HTTP/1.1 ")[1:]]


def _offers(spec: SiteSpec, web_server: object, field: str) -> bool:
    return not [item for item in differences(spec, web_server) if item.field.endswith(field)]  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", engines(), ids=lambda engine: engine.name)
def test_request_rate_limit_is_enforced_or_documented_as_not_offered(engine: Engine, server_root: Path) -> None:
    with world(server_root, {"limited/a.txt": "a", "free/a.txt": "a"}) as here:
        limited = Location("", "/limited/", "static", rate_limit=RateLimit(1, burst=2))
        spec = one(here, "rates", limited, Location("", "/free/", "static"))
        with serving(engine, [spec], server_root, here.port) as web_server:
            statuses = _at_once(here.port, "/limited/a.txt")
            assert len(statuses) == COUNT
            assert statuses[:3] == [200] * 3  # one, and the burst
            assert (429 in statuses) == _offers(spec, web_server, "/rate_limit") == (engine.engine not in WITHOUT)
            assert set(statuses) <= {200, 429}
            assert _at_once(here.port, "/free/a.txt") == [200] * COUNT


@pytest.mark.parametrize("engine", engines(), ids=lambda engine: engine.name)
def test_connection_limit_is_enforced_until_one_closes(engine: Engine, server_root: Path) -> None:
    with world(server_root, {}) as here:
        limited = Location("", "/limited/", "proxy", upstream="app", connection_limit=1, read_timeout_s=60)
        spec = one(here, "connections", limited, fixed("", "/", "free"))
        with serving(engine, [spec], server_root, here.port) as web_server:
            offers = _offers(spec, web_server, "/connection_limit")
            assert offers == (engine.engine not in WITHOUT)

            def status() -> int:
                return answers(here.port, [Request("/limited/x")])[0].status

            if not offers:
                assert status() == 200
                return
            with socket.create_connection(("127.0.0.1", here.port), timeout=60) as first:
                first.sendall(b"GET /limited/slow HTTP/1.1\r\nHost: a.test\r\n\r\n")  # answered after half a minute
                assert eventually(lambda: status() == 429, timeout_s=25)
                assert answers(here.port, [Request("/")])[0].status == 200
            assert eventually(lambda: status() == 200, timeout_s=60)
