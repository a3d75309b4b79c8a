"""A machine with gallop as the panel installs it, and sites of two teams on it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.cache import cache
from pytest_django import Settings

from panel.core.jobs import JobStatus
from panel.deployments.execution import services as execution
from panel.deployments.models import DeploymentStatus
from panel.deployments.planning import services
from panel.hosts.execution import host_job_execute
from panel.hosts.models import HostJobKind, WebServer
from panel.hosts.services import host_job_request
from panel.remote import pool
from panel.websites.models import Site
from tests.deployments.real_host import Machine
from tests.support.gallop import gallop_binary
from tests.support.waiting import eventually


@contextmanager
def with_gallop(root: Path, settings: Settings) -> Iterator[Machine]:
    """`root` holds the host; gallop runs on it until the end."""
    cache.clear()
    settings.LOCAL_HOST_ROOT = root / "agent-home"
    settings.GALLOP_BINARY = Path(gallop_binary())
    machine = Machine(root)
    try:
        job = host_job_request(actor=machine.people.admin, host=machine.host, kind=HostJobKind.INSTALL_NATIVE)
        host_job_execute(job.uuid)
        job.refresh_from_db()
        assert job.status == JobStatus.SUCCEEDED, job.error
        yield machine
    finally:
        for pid_file in root.rglob("gallop.pid"):
            stop(int(pid_file.read_text()))
        pool.close()


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)
    assert eventually(lambda: not Path(f"/proc/{pid}").exists())


def two_sites(machine: Machine) -> tuple[Site, Site]:
    """`shop` of the owner's team, `blog` of the outsider's, both answering."""
    web_server = WebServer.objects.get(engine="native")
    people = machine.people
    shop = machine.site("shop", web_server)
    blog = machine.site("blog", web_server, actor=people.outsider, team=people.other_team)
    for site, actor in ((shop, people.owner), (blog, people.outsider)):
        (deployment,) = services.deployment_plan(actor=actor, sites=[site])
        services.deployment_confirm(actor=actor, deployment=deployment)
        execution.deployment_execute(deployment.uuid)
        deployment.refresh_from_db()
        assert deployment.status == DeploymentStatus.SUCCEEDED, deployment.error
    assert machine.answers("shop", "this is shop") and machine.answers("blog", "this is blog")
    return shop, blog
