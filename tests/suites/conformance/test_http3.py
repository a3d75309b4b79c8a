"""HTTP/3 and Alt-Svc where a site asks for it and the server has it; otherwise documented."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from panel.rendering.capabilities import differences
from panel.rendering.spec import Listen, ServerBlock, SiteSpec, TlsFiles
from tests.suites.conformance.compare import answers
from tests.suites.conformance.expected_responses import fixed
from tests.suites.conformance.servers import Engine, engines, serving
from tests.suites.conformance.wire import Connection, Request
from tests.support.bundled_programs import load_binary
from tests.support.ports import free_port


def _by_http3(port: int) -> dict[str, int]:
    """How the bundled load generator's requests over QUIC ended, by GET and HEAD in turn."""
    page = f"https://a.test:{port}/page"
    argv = [str(load_binary()), "--h3", "--json", "-n", "5", "-c", "1", page, f"HEAD {page}"]
    argv += ["--connect-to", f"127.0.0.1:{port}"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    return {kind: count for kind, count in json.loads(done.stdout)["statuses"].items() if count}


def _announced(engine: Engine, port: int) -> str:
    """OpenLiteSpeed's own words are a documented difference."""
    if engine.engine == "openlitespeed":
        return f'h3=":{port}"; ma=2592000, h3-29=":{port}"; ma=2592000'
    return f'h3=":{port}"; ma=86400'


@pytest.mark.parametrize("engine", engines(), ids=lambda engine: engine.name)
def test_http3_is_served_or_documented_as_not_offered(engine: Engine, server_root: Path) -> None:
    port, plain = free_port(), free_port()
    files = TlsFiles("own", f"{server_root}/tls/own.crt", f"{server_root}/tls/own.key")
    listens = (Listen(port, tls=True, http2=True, http3=True, default_server=True), Listen(plain))
    block = ServerBlock(listens, ("a.test",), tls=files, locations=(fixed("", "/", "text"),))
    spec = SiteSpec("http3", (block,))
    with serving(engine, [spec], server_root, plain) as web_server:
        rows = {item.severity for item in differences(spec, web_server) if item.field.endswith("/http3")}
        offered = "not_offered" not in rows
        assert ("different" in rows) == (engine.engine == "openlitespeed")
        (answer,) = answers(Connection(port, tls_name="a.test"), [Request("/page")])
        assert (answer.status, answer.body) == (200, b"text")
        assert answer.headers.get("alt-svc", "") == (_announced(engine, port) if offered else "")
        assert offered == (engine.engine in ("native", "openlitespeed"))
        if offered:
            assert _by_http3(port) == {"2xx": 5}
