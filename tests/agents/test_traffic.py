"""The agent requests only a web server's status, and only from a private socket."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.agents.process import AgentError, AgentProcess


@contextmanager
def answering(path: Path, answer: bytes) -> Iterator[None]:
    """A server on a unix socket that answers everybody the same."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    stream, _ = listener.accept()
                except OSError:
                    return
                with stream:
                    stream.recv(4096)
                    stream.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def status(zones: dict[str, int]) -> bytes:
    body = json.dumps({"zones": {name: {"requests": count} for name, count in zones.items()}})
    return b"HTTP/1.1 200 OK\r\n\r\n" + body.encode()


def test_traffic_returns_named_or_busiest_sites(agent: AgentProcess, server_root: Path) -> None:
    path = server_root / "s.sock"
    zones = {f"site-{number}": number for number in range(300)}
    with answering(path, status(zones)):
        ask = {"socket": str(path), "roots": [str(server_root)]}
        (named,) = agent.call("traffic", {**ask, "zones": ["site-7", "none"]})["readings"]
        assert named["zones"] == {"site-7": {"requests": 7}}
        assert named["zone_count"] == 300
        first, second = agent.call("traffic", {**ask, "seconds": 0.01})["readings"]
        assert len(first["zones"]) == 200 and "site-299" in second["zones"] and "site-7" not in second["zones"]


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 403 Forbidden\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\nnot json", b"HTTP/1.1 200 OK\r\n\r\n[1]"],
    ids=["nothing", "a refusal", "no JSON", "no object"],
)
def test_invalid_status_response_is_rejected(answer: bytes, agent: AgentProcess, server_root: Path) -> None:
    path = server_root / "s.sock"
    with answering(path, answer), pytest.raises(AgentError) as refused:
        agent.call("traffic", {"socket": str(path), "roots": [str(server_root)]})
    assert refused.value.code == "failed"
    assert str(path) in refused.value.message


@pytest.mark.parametrize("kind", ["outside", "link", "linked folder", "file", "missing", "pause", "zones"])
def test_status_socket_outside_roots_is_rejected(kind: str, agent: AgentProcess, server_root: Path) -> None:
    root, path = server_root / "run", server_root / "secret.sock"
    root.mkdir()
    (root / "link.sock").symlink_to(path)
    (root / "folder").symlink_to(server_root)
    (root / "file.sock").write_text("")
    places = {"outside": path, "link": root / "link.sock", "linked folder": root / "folder" / path.name}
    places |= {"file": root / "file.sock", "missing": root / "no.sock"}
    wrong = {"pause": {"seconds": 60}, "zones": {"zones": "all"}}
    with answering(path, status({"a": 1})), pytest.raises(AgentError) as refused:
        place = str(places.get(kind, path))
        roots = [str(server_root if kind in wrong else root)]
        agent.call("traffic", {"socket": place, "roots": roots, **wrong.get(kind, {})})
    assert refused.value.code == ("invalid" if kind in wrong else "missing" if kind == "missing" else "refused")
