"""Upstream servers by name: the host resolves them, and a plan rejects metadata services of clouds."""

from __future__ import annotations

import pytest

from panel.core.errors import ApplicationError
from panel.deployments.models import Deployment, DeploymentStatus
from panel.hosts.models import Engine, Host, HostStatus
from panel.websites import services as websites
from panel.websites.models import UpstreamServer
from tests.deployments.real_host import Machine
from tests.support.nginx import NginxInstance


def test_plan_is_rejected_when_name_resolves_to_metadata_service(machine: Machine, nginx: NginxInstance) -> None:
    """Only the host's resolver understands the name, which was stored before such notations were rejected."""
    site = machine.site("shop", machine.web_server(nginx, Engine.NGINX))
    upstream = websites.upstream_create(
        actor=machine.people.owner, site=site, name="app", servers=[{"address": "app.internal:80"}]
    )
    UpstreamServer.objects.filter(upstream=upstream).update(address="0xa9fea9fe:80")
    with pytest.raises(ApplicationError, match=r"resolves to 169\.254\.169\.254, the metadata service"):
        machine.plan(site)
    assert not Deployment.objects.filter(items__site=site).exists()
    UpstreamServer.objects.filter(upstream=upstream).update(address="app.invalid:80")
    assert machine.plan(site).plan.unchecked == ""


def test_deployment_resolves_names_again_before_upload(machine: Machine, nginx: NginxInstance) -> None:
    """The host was unreachable when the plan was created."""
    site = machine.site("shop", machine.web_server(nginx, Engine.NGINX))
    upstream = websites.upstream_create(
        actor=machine.people.owner, site=site, name="app", servers=[{"address": "app.internal:80"}]
    )
    UpstreamServer.objects.filter(upstream=upstream).update(address="0xa9fea9fe:80")
    Host.objects.update(status=HostStatus.UNREACHABLE)
    deployment = machine.plan(site)
    assert deployment.plan.unchecked
    Host.objects.update(status=HostStatus.READY)
    deployment = machine.run(deployment)
    assert deployment.status == DeploymentStatus.FAILED
    assert "resolves to 169.254.169.254" in deployment.error
    assert not list((nginx.root / "sites-enabled").glob("*shop*"))
