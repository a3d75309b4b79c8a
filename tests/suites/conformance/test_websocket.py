"""An upgraded connection passes bytes both ways until one side closes it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from panel.rendering.spec import Location
from tests.suites.conformance.expected_responses import one
from tests.suites.conformance.servers import Engine, engines, serving
from tests.suites.conformance.world import world

UPGRADE = (
    "GET /socket/x HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@pytest.mark.parametrize("engine", engines(), ids=lambda engine: engine.name)
def test_websocket_passes_bytes_both_ways(engine: Engine, server_root: Path) -> None:
    with world(server_root, {}) as here:
        spec = one(here, "socket", Location("", "/socket/", "proxy", upstream="app", websocket=True))
        with (
            serving(engine, [spec], server_root, here.port),
            socket.create_connection(("127.0.0.1", here.port), timeout=60) as client,
        ):
            client.sendall(UPGRADE.encode())
            said = b""
            while b"\r\n\r\n" not in said:
                data = client.recv(65536)
                assert data, said
                said += data
            assert said.startswith(b"HTTP/1.1 101 ")
            client.sendall(b"hello\n")
            while data := client.recv(65536):
                said += data
            assert said.partition(b"\r\n\r\n")[2] == b"HELLO\n"
