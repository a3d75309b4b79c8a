"""gallop-load when a server, or the network, falls silent during a run."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from tests.benchmarks.test_gallop_load import load
from tests.support.gallop import GallopInstance
from tests.support.ports import free_port
from tests.support.waiting import readable

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Background:
    """A thread that goes on with `step` until the `with` block ends."""

    def __enter__(self) -> Self:
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._ending.is_set():
            self.step()

    def step(self) -> None:
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(20)
        assert not self._thread.is_alive()
        self.close()

    def close(self) -> None:
        raise NotImplementedError


class Falling(Background):
    """Answers `answers` requests, whatever connection they come by, and no more."""

    def __init__(self, answers: int) -> None:
        self._left = answers
        self._sockets = [socket.create_server(("127.0.0.1", 0))]
        self.port = self._sockets[0].getsockname()[1]

    def step(self) -> None:
        for ready in readable(self._sockets, 0.1):
            if ready is self._sockets[0]:
                self._sockets.append(ready.accept()[0])
            elif not ready.recv(65536):
                self._sockets.remove(ready)
                ready.close()
            elif self._left:
                self._left -= 1
                ready.sendall(ANSWER)

    def close(self) -> None:
        for one in self._sockets:
            one.close()


class Tunnel(Background):
    """Passes datagrams between one client and a server; after `passed` of the client's, all are lost until it begins a
    new connection."""

    def __init__(self, server: int, passed: int) -> None:
        self._left = passed
        self._near, self._far = (socket.socket(type=socket.SOCK_DGRAM) for _ in range(2))
        self._near.bind(("127.0.0.1", 0))
        self._far.connect(("127.0.0.1", server))
        self.port = self._near.getsockname()[1]
        self._client: tuple[str, int] | None = None
        self._fallen = False

    def step(self) -> None:
        ready = readable([self._near, self._far], 0.1)
        if self._near in ready:
            data, self._client = self._near.recvfrom(65536)
            self._left -= 1
            # RFC 9000, section 17.2.2: what begins a connection.
            if self._left == 0:
                self._fallen = True
            elif data[0] & 0xF0 == 0xC0:
                self._fallen = False
            if not self._fallen:
                self._far.send(data)
        if self._far in ready:
            data = self._far.recv(65536)
            if not self._fallen and self._client:
                self._near.sendto(data, self._client)

    def close(self) -> None:
        self._near.close()
        self._far.close()


def test_gallop_load_tolerates_unanswered_last_requests() -> None:
    with Falling(answers=3) as server:
        code, found, said = load("--h1", "-N", "2", "-n", "4", "-c", "2", f"http://127.0.0.1:{server.port}/")
    assert (code, found["succeeded"], found["failed"], found["lost"]) == (1, 3, 1, 1), said


def test_gallop_load_ends_when_server_falls_silent() -> None:
    with Falling(answers=3) as server:
        code, found, said = load("--h1", "-N", "2", "-n", "40", "-c", "2", f"http://127.0.0.1:{server.port}/")
    assert (code, found) == (1, {})
    assert said == "gallop-load: no answer for 3 s; of 5 requests 3 were answered until then\n"


@pytest.fixture
def http3(tmp_path: Path) -> Iterator[int]:
    """A gallop's port for HTTP/3."""
    port = free_port()
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-keyout", f"{tmp_path}/key.pem", "-out", f"{tmp_path}/cert.pem", "-days", "2", "-subj", "/CN=a.example"]
    subprocess.run([*argv, *names], check=True, capture_output=True)
    server = GallopInstance(tmp_path)
    (tmp_path / "conf.d" / "site.conf").write_text(
        f"server {{ listen 127.0.0.1:{port} ssl; listen 127.0.0.1:{port} quic reuseport; return 200 ok;\n"
        f"  ssl_certificate {tmp_path}/cert.pem; ssl_certificate_key {tmp_path}/key.pem; }}\n"
    )
    server.start()
    yield port
    server.stop()


def test_gallop_load_replaces_lost_http3_connection(http3: int) -> None:
    """A connection that waits forever would hold up the run and lose all its results."""
    with Tunnel(http3, passed=60) as tunnel:
        url = f"https://127.0.0.1:{tunnel.port}/"
        code, found, said = load("--h3", "-N", "2", "-n", "2000", "-c", "1", "-m", "2", url)
    assert code == 1, said
    assert found["connections"] >= 2
    assert found["lost"] == found["failed"] > 0, "those under way"
    assert found["succeeded"] == 2000 - found["lost"], "the others went on by the next connection"
