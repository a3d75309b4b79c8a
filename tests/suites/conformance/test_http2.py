"""HTTP/2 where a site asks for it and the server has it; otherwise documented."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from panel.rendering.capabilities import differences
from panel.rendering.spec import Listen, ServerBlock, SiteSpec, TlsFiles
from tests.suites.conformance.expected_responses import fixed
from tests.suites.conformance.servers import Engine, engines, serving
from tests.support.ports import free_port
from tests.support.process import tool


def _spoken(port: int) -> str:
    """The version that a client which would speak HTTP/2 is answered in."""
    argv = [tool("curl"), "-sk", "--http2", "-o", "/dev/null", "-w", "%{http_version}", "--max-time", "60"]
    argv += ["--resolve", f"a.test:{port}:127.0.0.1", f"https://a.test:{port}/"]
    return subprocess.run(argv, capture_output=True, text=True, timeout=90, check=True).stdout


@pytest.mark.parametrize("engine", engines(), ids=lambda engine: engine.name)
def test_http2_is_served_or_documented_as_not_offered(engine: Engine, server_root: Path) -> None:
    port = free_port()
    files = TlsFiles("own", f"{server_root}/tls/own.crt", f"{server_root}/tls/own.key")
    block = ServerBlock(
        (Listen(port, tls=True, http2=True),), ("a.test",), tls=files, locations=(fixed("", "/", "text"),)
    )
    spec = SiteSpec("http2", (block,))
    plain = free_port()
    door = SiteSpec("door", (ServerBlock((Listen(plain),), ("b.test",), locations=(fixed("", "/", "open"),)),))
    with serving(engine, [spec, door], server_root, plain) as web_server:
        missing = [item for item in differences(spec, web_server) if item.severity == "not_offered"]
        assert _spoken(port) == ("1.1" if missing else "2")
        assert bool(missing) == (engine.name == "apache-prefork")
