"""Broken and greedy clients against the panel's web process and against gallop."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.suites.attack import floods
from tests.suites.attack.figures import record
from tests.support.gallop import GallopInstance
from tests.support.ports import free_port
from tests.support.process import ServerProcess

CONNECTIONS = 800 if floods.is_long() else 150
BODY_MB = 64 if floods.is_long() else 16


def told(target: floods.Target) -> None:
    record(
        f"floods at {target.name}",
        doors=len(target.attacks),
        requests=target.requests,
        findings=target.findings,
    )
    assert not target.findings, "\n".join(target.findings)


@pytest.fixture
def panel(tmp_path: Path) -> Iterator[floods.Target]:
    """The web process as `make run` starts it; its database is empty, which nobody without a token comes to."""
    port = free_port()
    argv = [sys.executable, "-m", "uvicorn", "panel.asgi:application", "--host", "127.0.0.1", "--port", str(port)]
    home = tmp_path / "home"
    (home / "static").mkdir(parents=True)
    env = {"PADDOCK_HOME": str(home), "PADDOCK_STATIC_MANIFEST": "0"}
    server = ServerProcess([*argv, "--no-access-log", "--lifespan", "off"], tmp_path / "web.log", env=env).start()
    try:
        server.wait_for_port(port)
        pid = server.process.pid if server.process else os.getpid()
        yield floods.Target("the panel", port, "/healthz", lambda: floods.family(pid), growth_mb=160)
    finally:
        server.stop()


def test_panel_serves_others_during_floods(panel: floods.Target) -> None:
    assert floods.answered(panel.port, panel.path) == ""
    before = floods.resident_mb(panel.pids())
    floods.http1(panel, before, CONNECTIONS)
    for path in ("/api/v1/sites/", "/login/"):
        floods.attack(panel, f"a body for {path}", lambda path=path: floods.greedy(panel.port, path, BODY_MB), before)  # type: ignore[misc]
    told(panel)


@pytest.fixture
def gallop(server_root: Path) -> Iterator[floods.Target]:
    server, port = GallopInstance(server_root), free_port()
    (server_root / "www" / "index.html").write_text("here")
    block = f"server {{ listen 127.0.0.1:{port}; http2 on; root {server_root}/www; client_header_timeout 10s; }}"
    (server_root / "conf.d" / "site.conf").write_text(block)
    main = server.main_config.read_text()
    assert "worker_connections 256;" in main
    server.main_config.write_text(main.replace("worker_connections 256;", "worker_connections 4096;"))  # as Paddock's
    server.start()
    try:
        yield floods.Target("gallop", port, "/", lambda: floods.family(server.pid or 0), growth_mb=64)
    finally:
        server.stop()


def test_gallop_serves_others_during_floods(gallop: floods.Target) -> None:
    assert floods.answered(gallop.port, gallop.path) == ""
    usual = floods.PREFACE + floods.frame(floods.SETTINGS, 0, 0) + floods.frame(floods.HEADERS, 5, 1, floods.REQUEST)
    assert b"here" in floods.thrown(gallop.port, usual), "the frames below must reach a server of HTTP/2"
    before = floods.resident_mb(gallop.pids())
    floods.http1(gallop, before, CONNECTIONS)
    for seed in range(10 if floods.is_long() else 1):
        floods.http2(gallop, before, seed)
    told(gallop)
