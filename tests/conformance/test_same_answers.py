"""One definition, the same answers on nginx, Apache and gallop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from panel.rendering.spec import SiteSpec
from tests.conformance.servers import ENGINES, serving
from tests.conformance.sites import FILES, SITES, Expected, World
from tests.support.http import ask
from tests.support.php import PhpFpm
from tests.support.ports import free_port

Site = Callable[[World], tuple[SiteSpec, list[Expected]]]


class Echo(BaseHTTPRequestHandler):
    """Says what reached it."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        got = {name: self.headers.get(name, "-") for name in ("Host", "X-Real-IP", "X-Forwarded-Proto", "X-Own")}
        text = f"{self.command} {self.path} " + " ".join(
            f"{label}={value}" for label, value in zip(("host", "ip", "proto", "own"), got.values(), strict=True)
        )
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    do_DELETE = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def world(server_root: Path) -> Iterator[World]:
    for name, text in FILES.items():
        path = server_root / "www" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    backend = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=backend.serve_forever, daemon=True).start()
    with PhpFpm(server_root / "fpm") as fpm:
        yield World(free_port(), str(server_root / "www"), f"127.0.0.1:{backend.server_port}", fpm.address)
    backend.shutdown()
    backend.server_close()


@pytest.mark.parametrize("site", SITES, ids=lambda site: site.__name__)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_site_answers_as_expected(engine: str, site: Site, world: World, server_root: Path) -> None:
    spec, requests = site(world)
    wrong: list[str] = []
    with serving(engine, spec, server_root, world.port):
        for expected in requests:
            answer = ask(world.port, expected.path, host=expected.host, headers=expected.sent, method=expected.method)
            got = {name: answer.headers.get(name, "") for name in expected.headers}
            where = f"{expected.method} {expected.path} of {expected.host}"
            if answer.status != expected.status:
                wrong.append(f"{where}: {answer.status}, not {expected.status}: {answer.text[:200]}")
            elif expected.body is not None and answer.text != expected.body:
                wrong.append(f"{where}: {answer.text[:200]!r}, not {expected.body!r}")
            elif got != expected.headers:
                wrong.append(f"{where}: {got}, not {expected.headers}")
    assert not wrong, "\n".join(wrong)
