"""A site on gallop: moved from nginx and back on one port, and rolled back when gallop rejects it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from panel.deployments.models import DeploymentStatus
from panel.hosts.models import Engine
from panel.websites import services as websites
from tests.deployments.real_host import Machine
from tests.deployments.server_traits import SERVERS, openlitespeed_served
from tests.deployments.test_moves import move, served_by
from tests.support.apache import ApacheInstance
from tests.support.gallop import GallopInstance
from tests.support.nginx import NginxInstance


@pytest.fixture
def gallop(server_root: Path) -> Iterator[GallopInstance]:
    """Installed, not running: the agent starts it with its first site."""
    server = GallopInstance(server_root / "gallop")
    yield server
    server.stop()


def test_site_moves_from_nginx_to_gallop_and_back_on_one_port(
    machine: Machine, nginx: NginxInstance, gallop: GallopInstance
) -> None:
    here, own = machine.web_server(nginx, Engine.NGINX), machine.web_server(gallop, Engine.NATIVE)
    site = machine.site("shop", here)
    machine.deploy(site)
    move(machine, site, own)
    assert machine.answers("shop", "this is shop")
    assert "gallop" in served_by(machine)
    move(machine, site, here)
    assert machine.answers("shop", "this is shop")
    assert "nginx" in served_by(machine)


def test_configuration_rejected_by_gallop_is_rolled_back_with_its_message(
    machine: Machine, gallop: GallopInstance
) -> None:
    site = machine.site("shop", machine.web_server(gallop, Engine.NATIVE))
    machine.deploy(site)
    websites.snippet_create(
        actor=machine.people.admin, site=site, engine="native", text="limit_req zone=maybe;", block=site.blocks.get()
    )
    deployment = machine.run(machine.plan(site))
    assert deployment.status == DeploymentStatus.ROLLED_BACK
    assert "maybe" in deployment.error
    assert machine.answers("shop", "this is shop")


@pytest.fixture
def apache(server_root: Path) -> Iterator[ApacheInstance]:
    """Installed, not running, with the same sites' folder."""
    server = ApacheInstance(server_root / "apache")
    (server_root / "apache" / "www").rmdir()
    (server_root / "apache" / "www").symlink_to(server_root / "www")
    yield server
    server.stop()


def test_site_moves_through_all_web_servers_on_one_port(
    machine: Machine,
    nginx: NginxInstance,
    apache: ApacheInstance,
    gallop: GallopInstance,
    request: pytest.FixtureRequest,
) -> None:
    first, second = machine.web_server(nginx, Engine.NGINX), machine.web_server(apache, Engine.APACHE)
    third = machine.web_server(gallop, Engine.NATIVE)
    way = [(second, "apache"), (third, "gallop"), (first, "nginx")]
    if "openlitespeed" in SERVERS:
        fourth = openlitespeed_served(request.getfixturevalue("openlitespeed")).web_server(machine)
        way += [
            (fourth, "litespeed"),
            (third, "gallop"),
            (fourth, "litespeed"),
            (first, "nginx"),
            (fourth, "litespeed"),
        ]
    site = machine.site("shop", first)
    machine.deploy(site)
    for web_server, name in way:
        move(machine, site, web_server)
        assert machine.answers("shop", "this is shop")
        assert name in served_by(machine)
