"""The protocol of an upstream in what is rendered, explained, and warned about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from panel.rendering import render, render_web_server
from panel.rendering.errors import NotExpressible
from panel.rendering.explain import Request, explain
from panel.rendering.lint import findings
from panel.rendering.spec import SiteSpec
from tests.rendering.cases import HTTP, WEB_SERVERS, grpc, uwsgi


def test_warning_appears_only_without_http2() -> None:
    def codes(spec: SiteSpec) -> list[str]:
        return [item.code for item in findings(spec, WEB_SERVERS["nginx"])]

    assert "grpc-http2" not in codes(grpc())
    assert "grpc-http2" not in codes(uwsgi())
    plain = replace(grpc(), blocks=(replace(grpc().blocks[0], listens=HTTP),))
    assert codes(plain).count("grpc-http2") == 2


@pytest.mark.parametrize(
    ("spec", "request_", "words"),
    [
        (
            grpc(),
            Request("https", "api.example", 443, "/shop.Orders/Get"),
            "/shop.Orders/Get at app (127.0.0.1:50051) as a gRPC call",
        ),
        (uwsgi(), Request("http", "python.example", 80, "/x"), "/x at app (unix:/run/app.sock) by the uwsgi protocol"),
    ],
)
def test_explanation_names_protocol(spec: SiteSpec, request_: Request, words: str) -> None:
    assert explain([spec], request_).outcome.text == words


@pytest.mark.parametrize(("spec", "module"), [(uwsgi(), "proxy_uwsgi"), (grpc(), "proxy_http2")])
def test_apache_loads_module_of_protocol(spec: SiteSpec, module: str) -> None:
    web_server = replace(WEB_SERVERS["apache"], modules=frozenset({"proxy", "proxy_http"}))
    links = [file.path for file in render_web_server([spec], web_server)]
    assert f"/etc/apache2/mods-enabled/{module}.load" in links


def test_apache_refuses_grpc_with_prefork() -> None:
    with pytest.raises(NotExpressible, match="prefork") as caught:
        render(grpc(), replace(WEB_SERVERS["apache"], modules=frozenset({"mpm_prefork"})))
    assert caught.value.field == "/blocks/0/locations/1/upstream_protocol"


@pytest.mark.parametrize(
    ("spec", "engine", "field"),
    [
        (grpc(), "openlitespeed", "/blocks/0/locations/1/upstream_protocol"),
        (uwsgi(), "openlitespeed", "/blocks/0/locations/0/upstream_protocol"),
    ],
)
def test_unsupported_protocol_is_refused_at_its_field(spec: SiteSpec, engine: str, field: str) -> None:
    with pytest.raises(NotExpressible) as caught:
        render(spec, WEB_SERVERS[engine])
    assert caught.value.field == field
