"""A host that is silent for long: the record follows what the host's journal says when it responds again."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from django.test import Client

from panel.core.claims import Attempt
from panel.deployments import host_agent
from panel.deployments.execution import sending
from panel.deployments.execution import services as execution
from panel.deployments.execution.requests import jobs_make
from panel.deployments.models import Deployment, DeploymentStatus
from panel.deployments.planning import services
from panel.hosts.models import Engine
from panel.remote import pool
from panel.websites import services as websites
from panel.websites.models import Site
from tests.deployments.real_host import Machine
from tests.support.nginx import NginxInstance
from tests.support.sshd import SshServer
from tests.support.waiting import eventually

BEGIN_WITHIN_S = 1.0


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "BEGIN_WITHIN_S", BEGIN_WITHIN_S)
    monkeypatch.setattr(sending, "ASK_EVERY_S", 0.1)


@pytest.fixture
def site(remote: Machine, nginx: NginxInstance) -> Site:
    found = remote.site("shop", remote.web_server(nginx, Engine.NGINX))
    remote.deploy(found)
    return found


def sshd_of(remote: Machine) -> SshServer:
    assert remote.sshd is not None
    return remote.sshd


def new_content(remote: Machine, site: Site) -> Deployment:
    """A confirmed deployment that changes what the site answers."""
    folder = remote.files("shop-2", "this is the second shop")
    websites.block_update(actor=remote.people.owner, block=site.blocks.get(), root=str(folder))
    deployment = remote.plan(site)
    services.deployment_confirm(actor=remote.people.owner, deployment=deployment)
    return deployment


def carried_out(deployment: Deployment) -> Deployment:
    execution.deployment_execute(deployment.uuid)
    deployment.refresh_from_db()
    return deployment


def restart(sshd: SshServer, fault: str = "") -> Path:
    """Restart sshd so that its next agent has this fault; the file that says that it holds."""
    pool.close()
    sshd.stop()
    for name in ("PADDOCK_AGENT_TEST", "PADDOCK_AGENT_FAULT"):
        sshd.environment.pop(name, None)
    if fault:
        sshd.environment |= {"PADDOCK_AGENT_TEST": "1", "PADDOCK_AGENT_FAULT": fault}
    sshd.start()
    return Path(sshd.environment["PADDOCK_AGENT_STATE"]) / "held"


def cut_when_held(held: Path, sshd: SshServer) -> threading.Thread:
    """Make the host silent once its agent holds: no sshd, and the connection's own process is gone."""

    def run() -> None:
        assert eventually(lambda: held.exists() and bool(held.read_text()))
        sshd.stop()
        agent = int(held.read_text())
        os.kill(int(Path(f"/proc/{agent}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_deployment_waits_for_the_result_however_long_its_host_is_silent(
    remote: Machine, site: Site, client: Client
) -> None:
    sshd = sshd_of(remote)
    held = restart(sshd, "hold:switched")
    deployment = new_content(remote, site)
    cutting = cut_when_held(held, sshd)
    assert carried_out(deployment).status == DeploymentStatus.QUEUED
    cutting.join()
    threading.Event().wait(BEGIN_WITHIN_S)
    assert carried_out(deployment).status == DeploymentStatus.QUEUED, "only the host knows the result"
    assert "unknown until the host responds" in deployment.progress
    client.force_login(remote.people.owner)
    assert "unknown until the host responds" in client.get(f"/deployments/{deployment.uuid}").content.decode()
    restart(sshd)
    assert carried_out(deployment).status == DeploymentStatus.SUCCEEDED
    assert remote.get("shop").text == "this is the second shop"
    remote.deploy(site)


def test_deployment_that_the_host_had_not_begun_in_time_never_begins(remote: Machine, site: Site) -> None:
    sshd = sshd_of(remote)
    restart(sshd, "kill:locked")
    deployment = new_content(remote, site)
    request = jobs_make([(deployment,)])[0].request
    assert carried_out(deployment).status == DeploymentStatus.QUEUED
    assert "had not started the deployment" in deployment.progress
    threading.Event().wait(BEGIN_WITHIN_S)
    restart(sshd)
    assert carried_out(deployment).status == DeploymentStatus.FAILED
    assert "had not begun the deployment. Nothing was changed" in deployment.error
    late = host_agent.apply(remote.host, request, lambda event: None)
    assert late.outcome == "abandoned"
    assert remote.get("shop").text == "this is shop"
    remote.deploy(site)


def test_cancelled_deployment_of_a_silent_host_tells_that_its_result_is_unknown(remote: Machine, site: Site) -> None:
    sshd = sshd_of(remote)
    held = restart(sshd, "hold:switched")
    deployment = new_content(remote, site)
    cutting = cut_when_held(held, sshd)
    assert carried_out(deployment).status == DeploymentStatus.QUEUED
    cutting.join()
    services.deployment_cancel(actor=remote.people.owner, deployment=deployment)
    assert deployment.status == DeploymentStatus.CANCELLED and "check the host for drift" in deployment.error
    assert execution.deployment_execute(deployment.uuid) == Attempt.NOTHING
