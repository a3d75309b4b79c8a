"""Hosts that only a bastion can reach: real SSH servers in a network namespace of their own."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from panel.remote import ssh
from panel.remote.authorized_keys import with_options_of
from panel.remote.errors import AuthenticationRefused, ConnectionLost, HostKeyChanged, HostUnreachable
from panel.remote.pool import Pool
from panel.remote.target import Target
from tests.support.bastion import Behind, behind_bastion
from tests.support.recording_ssh_server import impostor_running
from tests.support.sshd import SshServer
from tests.support.waiting import eventually


@pytest.fixture
def behind(server_root: Path) -> Iterator[Behind]:
    with behind_bastion(server_root, count=3) as found:
        yield found


def target_of(sshd: SshServer, name: str, via: Target | None = None) -> Target:
    return Target(
        name=name,
        kind="ssh",
        address=sshd.address,
        port=sshd.port,
        username=sshd.username,
        private_key=sshd.private_key,
        host_key=sshd.host_key,
        via=via,
    )


@pytest.fixture
def bastion(behind: Behind) -> Target:
    return target_of(behind.bastion.sshd, "edge")


def sign_ins(behind: Behind) -> int:
    return (behind.bastion.sshd.root / "sshd.log").read_text().count("Accepted publickey")


def test_host_is_reached_through_its_bastion_only(behind: Behind, bastion: Target, pool: Pool, tmp_path: Path) -> None:
    sshd = behind.hosts[0]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((sshd.address, sshd.port), timeout=5)
    target = target_of(sshd, "web1", bastion)
    assert ssh.offered_key(replace(target, host_key="")).line == sshd.host_key
    (tmp_path / "program").write_bytes(b"x" * 3_000_000)
    with pool.session(target) as agent:
        assert agent.call("facts")["hostname"]
        path = agent.upload(tmp_path / "program", "program-of-a-test")
    assert Path(path).stat().st_size == 3_000_000
    Path(path).unlink()


def test_hosts_share_one_connection_to_their_bastion(behind: Behind, bastion: Target, pool: Pool) -> None:
    targets = [target_of(sshd, f"web{number}", bastion) for number, sshd in enumerate(behind.hosts)]

    def ask(target: Target) -> str:
        with pool.session(target) as agent:
            return str(agent.call("facts")["hostname"])

    with ThreadPoolExecutor(3) as threads:
        assert all(threads.map(ask, targets))
    assert sign_ins(behind) == 1
    log = behind.bastion.sshd.root / "sshd.log"
    assert "Disconnected from" not in log.read_text()
    pool.close()
    assert eventually(lambda: "Disconnected from" in log.read_text() or "Connection closed" in log.read_text())


def test_restricted_key_of_bastion_is_reported_with_remedy(behind: Behind, bastion: Target, pool: Pool) -> None:
    target = target_of(behind.hosts[0], "web1", bastion)
    behind.allow_forwarding("restrict")
    with (
        pytest.raises(HostUnreachable, match=r"the bastion edge does not allow .* add “port-forwarding”"),
        pool.session(target),
    ):
        pass
    behind.allow_forwarding("restrict,port-forwarding")
    with pool.session(target) as agent:
        assert agent.call("facts")["hostname"]


def test_closed_port_behind_bastion_is_reported(behind: Behind, bastion: Target, pool: Pool) -> None:
    target = target_of(behind.hosts[0], "web1", bastion)
    behind.hosts[0].stop()
    with (
        pytest.raises(HostUnreachable, match=r"web1 is not reachable at .*the bastion edge cannot connect"),
        pool.session(target),
    ):
        pass


def test_changed_key_of_bastion_stops_before_anything_is_sent(behind: Behind, bastion: Target, pool: Pool) -> None:
    with impostor_running() as (port, recorder):
        false = replace(bastion, address="127.0.0.1", port=port)
        target = target_of(behind.hosts[0], "web1", false)
        with pytest.raises(HostUnreachable, match="Paddock cannot use the bastion: edge presents a different host key"):
            ssh.connect(target)
        assert recorder.attempts == []


def test_bastion_that_connects_elsewhere_is_noticed_by_the_host_key(behind: Behind, bastion: Target) -> None:
    wrong = replace(target_of(behind.hosts[0], "web1", bastion), port=behind.hosts[1].port)
    with pytest.raises(HostKeyChanged):
        ssh.connect(wrong)
    assert "Accepted" not in (behind.hosts[1].root / "sshd.log").read_text()


def test_refused_sign_in_names_the_host_and_not_its_bastion(behind: Behind, bastion: Target) -> None:
    target = replace(target_of(behind.hosts[0], "web1", bastion), private_key=behind.hosts[1].private_key)
    with pytest.raises(AuthenticationRefused, match="web1 rejected the key"):
        ssh.connect(target)


def test_connection_returns_after_the_bastion_ended_it(behind: Behind, bastion: Target, pool: Pool) -> None:
    target = target_of(behind.hosts[0], "web1", bastion)
    with pool.session(target) as agent:
        agent.call("facts")
    first = behind.bastion.first_process
    for child in Path(f"/proc/{first}/task/{first}/children").read_text().split():
        os.kill(int(child), signal.SIGKILL)

    def responds() -> bool:
        try:
            with pool.session(target) as agent:
                return bool(agent.call("facts", timeout=5))
        except ConnectionLost:
            return False

    assert eventually(responds)
    assert sign_ins(behind) == 2


def test_dark_bastion_delays_all_its_hosts_only_once(behind: Behind, bastion: Target, pool: Pool) -> None:
    behind.bastion.crash()
    targets = [target_of(sshd, f"web{number}", bastion) for number, sshd in enumerate(behind.hosts)]
    began = time.monotonic()

    def fails(target: Target) -> bool:
        with pytest.raises(HostUnreachable, match="Paddock cannot use the bastion"), pool.session(target):
            pass
        return True

    with ThreadPoolExecutor(3) as threads:
        assert all(threads.map(fails, targets))
    assert time.monotonic() - began < 2 * ssh.CONNECT_TIMEOUT_S


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("ssh-ed25519 AAAA1 paddock", "restrict ssh-ed25519 BBBB paddock"),
        ("restrict,port-forwarding ssh-ed25519 AAAA1 x", "restrict,port-forwarding ssh-ed25519 BBBB paddock"),
        (
            'from="10.0.0.1",command="a ssh-rsa b" ssh-ed25519 AAAA1',
            'from="10.0.0.1",command="a ssh-rsa b" ssh-ed25519 BBBB paddock',
        ),
    ],
)
def test_replaced_key_keeps_the_options_of_the_former_one(row: str, expected: str) -> None:
    assert with_options_of(row, "restrict ssh-ed25519 BBBB paddock") == expected
