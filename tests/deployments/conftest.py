from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from panel.hosts.models import Engine, HostStatus, WebServer
from panel.remote import pool
from tests.deployments.gallop_host import with_gallop
from tests.deployments.real_host import Machine
from tests.deployments.server_traits import SERVERS, Served, nginx_served, openlitespeed_served
from tests.deployments.stream_host import StreamHost
from tests.support.apache import ApacheInstance
from tests.support.cast import Cast, cast
from tests.support.gallop import GallopInstance
from tests.support.nginx import NginxInstance
from tests.support.nginx_streams import StreamingNginx
from tests.support.openlitespeed import OpenLiteSpeedInstance
from tests.support.sshd import SshServer


@pytest.fixture
def people(db: None) -> Cast:
    """The cast, on a host that cannot be asked: what is tested here is the panel's own side."""
    found = cast()
    found.host.status = HostStatus.UNREACHABLE
    found.host.status_detail = "web-1 does not answer."
    found.host.save()
    return found


@pytest.fixture
def agent_home(settings: Settings, server_root: Path) -> Iterator[Path]:
    """The local agent's folder; its connection is closed afterwards."""
    settings.LOCAL_HOST_ROOT = server_root / "agent-home"
    yield settings.LOCAL_HOST_ROOT
    pool.close()


@pytest.fixture
def nginx(server_root: Path) -> Iterator[NginxInstance]:
    with NginxInstance(server_root) as server:
        yield server


@pytest.fixture
def apache(server_root: Path) -> Iterator[ApacheInstance]:
    """Installed, not running: the agent starts it with its first site. It serves the files of the machine's sites."""
    server = ApacheInstance(server_root / "apache")
    (server_root / "apache" / "www").rmdir()
    (server_root / "apache" / "www").symlink_to(server_root / "www")
    yield server
    server.stop()


@pytest.fixture
def openlitespeed(server_root: Path) -> Iterator[OpenLiteSpeedInstance]:
    """Installed, not running: the agent starts it with its first site."""
    server = OpenLiteSpeedInstance(server_root / "lsws").manage()
    yield server
    server.stop()


@pytest.fixture(params=SERVERS)
def served(request: pytest.FixtureRequest) -> Served:
    """Each server in turn that a host may have."""
    server = request.getfixturevalue(request.param)
    return nginx_served(server) if request.param == "nginx" else openlitespeed_served(server)


@pytest.fixture
def machine(transactional_db: None, agent_home: Path, nginx: NginxInstance) -> Machine:
    """This machine, with nginx running."""
    return Machine(nginx.root)


@pytest.fixture
def remote(transactional_db: None, nginx: NginxInstance) -> Iterator[Machine]:
    """The same behind a real sshd."""
    with SshServer(nginx.root / "sshd") as sshd:
        yield Machine(nginx.root, sshd)
        pool.close()


@pytest.fixture(params=[Engine.NGINX, Engine.APACHE, Engine.NATIVE])
def placed(
    request: pytest.FixtureRequest, transactional_db: None, agent_home: Path, nginx: NginxInstance
) -> Iterator[tuple[Machine, WebServer]]:
    """This machine with each of the bundled or packaged web servers in turn."""
    machine = Machine(nginx.root)
    if request.param == Engine.APACHE:
        server: Any = ApacheInstance(nginx.root / "apache")
    else:
        server = GallopInstance(nginx.root / "gallop") if request.param == Engine.NATIVE else nginx
    yield machine, machine.web_server(server, request.param)
    if server is not nginx:
        server.stop()


@pytest.fixture
def on_nginx(transactional_db: None, agent_home: Path, server_root: Path) -> Iterator[StreamHost]:
    with StreamingNginx(server_root / "nginx") as server:
        machine = Machine(server.root)
        web_server = machine.web_server(server, Engine.NGINX)
        web_server.modules = ["ngx_stream_module"]
        web_server.save()
        yield StreamHost(machine, web_server)


@pytest.fixture
def on_gallop(transactional_db: None, settings: Settings, server_root: Path) -> Iterator[StreamHost]:
    with with_gallop(server_root, settings) as machine:
        yield StreamHost(machine, WebServer.objects.get(engine="native"))


@pytest.fixture(params=["on_nginx", "on_gallop"])
def stream_host(request: pytest.FixtureRequest, transactional_db: None, server_root: Path) -> StreamHost:
    """Each web server that can have stream servers. The other two fixtures are named for the choice of the test's part
    (tests/environment.py).
    """
    found: StreamHost = request.getfixturevalue(request.param)
    return found
