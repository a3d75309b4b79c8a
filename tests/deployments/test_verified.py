"""Verified is what was observed: what sites answered before and after, on real servers."""

from __future__ import annotations

import datetime as dt
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from panel.deployments.execution import services as execution
from panel.deployments.models import Deployment, DeploymentStatus, Health, SiteState, SiteStatus
from panel.deployments.planning import services
from panel.hosts.models import Engine, Host, HostStatus, WebServer
from panel.websites import services as websites
from panel.websites.models import Site
from tests.deployments.real_host import Machine
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port


@pytest.fixture(params=["nginx", "apache"])
def web_server(request: pytest.FixtureRequest, machine: Machine) -> WebServer:
    return machine.web_server(request.getfixturevalue(request.param), Engine(request.param))


def edit(machine: Machine, site: Site, **values: Any) -> None:
    websites.block_update(actor=machine.people.owner, block=site.blocks.get(), **values)


def run(machine: Machine, site: Site, *, anyway: bool = False) -> Deployment:
    (deployment,) = services.deployment_plan(actor=machine.people.owner, sites=[site])
    services.deployment_confirm(actor=machine.people.owner, deployment=deployment, deploy_anyway=anyway)
    execution.deployment_execute(deployment.uuid)
    deployment.refresh_from_db()
    return deployment


def health(deployment: Deployment) -> dict[str, Any]:
    (found,) = [row for row in deployment.checks if row["kind"] == "health"]
    return dict(found)


def proxied(machine: Machine, name: str, web_server: WebServer, port: int) -> Site:
    return machine.site(name, web_server, root="", upstream=f"127.0.0.1:{port}")


class Application:
    """An application on a port of this machine that answers every request alike."""

    def __init__(self, port: int, status: int = 200, **headers: str) -> None:
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                body = b"all is well" if self.headers.get("X-Check") == "paddock" else b"hello"
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.thread = Thread(target=self.server.serve_forever)
        self.thread.start()

    def __enter__(self) -> Application:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def test_deployment_rolls_back_when_the_root_is_mistyped(machine: Machine, web_server: WebServer) -> None:
    site = machine.site("shop", web_server)
    assert machine.deploy(site).status_words == "Verified"
    edit(machine, site, root=str(machine.root / "www" / "shpo"))
    deployment = run(machine, site)
    assert deployment.status == DeploymentStatus.ROLLED_BACK
    assert re.search("responds with 40[34] now and responded with 200 before", deployment.error)
    assert machine.get("shop").text == "this is shop"
    assert health(deployment)["verdict"] == "worse"
    state = SiteState.objects.get()
    assert (state.health, state.status) == (Health.ANSWERING, SiteStatus.LIVE)


def test_deployment_keeps_worse_responses_when_told_to_deploy_anyway(machine: Machine, web_server: WebServer) -> None:
    site = machine.site("shop", web_server)
    machine.deploy(site)
    edit(machine, site, root=str(machine.root / "www" / "shpo"))
    deployment = run(machine, site, anyway=True)
    assert (deployment.status, deployment.status_words) == (DeploymentStatus.SUCCEEDED, "Deployed")
    assert deployment.anyway
    assert re.search("responds with 40[34] now and responded with 200 before", deployment.observation)
    assert SiteState.objects.get().health == Health.FAILING


def test_new_site_without_its_application_is_deployed_and_said_not_to_answer(
    machine: Machine, web_server: WebServer
) -> None:
    site = proxied(machine, "shop", web_server, free_port())
    deployment = run(machine, site)
    assert (deployment.status, deployment.status_words) == (DeploymentStatus.SUCCEEDED, "Deployed")
    assert health(deployment)["verdict"] == "waits"
    assert "responds with 50" in deployment.observation
    state = SiteState.objects.get()
    assert (state.status, state.health) == (SiteStatus.LIVE, Health.FAILING)
    assert "responds with 50" in state.health_words
    assert state.health_at is not None and state.health_since is not None


def test_trouble_that_was_there_before_does_not_roll_back(machine: Machine, web_server: WebServer) -> None:
    site = proxied(machine, "shop", web_server, free_port())
    run(machine, site)
    edit(machine, site, gzip="on")
    deployment = run(machine, site)
    assert (deployment.status, deployment.status_words) == (DeploymentStatus.SUCCEEDED, "Deployed")
    assert health(deployment)["verdict"] == "same"
    assert deployment.observation.startswith("shop: the health page http://shop.example")
    assert deployment.observation.endswith("as before.")


def test_redeploying_what_is_there_observes_the_health_page_again(machine: Machine, web_server: WebServer) -> None:
    port = free_port()
    site = proxied(machine, "shop", web_server, port)
    with Application(port):
        assert run(machine, site).is_verified
    deployment = run(machine, site)
    assert not deployment.is_verified
    assert "as before" in deployment.observation
    assert SiteState.objects.get().health == Health.FAILING


def test_one_broken_location_rolls_back_though_the_health_page_answers(machine: Machine, web_server: WebServer) -> None:
    site = machine.site("shop", web_server)
    folder = machine.files("shop")
    (folder / "docs").mkdir()
    (folder / "docs" / "index.html").write_text("docs")
    owner = machine.people.owner
    location = websites.location_create(actor=owner, block=site.blocks.get(), pattern="/docs/", handler="static")
    assert machine.deploy(site).is_verified
    upstream = websites.upstream_create(
        actor=owner, site=site, name="gone", servers=[{"address": f"127.0.0.1:{free_port()}"}]
    )
    websites.location_update(actor=owner, location=location, handler="proxy", upstream=upstream)
    deployment = run(machine, site)
    assert deployment.status == DeploymentStatus.ROLLED_BACK, deployment.checks
    assert "/docs/" in deployment.error
    assert machine.get("shop", "/docs/").text == "docs"


def test_new_location_whose_application_is_down_is_kept(machine: Machine, web_server: WebServer) -> None:
    site = machine.site("shop", web_server)
    machine.deploy(site)
    owner = machine.people.owner
    upstream = websites.upstream_create(
        actor=owner, site=site, name="app", servers=[{"address": f"127.0.0.1:{free_port()}"}]
    )
    websites.location_create(actor=owner, block=site.blocks.get(), pattern="/api/", handler="proxy", upstream=upstream)
    deployment = run(machine, site)
    assert deployment.status == DeploymentStatus.SUCCEEDED, deployment.error
    (row,) = [row for row in deployment.checks if "/api/" in row["url"]]
    assert row["verdict"] == "waits"
    assert deployment.is_verified, "its health page answers"
    assert "/api/" in deployment.observation


def test_busiest_addresses_of_the_access_log_are_asked_without_their_queries(
    machine: Machine, web_server: WebServer
) -> None:
    folder = machine.files("shop")
    (folder / "prices.html").write_text("prices")
    site = machine.site("shop", web_server)
    edit(machine, site, access_log=f"{web_server.paths['log_dir']}/shop.log")
    machine.deploy(site)
    for _ in range(3):
        machine.get("shop", "/prices.html?token=secret")
    machine.get("shop", "/reset/a1b2c3d4e5f6a7b8c9d0")
    machine.get("shop", "/not-there")
    edit(machine, site, gzip="on")
    deployment = run(machine, site)
    assert [row.path for row in deployment.plan.busiest] == ["/prices.html"]
    assert "secret" not in str(deployment.checks)
    edit(machine, site, root=str(machine.files("other")))
    broken = run(machine, site)
    assert broken.status == DeploymentStatus.ROLLED_BACK
    assert "/prices.html" in broken.error


def test_password_that_the_draft_asks_for_is_no_harm(machine: Machine, web_server: WebServer) -> None:
    site = machine.site("shop", web_server)
    machine.deploy(site)
    websites.location_create(
        actor=machine.people.owner,
        block=site.blocks.get(),
        pattern="/",
        handler="static",
        basic_auth_realm="Members",
        basic_auth_users={"ann": "$2y$12$" + "a" * 53},
    )
    deployment = run(machine, site)
    assert (deployment.status, deployment.is_verified) == (DeploymentStatus.SUCCEEDED, True), deployment.error
    assert health(deployment)["after"]["status"] == 401


def test_health_expectations_are_held(machine: Machine, web_server: WebServer) -> None:
    """Status, text and request header of the health page, which is another address than /."""
    port = free_port()
    with Application(port) as application:
        site = proxied(machine, "shop", web_server, port)
        expected = {"health_path": "/health", "health_text": "all is well", "health_header": "X-Check: paddock"}
        websites.site_update(actor=machine.people.owner, site=site, health_status=200, **expected)
        deployment = run(machine, site)
        assert deployment.is_verified, deployment.checks
        assert "/health" in application.asked
        websites.site_update(actor=machine.people.owner, site=site, health_header="")
        edit(machine, site, gzip="on")
        again = run(machine, site)
    assert (again.status, again.is_verified) == (DeploymentStatus.SUCCEEDED, False)
    assert "without the expected text" in again.observation


def test_redirect_to_itself_is_worse(machine: Machine, web_server: WebServer) -> None:
    site = machine.site("shop", web_server)
    machine.deploy(site)
    port = free_port()
    with Application(port, 302, Location=f"http://shop.example:{machine.port}/"):
        owner = machine.people.owner
        upstream = websites.upstream_create(
            actor=owner, site=site, name="app", servers=[{"address": f"127.0.0.1:{port}"}]
        )
        websites.location_create(
            actor=owner,
            block=site.blocks.get(),
            pattern="/",
            handler="proxy",
            upstream=upstream,
            request_headers=[{"name": "Host", "value": f"shop.example:{machine.port}"}],
        )
        deployment = run(machine, site)
    assert deployment.status == DeploymentStatus.ROLLED_BACK, deployment.checks
    assert "302 to itself" in deployment.error


def test_expired_certificate_does_not_block_its_own_renewal(machine: Machine, web_server: WebServer) -> None:
    people = machine.people
    old = websites.certificate_self_sign(actor=people.owner, team=people.team, name="old", names=["shop.example"])
    new = websites.certificate_self_sign(actor=people.owner, team=people.team, name="new", names=["shop.example"])
    site = machine.site("shop", web_server, certificate=old)
    first = machine.deploy(site)
    assert health(first)["after"]["certificate"] == old.fingerprint
    type(old).objects.filter(pk=old.pk).update(not_after=dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    edit(machine, site, certificate=new)
    deployment = run(machine, site)
    assert (deployment.status, deployment.is_verified) == (DeploymentStatus.SUCCEEDED, True), deployment.error
    row = health(deployment)
    assert (row["before"]["certificate"], row["after"]["certificate"]) == (old.fingerprint, new.fingerprint)
    assert row["verdict"] == "changed"
    assert "another certificate" in row["words"]


def test_move_to_a_host_without_the_files_leaves_the_working_site_alone(
    remote: Machine, nginx: NginxInstance, server_root: Path, agent_home: Path
) -> None:
    site = remote.site("shop", remote.web_server(nginx, Engine.NGINX))
    remote.deploy(site)
    other = Host.objects.create(
        name="web-2", connection="local", status=HostStatus.READY, site_roots=[str(server_root / "second" / "www")]
    )
    with NginxInstance(server_root / "second") as second:
        there = WebServer.objects.create(host=other, engine=Engine.NGINX, paths=second.paths, layout="sites")
        # Both hosts are this machine here: another port, and a folder that is empty there.
        block = site.blocks.get()
        block.listens.update(port=free_port())
        type(block).objects.filter(pk=block.pk).update(root=str(server_root / "second" / "www" / "shop"))
        up, down = services.site_move(actor=remote.people.owner, site=site, web_server=there)
        remote.run(up)
        assert up.status == DeploymentStatus.ROLLED_BACK, up.checks
        assert "responds with 404 now and responded with 200 before" in up.error
        down.refresh_from_db()
        assert down.status == DeploymentStatus.CANCELLED
    assert ask(remote.port, host="shop.example").text == "this is shop"
