from __future__ import annotations

from collections.abc import Iterator

import pytest

from panel.remote import pool
from tests.deployments.conftest import agent_home, nginx  # noqa: F401 - fixtures of other tests, used here too
from tests.deployments.real_host import Machine
from tests.support.apache import ApacheInstance
from tests.support.nginx import NginxInstance
from tests.support.sshd import SshServer


@pytest.fixture
def remote(transactional_db: None, nginx: NginxInstance) -> Iterator[Machine]:  # noqa: F811
    """This machine behind a real sshd, with nginx running."""
    with SshServer(nginx.root / "sshd") as sshd:
        yield Machine(nginx.root, sshd)
        pool.close()


@pytest.fixture
def apache(server_root) -> Iterator[ApacheInstance]:  # type: ignore[no-untyped-def]
    """Not started: it needs a Listen of the test's own."""
    server = ApacheInstance(server_root)
    yield server
    server.stop()


@pytest.fixture
def apache_remote(transactional_db: None, apache: ApacheInstance) -> Iterator[Machine]:
    with SshServer(apache.root / "sshd") as sshd:
        yield Machine(apache.root, sshd)
        pool.close()
