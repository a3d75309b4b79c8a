"""Actions beside deployments, over a real sshd on each web server: clones, logs, services and facts.

OpenLiteSpeed takes part where PADDOCK_OPENLITESPEED names an installation (server_traits.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from panel.core.claims import Attempt
from panel.core.jobs import JobStatus
from panel.hosts.execution import host_job_execute
from panel.hosts.logs import host_log_tail, host_logs
from panel.hosts.models import HostJob, HostJobKind
from panel.hosts.services import host_job_request
from panel.websites import services as websites
from panel.websites.logs import site_log_tail, site_logs
from panel.websites.models import Site
from tests.deployments.real_host import Machine
from tests.deployments.server_traits import Served
from tests.support.http_client import ask
from tests.support.ports import free_port
from tests.support.waiting import eventually


def asked(machine: Machine, kind: str, **params: Any) -> HostJob:
    job = host_job_request(actor=machine.people.admin, host=machine.host, kind=kind, params=params)
    assert host_job_execute(job.uuid) == Attempt.DONE
    job.refresh_from_db()
    return job


@pytest.fixture
def shop(remote: Machine, served: Served) -> Site:
    """Live, with logs of its own."""
    site = remote.site("shop", served.web_server(remote))
    folder = served.server.paths["log_dir"]
    block = site.blocks.get()
    logs = {"access_log": f"{folder}/shop.access.log", "error_log": f"{folder}/shop.error.log"}
    websites.block_update(actor=remote.people.admin, block=block, **logs)
    remote.deploy(site)
    assert remote.answers("shop", "this is shop")
    return site


def test_cloned_site_responds_beside_original(remote: Machine, shop: Site) -> None:
    twin = websites.site_clone(actor=remote.people.owner, site=shop, name="twin", domains=["twin.example"])
    elsewhere = websites.site_clone(
        actor=remote.people.owner, site=shop, name="third", domains=["third.example"], port=(port := free_port())
    )
    for site in (twin, elsewhere):
        block = site.blocks.get()
        websites.block_update(actor=remote.people.admin, block=block, root=str(remote.files(site.name)))
    remote.deploy(twin, elsewhere)
    assert remote.answers("twin", "this is twin")
    assert remote.answers("shop", "this is shop")
    assert eventually(lambda: ask(port, host="third.example").text == "this is third")


def test_site_logs_are_read_from_the_end(remote: Machine, shop: Site) -> None:
    user = remote.people.admin
    access = next(log for log in site_logs(user, shop) if log.path.endswith("shop.access.log"))

    def lines(wanted: int) -> list[str]:
        return site_log_tail(user, shop, access, lines=wanted)

    for number in range(5):
        remote.get("shop", f"/asked-{number}")
    assert eventually(lambda: any("/asked-4" in line for line in lines(50)))
    assert ["/asked-3" in lines(2)[0], "/asked-4" in lines(2)[1]] == [True, True]
    common = next(log for log in host_logs(remote.host) if log.path.endswith("/error.log"))
    Path(common.path).touch()  # a server that has nothing to say may not have made it
    assert isinstance(host_log_tail(remote.host, common), list)


def test_web_server_is_stopped_started_and_reloaded(remote: Machine, shop: Site) -> None:
    web_server = shop.web_server
    assert web_server is not None
    for action, running in (("stop", False), ("start", True), ("reload", True)):
        job = asked(remote, HostJobKind.SERVICE, web_server=web_server.pk, action=action)
        assert job.status == JobStatus.SUCCEEDED, job.error
        web_server.refresh_from_db()
        assert web_server.is_running is running
        assert eventually(lambda wanted=running: is_served(remote) is wanted)  # type: ignore[misc]


def is_served(machine: Machine) -> bool:
    try:
        return machine.get("shop").text.strip() == "this is shop"
    except OSError:
        return False


def test_host_check_finds_web_server_and_its_facts(remote: Machine, shop: Site) -> None:
    job = asked(remote, HostJobKind.CHECK)
    assert job.status == JobStatus.SUCCEEDED, job.error
    web_server = shop.web_server
    assert web_server is not None
    web_server.refresh_from_db()
    assert (web_server.is_running, bool(web_server.version)) == (True, True)
    assert str(web_server) in job.result["servers"]
