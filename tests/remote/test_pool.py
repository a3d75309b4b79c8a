"""Requests over pooled connections, to a real sshd and to the local machine."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from panel.remote import bundle, ssh
from panel.remote import pool as connections
from panel.remote.errors import CallTimeout, ConnectionLost, HostUnreachable, OperationRefused, RemoteError
from panel.remote.links import Link
from panel.remote.pool import Pool
from panel.remote.target import Target
from tests.support.sshd import SshServer
from tests.support.waiting import eventually


@pytest.mark.parametrize("which", ["target", "local"])
def test_one_agent_serves_all_sessions_of_host(which: str, pool: Pool, target: Target, local: Target) -> None:
    chosen = target if which == "target" else local
    with pool.session(chosen) as agent:
        first = agent.call("hello")
    with pool.session(chosen) as agent:
        assert agent.call("hello") == first
    assert first["agent"] == bundle.bundle().name


def test_agent_starts_while_more_than_1024_files_are_open(pool: Pool, target: Target) -> None:
    """As in a panel that is connected to hundreds of hosts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    descriptors = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with pool.session(target) as agent:
            assert agent.call("hello")["agent"] == bundle.bundle().name
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_agent_is_uploaded_atomically_and_private_on_first_use(
    pool: Pool, target: Target, fresh_bundle: bundle.Bundle
) -> None:
    installed = Path.home() / ".paddock" / fresh_bundle.name
    assert not installed.exists()
    with pool.session(target) as agent:
        assert agent.call("hello")["agent"] == fresh_bundle.name
    assert installed.read_bytes() == b"".join(fresh_bundle.parts())
    assert installed.stat().st_mode & 0o777 == 0o700
    assert not list(installed.parent.glob(f".{fresh_bundle.name}.*"))


def test_requests_of_many_threads_share_one_connection(pool: Pool, target: Target, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text("one\n")
    seen: list[str] = []
    is_followed = threading.Event()

    def hear(event: dict[str, list[str]]) -> None:
        seen.extend(event["lines"])
        is_followed.set()
        if seen[-1] == "line 4":
            raise EOFError

    def follow() -> None:
        with pool.session(target) as agent, pytest.raises(EOFError):
            agent.call("tail", {"path": str(log), "roots": [str(tmp_path)], "follow": True}, hear, timeout=60)

    following = threading.Thread(target=follow)
    following.start()
    assert is_followed.wait(60)
    pids = set()
    for number in range(5):
        with pool.session(target) as agent:
            pids.add(agent.call("hello")["pid"])
        with log.open("a") as file:
            file.write(f"line {number}\n")
    following.join()
    assert len(pids) == 1
    assert seen[-5:] == [f"line {number}" for number in range(5)]


def test_request_timeout_keeps_connection(pool: Pool, local: Target, tmp_path: Path) -> None:
    (tmp_path / "access.log").write_text("one\n")
    followed = {"path": str(tmp_path / "access.log"), "roots": [str(tmp_path)], "follow": True}
    with pool.session(local) as agent:
        pid = agent.call("hello")["pid"]
        with pytest.raises(CallTimeout):
            agent.call("tail", followed, timeout=0.2)
        assert agent.call("hello")["pid"] == pid


def test_killed_agent_is_reported_and_replaced(pool: Pool, local: Target) -> None:
    with pool.session(local) as agent:
        os.kill(agent.identity["pid"], signal.SIGKILL)
        with pytest.raises(ConnectionLost) as lost:
            for _ in range(100):
                agent.call("hello")
                time.sleep(0.01)
    assert lost.value.retry
    with pool.session(local) as agent:
        assert agent.call("hello")["pid"] > 0


def test_dead_idle_connection_is_replaced(
    pool: Pool, target: Target, sshd: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("panel.remote.pool.CHECK_AFTER_S", 0.0)
    with pool.session(target) as agent:
        first = agent.identity["pid"]
    os.kill(first, signal.SIGSTOP)  # answers nothing, closes nothing: as a host that vanished from the network
    try:
        monkeypatch.setattr("panel.remote.pool.HELLO_TIMEOUT_S", 0.3)
        with pool.session(target) as agent:
            assert agent.call("hello")["pid"] != first
    finally:
        os.kill(first, signal.SIGKILL)


def test_agent_error_keeps_code_and_message(pool: Pool, local: Target) -> None:
    with pool.session(local) as agent, pytest.raises(OperationRefused) as refused:
        agent.call("tail", {"path": "/etc/shadow", "roots": ["/var/log"]})
    assert refused.value.code == "refused"
    assert "/etc/shadow" in refused.value.message


def test_uploaded_file_gets_plain_name(pool: Pool, target: Target, tmp_path: Path) -> None:
    source = tmp_path / "program"
    source.write_bytes(os.urandom(300_000))
    name = f"upload-{hashlib.sha256(source.read_bytes()).hexdigest()}"
    with pool.session(target) as agent:
        path = Path(agent.upload(source, name))
        for wrong in ("", "../x", "a/b", ".hidden"):
            with pytest.raises(ValueError, match="not a plain file name"):
                agent.upload(source, wrong)
    assert path.read_bytes() == source.read_bytes()
    path.unlink()


def test_unreachable_host_error_names_endpoint(pool: Pool, target: Target, sshd: SshServer) -> None:
    sshd.stop()
    with pytest.raises(RemoteError) as unreachable, pool.session(target):
        pass
    assert unreachable.value.code == "host_unreachable"
    assert f"127.0.0.1:{sshd.port}" in unreachable.value.message
    assert unreachable.value.retry


def test_silent_port_error_says_that_port_sends_nothing(
    pool: Pool, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example a stopped sshd, or another service on the port."""
    monkeypatch.setattr(ssh, "CONNECT_TIMEOUT_S", 0.4)
    monkeypatch.setattr(ssh, "ATTEMPTS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        there = replace(target, port=silent.getsockname()[1])
        with pytest.raises(HostUnreachable, match="the port accepts connections but sends nothing within"):
            pool.session(there).__enter__()


def test_session_uses_connection_in_progress(pool: Pool, target: Target) -> None:
    pool.prepare([target])
    with pool.session(target) as agent:
        pid = agent.identity["pid"]
    pool.prepare([target])
    assert pool.is_ready(target)
    with pool.session(target) as agent:
        assert agent.identity["pid"] == pid


def test_waiters_of_failed_connection_get_its_error_without_retry(local: Target) -> None:
    """A host that drops packets would otherwise take twice the timeout. A later request tries again."""
    attempts, goes_on = [], threading.Event()

    def connect(target: Target) -> Link:
        attempts.append(target)
        assert goes_on.wait(60)
        raise HostUnreachable(target.name, "203.0.113.1:22", "it does not answer")

    pool = Pool(connect)
    pool.prepare([local])
    assert eventually(lambda: len(attempts) == 1)
    told: list[HostUnreachable] = []

    def wait() -> None:
        with pytest.raises(HostUnreachable) as raised, pool.session(local):
            pass
        told.append(raised.value)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert eventually(lambda: pool._entries[local].borrowed == 2)
    goes_on.set()
    waiting.join()
    assert len(told) == len(attempts) == 1
    wait()
    assert len(attempts) == 2


def test_idle_connections_and_their_agents_end(pool: Pool, local: Target) -> None:
    with pool.session(local) as agent:
        pid = agent.identity["pid"]
        pool.close_idle(0)
        assert agent.call("hello")["pid"] == pid  # borrowed: left alone
    pool.close_idle(0)
    assert not Path(f"/proc/{pid}").exists() or "zombie" in Path(f"/proc/{pid}/status").read_text()


def test_target_repr_hides_secrets() -> None:
    target = Target("web1", "ssh", private_key="KEY", password="PASS", sudo_password="SUDO")
    assert not {"KEY", "PASS", "SUDO"} & set(repr(target).replace("'", " ").split())


def test_longest_idle_connection_is_closed_before_the_limit_of_open_files(
    pool: Pool, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts of one real sshd under three names, with room for two."""
    monkeypatch.setattr(connections, "most_hosts", lambda: 2)
    first, second, third = (replace(target, name=name) for name in ("first", "second", "third"))
    agents = {}
    for one in (first, second, third):
        with pool.session(one) as agent:
            agents[one.name] = agent.call("hello")["pid"]
    assert [pool.is_ready(one) for one in (first, second, third)] == [False, True, True]
    assert eventually(lambda: not Path(f"/proc/{agents['first']}").exists()), "its agent ends"
    with pool.session(second), pool.session(third), pool.session(first) as agent:
        assert agent.call("hello")["pid"] != agents["first"], "connections in use are never closed"
        assert pool.is_ready(second) and pool.is_ready(third)
