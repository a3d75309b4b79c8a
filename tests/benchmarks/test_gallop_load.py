"""gallop-load against a real nginx: its counts equal what the server sent."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.tool_recorder import start
from tests.support.bundled_programs import load_binary
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.waiting import eventually


class Place:
    def __init__(self, nginx: NginxInstance, plain: int, tls: int, clear2: int) -> None:
        self.nginx, self.plain, self.tls, self.clear2 = nginx, plain, tls, clear2

    def url(self, protocol: str, path: str, *, tls: bool) -> str:
        port = self.tls if tls else (self.plain if protocol == "h1" else self.clear2)
        return f"{'https' if tls else 'http'}://a.example:{port}{path}"

    def arguments(self, protocol: str, path: str, *, tls: bool) -> list[str]:
        url = self.url(protocol, path, tls=tls)
        return [f"--{protocol}", "--connect-to", f"127.0.0.1:{url.split(':')[2].split('/')[0]}", url]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    root = tmp_path_factory.mktemp("load")
    for folder in (root, *root.parents[:2]):
        folder.chmod(0o755)
    clear2 = free_port()
    (root / "conf.d").mkdir()
    (root / "conf.d" / "clear2.conf").write_text(
        f"server {{ listen 127.0.0.1:{clear2} http2; server_name a.example; root {root}/www; access_log off;\n"
        f"  location = /missing {{ return 404; }} keepalive_requests 40; }}\n"
    )
    plain, tls = free_port(), free_port()
    nginx = start(root, plain, tls)
    yield Place(nginx, plain, tls, clear2)
    nginx.stop()


def load(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, result and what it said on standard error."""
    argv = [str(load_binary()), "--json", *arguments]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


@pytest.mark.parametrize("tls", [False, True], ids=["clear", "tls"])
@pytest.mark.parametrize("protocol", ["h1", "h2"])
def test_gallop_load_counts_every_response(place: Place, protocol: str, tls: bool) -> None:
    code, found, said = load("-n", "500", "-c", "4", "-m", "3", "-t", "2", *place.arguments(protocol, "/", tls=tls))
    assert (code, found["succeeded"], found["failed"], found["statuses"]["2xx"]) == (0, 500, 0, 500), said
    assert found["protocol"] == {"h1": "http/1.1", "h2": "h2"}[protocol]
    assert found["bytes"] >= 500 * 100
    latency = found["latency_us"]
    assert 0 < latency["p50"] <= latency["p99"] <= latency["max"]
    assert len(found["threads"]) == 2
    # nginx closes the clear HTTP/2 connections after 40 requests: new ones are opened, nothing is lost.
    assert found["connections"] >= (12 if protocol == "h2" and not tls else 4)


@pytest.mark.parametrize("protocol", ["h1", "h2"])
def test_gallop_load_counts_failures_by_kind(place: Place, protocol: str) -> None:
    code, found, _ = load("-n", "20", "-c", "2", *place.arguments(protocol, "/missing", tls=True))
    assert (code, found["failed"], found["lost"], found["statuses"]["4xx"]) == (1, 20, 0, 20)
    code, found, _ = load("-n", "20", "-c", "2", *place.arguments(protocol, "/drop", tls=True))
    assert (code, found["succeeded"], found["lost"]) == (1, 0, 20), "closed without an answer"


def test_gallop_load_requests_pages_in_turn_and_reads_bodies(place: Place, tmp_path: Path) -> None:
    urls = tmp_path / "urls"
    urls.write_text("".join(place.url("h2", path, tls=True) + "\n" for path in ("/", "/large")))
    code, found, said = load("-n", "40", "-c", "2", *place.arguments("h2", "/", tls=True)[:3], "-i", str(urls))
    assert (code, found["succeeded"]) == (0, 40), said
    assert 20 * 27_100 < found["bytes"] < 20 * 29_000


@pytest.mark.parametrize("protocol", ["h1", "h2"])
def test_gallop_load_uses_method_of_each_url(place: Place, tmp_path: Path, protocol: str) -> None:
    """A HEAD response announces a body that never comes; the next response must not be taken for it."""
    urls = tmp_path / "urls"
    lines = [f"HEAD {place.url(protocol, '/large', tls=True)}", place.url(protocol, "/", tls=True)]
    urls.write_text("".join(f"{line}\n" for line in [*lines, f"POST {place.url(protocol, '/', tls=True)}"]))
    options = place.arguments(protocol, "/", tls=True)[:3]
    code, found, said = load("-n", "60", "-c", "2", "-m", "3", *options, "-i", str(urls))
    assert (found["succeeded"], found["statuses"]["2xx"], found["statuses"]["4xx"]) == (40, 40, 20), said
    assert (code, found["lost"]) == (1, 0), "nginx takes no POST to a file"
    assert found["bytes"] < 40 * 1000, "no large body came"


def test_open_loop_keeps_rate_and_measures_from_due_time(place: Place) -> None:
    code, found, said = load("--rate", "200", "-n", "200", "-c", "2", *place.arguments("h1", "/", tls=False))
    assert (code, found["open_loop"], found["succeeded"]) == (0, True, 200), said
    assert found["seconds"] > 0.99, "the last of them is due after 199 intervals of 5 ms, however fast the server is"
    # A page of 7 kB at 4 kB/s takes a second and more, and the connection is busy meanwhile: the third request, due
    # after 0.1 s, is answered after three of them.
    code, found, said = load("--rate", "20", "-n", "3", "-c", "1", *place.arguments("h1", "/slow", tls=False))
    assert code == 0, said
    assert found["latency_us"]["max"] > 2_000_000, "waiting for the connection is part of it"


def test_gallop_load_reports_duration_and_own_cpu(place: Place) -> None:
    code, found, said = load("-D", "1", "-c", "2", *place.arguments("h2", "/", tls=True))
    assert code == 0, said
    assert 0.8 < found["seconds"] < 30
    (thread,) = found["threads"]
    assert thread["cpu"] > 0
    assert found["bottleneck"] == (thread["cpu"] + thread["waited"] > 0.9)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-n", "0", "https://127.0.0.1/"], "-n wants a number above 0"),
        (["--unheard-of", "https://127.0.0.1/"], "unknown option --unheard-of"),
        (["--h1", "http://127.0.0.1:{refused}/"], "cannot connect to 127.0.0.1:{refused}: Connection refused"),
        (["--h2", "https://127.0.0.1:{plain}/"], "cannot connect to 127.0.0.1:{plain}: TLS: "),
        (["--h1", "http://127.0.0.1:{ssh}/"], "does not begin like HTTP/1.1"),
    ],
)
def test_gallop_load_rejects_impossible_load(place: Place, arguments: list[str], words: str) -> None:
    with Banner() as banner:
        known = {"refused": free_port(), "plain": place.plain, "ssh": banner.port}
        code, found, said = load(*(part.format(**known) for part in arguments))
    assert (code, found) == (1, {})
    assert words.format(**known) in said


class Banner:
    """Speaks before it is asked, as mail and SSH servers do."""

    def __enter__(self) -> Banner:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self._answer, daemon=True)
        self.thread.start()
        return self

    def _answer(self) -> None:
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            with peer:
                peer.recv(65536)
                peer.sendall(b"220 not a web server\r\n")

    def __exit__(self, *_: object) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        assert eventually(lambda: not self.thread.is_alive())
