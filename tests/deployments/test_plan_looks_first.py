"""A plan asks the host for the folders, sockets, services and ports that it needs, and warns before confirmation."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import socket
from contextlib import closing
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from panel.deployments.models import Deployment, DeploymentStatus
from panel.deployments.planning import services
from panel.hosts.models import Engine, WebServer
from panel.websites import services as websites
from panel.websites.models import Certificate, Site
from tests.deployments.real_host import Machine
from tests.support.apache import ApacheInstance
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port

WORKER = "www-data"


@pytest.fixture
def web_server(machine: Machine, nginx: NginxInstance) -> WebServer:
    return machine.web_server(nginx, Engine.NGINX)


@pytest.fixture
def site(machine: Machine, web_server: WebServer) -> Site:
    return machine.site("shop", web_server)


def observed(deployment: Deployment) -> list[str]:
    return [f"{note.text} {note.nearest}" for note in deployment.plan.warnings if note.is_observed]


def edit(machine: Machine, site: Site, **values: Any) -> None:
    websites.block_update(actor=machine.people.owner, block=site.blocks.get(), **values)


def test_plan_of_a_complete_site_has_no_warning(machine: Machine, site: Site) -> None:
    assert observed(machine.plan(site)) == []
    machine.deploy(site)
    assert observed(machine.plan(site)) == [], "the server's own port is not taken"


def test_mistyped_root_is_named_on_the_page_of_the_plan(machine: Machine, site: Site, client: Client) -> None:
    missing = str(machine.root / "www" / "shpo")
    machine.deploy(site)
    edit(machine, site, root=missing)
    deployment = machine.plan(site)
    (words,) = observed(deployment)
    assert f"{missing} does not exist on {machine.host.name}" in words
    client.force_login(machine.people.owner)
    page = client.get(f"/deployments/{deployment.uuid}").content.decode()
    assert f"{missing} does not exist" in page
    assert f"Seen on {machine.host.name}" in page
    told = client.get(f"/api/v1/deployments/{deployment.uuid}/").json()
    assert told["plan"]["warnings"][0]["is_observed"] is True


def test_root_that_is_a_file_is_named(machine: Machine, site: Site) -> None:
    edit(machine, site, root=str(machine.root / "www" / "shop" / "index.html"))
    (words,) = observed(machine.plan(site))
    assert "is a file" in words


def test_empty_root_is_named_for_a_new_site_alone(machine: Machine, site: Site) -> None:
    index = machine.root / "www" / "shop" / "index.html"
    text = index.read_text()
    index.unlink()
    (words,) = observed(machine.plan(site))
    assert "is empty" in words and "Copy the site's files" in words
    index.write_text(text)
    machine.deploy(site)
    index.unlink()
    assert observed(machine.plan(site)) == []


def test_folder_that_the_account_of_the_server_cannot_enter_is_named(
    machine: Machine, site: Site, nginx: NginxInstance
) -> None:
    nginx.main_config.write_text(nginx.main_config.read_text().replace("user root;", f"user {WORKER};"))
    nginx.stop()
    nginx.start()
    folder = machine.root / "www" / "shop"
    assert observed(machine.plan(site)) == []
    folder.chmod(0o700)
    (words,) = observed(machine.plan(site))
    assert f"the account {WORKER}" in words and str(folder) in words
    folder.chmod(0o750)
    shutil.chown(folder, group=WORKER)
    assert observed(machine.plan(site)) == [], "the group of the account may enter"


def test_silent_application_is_named_until_it_listens(machine: Machine, web_server: WebServer) -> None:
    port = free_port()
    site = machine.site("app", web_server, root="", upstream=f"127.0.0.1:{port}")
    (words,) = observed(machine.plan(site))
    assert f"cannot connect to 127.0.0.1:{port}: Connection refused." in words
    with closing(socket.create_server(("127.0.0.1", port))):
        assert observed(machine.plan(site)) == []


def test_unknown_name_of_an_application_is_named(machine: Machine, web_server: WebServer) -> None:
    site = machine.site("app", web_server, root="", upstream="backend.invalid:80")
    assert any("backend.invalid:80: " in words for words in observed(machine.plan(site)))


def test_missing_and_dead_sockets_are_named(machine: Machine, web_server: WebServer) -> None:
    path = machine.root / "run" / "app.sock"
    site = machine.site("app", web_server, root="", upstream="127.0.0.1:9")
    upstream = site.upstreams.get()
    websites.upstream_update(actor=machine.people.admin, upstream=upstream, servers=[{"address": f"unix:{path}"}])
    assert any(f"The socket {path} does not exist" in words for words in observed(machine.plan(site)))
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(path))
        listener.listen()
        assert observed(machine.plan(site)) == []
    assert any(f"The socket {path} accepts no connections" in words for words in observed(machine.plan(site)))


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::"])
def test_port_of_another_program_is_named_with_the_program(machine: Machine, site: Site, address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    both = ":" in address
    with closing(socket.create_server((address, machine.port), family=family, dualstack_ipv6=both)):
        (words,) = observed(machine.plan(site))
    assert f":{machine.port} on {machine.host.name} is in use by python" in words
    assert f"(process {os.getpid()})" in words


def test_port_that_changes_hands_within_the_plan_is_free(machine: Machine, site: Site, apache: ApacheInstance) -> None:
    machine.deploy(site)
    target = machine.web_server(apache, Engine.APACHE)
    (deployment,) = services.site_move(actor=machine.people.owner, site=site, web_server=target)
    assert observed(deployment) == []
    assert machine.run(deployment).status == DeploymentStatus.SUCCEEDED


def test_expired_certificate_warns_and_does_not_block(machine: Machine, web_server: WebServer) -> None:
    certificate = websites.certificate_self_sign(
        actor=machine.people.owner, team=machine.people.team, name="old", names=["shop.example"]
    )
    port = free_port()
    site = machine.site("shop", web_server, port=port, certificate=certificate)
    Certificate.objects.filter(pk=certificate.pk).update(not_after=timezone.now() - dt.timedelta(days=1))
    deployment = machine.plan(site)
    (note,) = [note for note in deployment.plan.warnings if "expired on" in note.text]
    assert "old" in note.text
    assert machine.run(deployment).status == DeploymentStatus.SUCCEEDED


def test_warnings_do_not_hold_a_deployment_up(machine: Machine, web_server: WebServer) -> None:
    site = machine.site("app", web_server, root="", upstream=f"127.0.0.1:{free_port()}")
    deployment = machine.plan(site)
    assert observed(deployment)
    assert machine.run(deployment).status == DeploymentStatus.SUCCEEDED


@pytest.mark.parametrize("engine", [Engine.NGINX, Engine.APACHE])
def test_port_of_another_program_changes_nothing_on_the_host(
    machine: Machine, nginx: NginxInstance, apache: ApacheInstance, engine: Engine
) -> None:
    server = nginx if engine == Engine.NGINX else apache
    web_server = machine.web_server(server, engine)
    machine.deploy(machine.site("first", web_server))
    before = server.pid
    port = free_port()
    site = machine.site("shop", web_server, port=port)
    with closing(socket.create_server(("0.0.0.0", port))):
        deployment = machine.run(machine.plan(site))
        assert deployment.status == DeploymentStatus.ROLLED_BACK
        assert deployment.error.startswith(f"port 0.0.0.0:{port} is in use by python")
        assert machine.get("first").text == "this is first" and server.pid == before
    machine.deploy(site)


def test_socket_for_ipv6_alone_does_not_take_the_port_of_ipv4(machine: Machine, site: Site) -> None:
    other = socket.socket(socket.AF_INET6)
    other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    with closing(other):
        other.bind(("::", machine.port))
        other.listen()
        deployment = machine.plan(site)
        assert observed(deployment) == []
        assert machine.run(deployment).status == DeploymentStatus.SUCCEEDED
