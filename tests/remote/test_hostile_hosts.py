"""Hosts that send invalid data: the panel disconnects at once, says why and stores nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from panel.remote.keys import key_line
from tests.support.ports import free_port
from tests.support.process import ServerProcess, tool
from tests.support.sshd import SshServer

HOSTILE = Path(__file__).with_name("hostile_host.py")
ROOT = Path(__file__).resolve().parents[2]
MOST_MIB = 160.0  # of the worker at its peak, with a line of 32 MiB in it
LEFT_MIB = 40.0
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with SshServer(tmp_path_factory.mktemp("hostile")) as server:
        yield server


def asked(target: dict[str, Any], *, timeout: float = TIMEOUT_S, slow: float = 0.0) -> dict[str, Any]:
    """One request to it, from a process of its own."""
    given = json.dumps({"name": "evil", "kind": "ssh", **target, "timeout": timeout, "slow": slow})
    argv = [sys.executable, "-m", "tests.remote.hostile_worker", given]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=240, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def of_sshd(sshd: SshServer, kind: str) -> dict[str, Any]:
    """A machine with a real sshd that runs this instead of whatever is asked for."""
    key = (sshd.root / "client_key.pub").read_text()
    command = f"command=\"{sys.executable} {HOSTILE} agent '{kind}'\""
    (sshd.root / "authorized_keys").write_text(f"{command} {key}")
    keys = {"host_key": sshd.host_key, "private_key": sshd.private_key}
    return {"address": sshd.address, "port": sshd.port, "username": sshd.username, **keys}


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("line", "a line of more than 33554432 bytes"),
        ("nested", "nested more than 32 deep"),
        ("nested a little", "nested more than 32 deep"),
        ("digits", "integer string conversion"),
        ("number", "a number of more than 64 bits"),
        ("shape", "must have data"),
        ("error", "an error must have a code"),
        ("stderr", "more than 16777216 bytes of error messages"),
    ],
)
def test_hostile_reply_ends_session_with_message(sshd: SshServer, kind: str, words: str) -> None:
    found = asked(of_sshd(sshd, kind))
    assert found["error"] == "ProtocolBroken", found
    assert words in found["message"]
    assert "Check which programs run on the host" in found["message"]
    assert found["seconds"] < TIMEOUT_S / 2, "nobody waits for a timeout"
    assert_small(found)


def test_unread_events_end_session(sshd: SshServer) -> None:
    found = asked(of_sshd(sshd, "events"), slow=3.0)
    assert found["error"] == "ProtocolBroken", found
    assert "more than 10000 events" in found["message"]
    assert found["seconds"] < TIMEOUT_S / 2
    assert_small(found)


def test_endless_preamble_is_rejected(sshd: SshServer) -> None:
    found = asked(of_sshd(sshd, "preamble"))
    assert found["error"] == "AgentUnavailable", found
    assert "more than 65536 bytes before the agent was ready" in found["message"]
    assert_small(found)


def test_dripping_reply_ends_at_callers_timeout(sshd: SshServer) -> None:
    found = asked(of_sshd(sshd, "drip"), timeout=2.0)
    assert found["error"] == "CallTimeout"
    assert found["seconds"] < 20
    assert_small(found)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("banner", "bytes before the key exchange"),
        ("packet", "announced a packet of"),
    ],
)
def test_flood_before_key_exchange_does_not_fill_memory(kind: str, words: str, tmp_path: Path) -> None:
    port = free_port()
    with ServerProcess([sys.executable, str(HOSTILE), "ssh", kind, str(port)], tmp_path / "log") as server:
        server.wait_for_port(port)
        found = asked({"address": "127.0.0.1", "port": port, "host_key": "ssh-ed25519 " + "A" * 68})
    assert found["error"] == "HostUnreachable", found
    assert words in found["message"]
    assert_small(found)


def test_ssh_server_that_exceeds_its_window_is_disconnected(tmp_path: Path) -> None:
    port, key = free_port(), tmp_path / "key"
    argv = [tool("ssh-keygen"), "-q", "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "", "-f", str(key)]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    client = tmp_path / "client"
    subprocess.run([tool("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(client)], check=True)
    argv = [sys.executable, str(HOSTILE), "ssh", "window", str(port), str(key)]
    import paramiko

    target = {
        "address": "127.0.0.1",
        "port": port,
        "username": "root",
        "host_key": key_line(paramiko.RSAKey(filename=str(key))),
        "private_key": client.read_text(),
    }
    with ServerProcess(argv, tmp_path / "log") as server:
        server.wait_for_port(port)
        found = asked(target)
    assert found["error"] == "ProtocolBroken", found
    assert_small(found)


def assert_small(found: dict[str, Any]) -> None:
    grown = {name: round(found[name] - found["before"]) for name in ("peak", "after")}
    assert grown["peak"] < MOST_MIB, found
    assert grown["after"] < LEFT_MIB, found
