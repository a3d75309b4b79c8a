"""gRPC and uWSGI applications behind each web server that can reach them; the others refuse the site."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from panel.rendering import render
from panel.rendering.capabilities import differences
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import (
    Cache,
    CacheTime,
    Header,
    Listen,
    Location,
    ServerBlock,
    SiteSpec,
    TlsFiles,
    Upstream,
    UpstreamServer,
)
from tests.suites.conformance.servers import Engine, engines, serving
from tests.suites.conformance.wire import Connection, Request
from tests.support.grpc_server import GrpcServer, call, message
from tests.support.ports import free_port
from tests.support.uwsgi import UwsgiServer

EACH = pytest.mark.parametrize("engine", engines(), ids=lambda engine: engine.name)
REFUSES = {"uwsgi": ("openlitespeed",), "grpc": ("openlitespeed", "apache-prefork")}
UWSGI = pytest.mark.parametrize(
    "engine", [item for item in engines() if item.name not in REFUSES["uwsgi"]], ids=lambda engine: engine.name
)
GRPC = pytest.mark.parametrize(
    "engine", [item for item in engines() if item.name not in REFUSES["grpc"]], ids=lambda engine: engine.name
)


def _is_refused(engine: Engine, spec: SiteSpec, protocol: str, root: Path) -> bool:
    """Whether the engine must refuse the site; asserts that it does, and that the editor says so."""
    if engine.name not in REFUSES[protocol]:
        return False
    web_server = engine.web_server(root, root / engine.name, "")
    with pytest.raises(NotExpressible) as caught:
        render(spec, web_server)
    assert caught.value.field.endswith("/upstream_protocol")
    found = [item for item in differences(spec, web_server) if item.field.endswith("/upstream_protocol")]
    assert ("not_offered", caught.value.message) in [(item.severity, item.what) for item in found]
    return True


def _site(port: int, addresses: tuple[str, ...], *locations: Location, **more: Any) -> SiteSpec:
    block = ServerBlock((Listen(port),), ("a.test",), locations=locations, **more)
    return SiteSpec("apps", (block,), (Upstream("app", tuple(map(UpstreamServer, addresses))),))


def _uwsgi(pattern: str = "/", **more: Any) -> Location:
    return Location("", pattern, "proxy", upstream="app", upstream_protocol="uwsgi", **more)


def _said(port: int, path: str, **more: Any) -> dict[str, Any]:
    connection = Connection(port, timeout_s=60)
    try:
        answer = connection.ask(Request(path, host="a.test", **more))
    finally:
        connection.close()
    assert answer.status == 200, (answer.status, answer.body)
    found: dict[str, Any] = json.loads(answer.body)
    return found


@EACH
def test_uwsgi_application_receives_request_or_site_is_refused(engine: Engine, server_root: Path) -> None:
    port = free_port()
    if _is_refused(engine, _site(port, ("127.0.0.1:1",), _uwsgi()), "uwsgi", server_root):
        return
    with UwsgiServer(server_root / "app") as app:
        own = _uwsgi("/own/", request_headers=(Header("X-Own", "ours"),))
        with serving(engine, [_site(port, (app.address,), _uwsgi(), own)], server_root, port):
            found = _said(port, "/shop/a%20b?x=1&y=%2F")
            posted = _said(port, "/own/x", method="POST", body="four")
    expected = {
        "REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": "/shop/a b", "QUERY_STRING": "x=1&y=%2F",
        "REQUEST_URI": "/shop/a%20b?x=1&y=%2F", "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1",
        "SERVER_PORT": str(port), "HTTP_HOST": "a.test", "scheme": "http", "body": 0,
    }  # fmt: skip
    assert {name: found.get(name, "") for name in expected} == expected
    assert (posted["REQUEST_METHOD"], posted["PATH_INFO"], posted["body"]) == ("POST", "/own/x", 4)
    assert posted["HTTP_X_OWN"] == "ours"


@UWSGI
def test_uwsgi_is_reached_by_socket_and_among_several_servers(engine: Engine, server_root: Path) -> None:
    port, other = free_port(), free_port()
    socket = server_root / "app.sock"
    with UwsgiServer(server_root / "one") as one, UwsgiServer(server_root / "two", socket) as two:
        alone = _site(port, (two.address,), _uwsgi())
        both = replace(_site(other, (one.address, two.address), _uwsgi()), name="both")
        with serving(engine, [alone, both], server_root, port):
            assert _said(port, "/alone")["PATH_INFO"] == "/alone"
            assert {_said(other, f"/both/{number}")["PATH_INFO"] for number in range(6)} == {
                f"/both/{number}" for number in range(6)
            }


@UWSGI
def test_uwsgi_responses_are_cached(engine: Engine, server_root: Path) -> None:
    port = free_port()
    with UwsgiServer(server_root / "app") as app:
        cached = _uwsgi("/kept/", cache=Cache((CacheTime((200, 301, 302), 60),)))
        with serving(engine, [_site(port, (app.address,), _uwsgi(), cached)], server_root, port):
            assert [_said(port, "/kept/x")["times"] for _ in range(3)] == [1, 1, 1]
            assert [_said(port, "/x")["times"] for _ in range(3)] == [1, 2, 3]


def _grpc_site(root: Path, plain: int, port: int, *addresses: str, tls: bool = False) -> SiteSpec:
    files = TlsFiles("own", f"{root}/tls/own.crt", f"{root}/tls/own.key")
    place = Location("", "/shop.Orders/", "proxy", upstream="app", upstream_protocol="grpc", upstream_tls=tls)
    block = ServerBlock((Listen(plain), Listen(port, tls=True, http2=True)), ("a.test",), tls=files, locations=(place,))
    return SiteSpec("calls", (block,), (Upstream("app", tuple(map(UpstreamServer, addresses))),))


@EACH
def test_grpc_call_passes_with_trailers_or_site_is_refused(engine: Engine, server_root: Path) -> None:
    plain, port = free_port(), free_port()
    with GrpcServer() as app:
        spec = _grpc_site(server_root, plain, port, app.address)
        if _is_refused(engine, spec, "grpc", server_root):
            return
        other = free_port()
        both = _grpc_site(server_root, free_port(), other, app.address, app.address.replace("127.0.0.1", "127.0.0.2"))
        with serving(engine, [spec, replace(both, name="both")], server_root, plain):
            answers = [call(port, "a.test", "/shop.Orders/Get", text) for text in (b"hello", b"x" * 9000 + b"y")]
            balanced = [call(other, "a.test", "/shop.Orders/Get", b"hello") for _ in range(4)]
            assert not app.server.faults
    assert [answer.body for answer in balanced] == [message(b"olleh")] * 4
    assert [answer.body for answer in answers] == [message(b"olleh"), message(b"y" + b"x" * 9000)]
    for answer in answers:
        assert answer.fields["content-type"] == "application/grpc"
        assert (answer.fields["grpc-status"], answer.fields["grpc-message"]) == ("0", "reversed")


@GRPC
def test_grpc_call_passes_over_tls_to_the_upstream(engine: Engine, server_root: Path) -> None:
    plain, port = free_port(), free_port()
    with GrpcServer("a.test", server_root / "app") as app:
        spec = _grpc_site(server_root, plain, port, app.address, tls=True)
        with serving(engine, [spec], server_root, plain):
            answer = call(port, "a.test", "/shop.Orders/Get", b"hello")
    assert (answer.fields.get("grpc-status"), answer.body) == ("0", message(b"olleh")), answer
