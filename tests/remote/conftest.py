"""A real sshd, and the pool that reaches it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from panel.remote import bundle
from panel.remote.pool import Pool
from panel.remote.target import Target
from tests.support.sshd import SshServer


@pytest.fixture
def sshd(server_root: Path) -> Iterator[SshServer]:
    with SshServer(server_root / "sshd") as server:
        yield server


@pytest.fixture
def target(sshd: SshServer) -> Target:
    return Target(
        name="web1",
        kind="ssh",
        address="127.0.0.1",
        port=sshd.port,
        username=sshd.username,
        private_key=sshd.private_key,
        host_key=sshd.host_key,
    )


@pytest.fixture
def local(tmp_path: Path) -> Target:
    return Target(name="here", kind="local", folder=tmp_path / "agent")


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool()
    yield made
    made.close()


@pytest.fixture
def fresh_bundle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[bundle.Bundle]:
    """An agent that no host has yet."""
    sources = {**bundle._sources(), "agents/mark.py": f"# {tmp_path}\n".encode()}
    monkeypatch.setattr(bundle, "_sources", lambda: sources)
    bundle._made.cache_clear()
    yield bundle.bundle()
    (Path.home() / ".paddock" / bundle.bundle().name).unlink(missing_ok=True)
    bundle._made.cache_clear()


def without_key(target: Target) -> Target:
    return replace(target, host_key="")
