"""An administrator, an operator, and a host reached over a real sshd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from panel.accounts.models import Role, User
from panel.hosts.models import Host
from panel.hosts.services import host_create
from panel.remote import pool
from tests.support.cast import user
from tests.support.sshd import SshServer


@pytest.fixture
def admin(db: None) -> User:
    return user("ada", Role.ADMIN)


@pytest.fixture
def operator(db: None) -> User:
    return user("olga", Role.OPERATOR)


@pytest.fixture
def sshd(server_root: Path) -> Iterator[SshServer]:
    with SshServer(server_root / "sshd") as server:
        yield server
    pool.close()


@pytest.fixture
def host(admin: User, sshd: SshServer) -> Host:
    """Added, its key not confirmed yet."""
    return host_create(
        actor=admin,
        name="web-1",
        address="127.0.0.1",
        port=sshd.port,
        username=sshd.username,
        private_key=sshd.private_key,
        site_roots=["/srv/www"],
    )
