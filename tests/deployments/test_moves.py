"""A site moves from nginx to Apache and back on one port of a host, and between hosts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from panel.deployments.models import Deployment, DeploymentStatus, SiteState, WebServerState
from panel.deployments.planning import services
from panel.hosts.models import Engine, Host, HostStatus, WebServer
from panel.websites import services as websites
from panel.websites.models import Site
from tests.deployments.real_host import Machine
from tests.support.apache import ApacheInstance
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port


@pytest.fixture
def apache(server_root: Path) -> Iterator[ApacheInstance]:
    """Installed, not running: the agent starts it with its first site."""
    server = ApacheInstance(server_root / "apache")
    (server_root / "apache" / "www").rmdir()
    (server_root / "apache" / "www").symlink_to(server_root / "www")
    yield server
    server.stop()


def move(machine: Machine, site: Site, web_server: WebServer) -> Deployment:
    (deployment,) = services.site_move(actor=machine.people.owner, site=site, web_server=web_server)
    machine.run(deployment)
    assert deployment.status == DeploymentStatus.SUCCEEDED, deployment.error
    site.refresh_from_db()
    assert site.web_server == web_server
    return deployment


def served_by(machine: Machine) -> str:
    return machine.get("shop").headers.get("server", "").lower()


def test_site_moves_between_web_servers_of_host_on_one_port(
    machine: Machine, nginx: NginxInstance, apache: ApacheInstance
) -> None:
    here = machine.web_server(nginx, Engine.NGINX)
    there = machine.web_server(apache, Engine.APACHE)
    site = machine.site("shop", here)
    machine.deploy(site)
    assert "nginx" in served_by(machine)
    move(machine, site, there)
    assert machine.answers("shop", "this is shop")
    assert "apache" in served_by(machine)
    assert not list((nginx.root / "sites-enabled").iterdir())
    assert any(
        "Listen" in Path(file["path"]).read_text() for file in WebServerState.objects.get(web_server=there).files
    )
    back = move(machine, site, here)
    assert machine.answers("shop", "this is shop")
    assert "nginx" in served_by(machine)
    assert "stop" in back.steps.values_list("name", flat=True)  # httpd cannot run without a port
    assert apache.pid is None
    move(machine, site, there)
    assert "apache" in served_by(machine)


def test_sites_sharing_a_port_move_together(machine: Machine, nginx: NginxInstance, apache: ApacheInstance) -> None:
    here, there = machine.web_server(nginx, Engine.NGINX), machine.web_server(apache, Engine.APACHE)
    sites = [machine.site("shop", here), machine.site("blog", here)]
    machine.deploy(*sites)
    (deployment,) = services.sites_move(actor=machine.people.owner, sites=sites, web_server=there)
    machine.run(deployment)
    assert deployment.status == DeploymentStatus.SUCCEEDED, deployment.error
    assert machine.answers("shop", "this is shop") and machine.answers("blog", "this is blog")
    assert "apache" in served_by(machine)
    assert set(Site.objects.values_list("web_server", flat=True)) == {there.pk}


def test_port_returns_to_old_web_server_when_new_one_fails(
    machine: Machine, nginx: NginxInstance, apache: ApacheInstance
) -> None:
    here, there = machine.web_server(nginx, Engine.NGINX), machine.web_server(apache, Engine.APACHE)
    machine.deploy(machine.site("other", there, port=free_port()))
    site = machine.site("shop", here)
    machine.deploy(site)
    owner = machine.people.owner
    upstream = websites.upstream_create(actor=owner, site=site, name="gone", servers=[{"address": "127.0.0.1:1"}])
    websites.location_create(actor=owner, block=site.blocks.get(), pattern="/", handler="proxy", upstream=upstream)
    (deployment,) = services.site_move(actor=machine.people.owner, site=site, web_server=there)
    machine.run(deployment)
    assert deployment.status == DeploymentStatus.ROLLED_BACK, deployment.error
    assert "responds with 503 now and responded with 200 before" in deployment.error
    assert machine.answers("shop", "this is shop")
    assert "nginx" in served_by(machine)


def test_failed_move_leaves_site_in_place(machine: Machine, nginx: NginxInstance, apache: ApacheInstance) -> None:
    here, there = machine.web_server(nginx, Engine.NGINX), machine.web_server(apache, Engine.APACHE)
    site = machine.site("shop", here)
    machine.deploy(site)
    apache.main_config.write_text(apache.main_config.read_text() + "Nonsense on\n")
    (deployment,) = services.site_move(actor=machine.people.owner, site=site, web_server=there)
    machine.run(deployment)
    assert deployment.status == DeploymentStatus.ROLLED_BACK
    assert "Nonsense" in deployment.error
    assert machine.answers("shop", "this is shop")
    assert "nginx" in served_by(machine)
    site.refresh_from_db()
    assert site.web_server == here


def test_move_to_another_host_deploys_there_before_removing_here(
    remote: Machine, nginx: NginxInstance, server_root: Path, agent_home: Path
) -> None:
    here = remote.web_server(nginx, Engine.NGINX)
    site = remote.site("shop", here)
    remote.deploy(site)
    other = Host.objects.create(
        name="web-2", connection="local", status=HostStatus.READY, site_roots=remote.host.site_roots
    )
    with NginxInstance(server_root / "second") as second:
        there = WebServer.objects.create(host=other, engine=Engine.NGINX, paths=second.paths, layout="sites")
        # Both hosts are this machine here, so the port has to change with the host.
        block = site.blocks.get()
        port = free_port()
        block.listens.update(port=port)
        up, down = services.site_move(actor=remote.people.owner, site=site, web_server=there)
        remote.run(up)
        assert up.status == DeploymentStatus.SUCCEEDED, up.error
        assert ask(port, host="shop.example").text == "this is shop"
        assert list((nginx.root / "sites-enabled").iterdir())
        down.refresh_from_db()
        assert down.status == DeploymentStatus.QUEUED
        from panel.deployments.execution import services as execution

        execution.deployment_execute(down.uuid)
        assert not list((nginx.root / "sites-enabled").iterdir())
        state = SiteState.objects.get()
        assert state.revision is not None
        assert state.revision.web_server == there
