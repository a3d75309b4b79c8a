"""What gallop counts of a site, on the pages and in the API, from requests to a real server."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from pytest_django import Settings

from panel.hosts.execution import operation_execute
from panel.hosts.models import EngineInstall, JobStatus, OperationKind
from panel.hosts.services import operation_request
from panel.websites.models import Site
from tests.api.caller import caller_of
from tests.deployments.real import Machine
from tests.pages.conftest import signed_in
from tests.support.gallop import gallop_binary
from tests.support.http import ask
from tests.support.waiting import eventually


@pytest.fixture
def machine(transactional_db: None, agent_home: Path, server_root: Path, settings: Settings) -> Iterator[Machine]:
    """This machine with gallop as the panel installs it, and two teams' sites on it."""
    cache.clear()
    settings.GALLOP_BINARY = Path(gallop_binary())
    found = Machine(server_root)
    admin = found.people.admin
    operation = operation_request(actor=admin, host=found.host, kind=OperationKind.INSTALL_NATIVE)
    operation_execute(operation.uuid)
    operation.refresh_from_db()
    assert operation.status == JobStatus.SUCCEEDED, operation.error
    yield found
    for pid_file in server_root.rglob("gallop.pid"):
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGTERM)
        assert eventually(lambda pid=pid: not Path(f"/proc/{pid}").exists())


def sites(machine: Machine) -> tuple[Site, Site]:
    install = EngineInstall.objects.get(engine="native")
    shop = machine.site("shop", install)
    blog = machine.site("blog", install, actor=machine.people.outsider, team=machine.people.other_team)
    machine.deploy(shop)
    (plan,) = _plan(machine, blog)
    _confirm(machine, plan)
    assert machine.answers("shop", "this is shop") and machine.answers("blog", "this is blog")
    return shop, blog


def _plan(machine: Machine, site: Site) -> Any:
    from panel.deployments import services

    return services.deployment_plan(actor=machine.people.outsider, sites=[site])


def _confirm(machine: Machine, plan: Any) -> None:
    from panel.deployments import execution, services

    services.deployment_confirm(actor=machine.people.outsider, deployment=plan)
    execution.deployment_execute(plan.uuid)
    plan.refresh_from_db()
    assert plan.status == "succeeded", plan.error


def counted(client: Client, words: str, url: str = "/sites/shop/traffic/") -> bool:
    return eventually(lambda: words in client.get(url).content.decode(), timeout_s=20)


def test_a_site_shows_its_own_requests_and_no_others(machine: Machine) -> None:
    sites(machine)
    for _ in range(6):
        ask(machine.port, "/missing", host="shop.example")
    owner, viewer = caller_of(machine.people.owner), signed_in(machine.people.viewer)
    assert eventually(
        lambda: owner.get("sites/shop/traffic/").json()["zones"][0]["responses"]["4xx"] == 6, timeout_s=20
    )
    answer = owner.get("sites/shop/traffic/").json()
    assert [zone["name"] for zone in answer["zones"]] == ["shop"]
    zone = answer["zones"][0]
    assert zone["requests"] == sum(zone["responses"].values()) >= 7
    assert zone["latency_ms"]["p50"] <= zone["latency_ms"]["p99"]
    assert sum(count for _, count in zone["latency_histogram"]) == zone["requests"]
    assert "connections" not in answer and "blog" not in str(answer)
    page = viewer.get("/sites/shop/traffic/").content.decode()
    assert "4xx" in page and 'class="columns"' in page and "blog" not in page
    part = viewer.get("/sites/shop/traffic/", HTTP_HX_REQUEST="true", HTTP_HX_TARGET="traffic").content.decode()
    assert part.startswith('<div id="traffic"') and "<html" not in part
    outsider = machine.people.outsider
    assert signed_in(outsider).get("/sites/shop/traffic/").status_code == 404
    assert caller_of(outsider).get("sites/shop/traffic/").status_code == 404


def test_the_hosts_page_shows_every_site_to_administrators_alone(machine: Machine) -> None:
    sites(machine)
    admin = signed_in(machine.people.admin)
    url = f"/hosts/{machine.host.name}/traffic/"
    assert counted(admin, "/sites/blog/traffic/", url)
    page = admin.get(url).content.decode()
    assert "gallop/" in page and "/sites/shop/traffic/" in page and "QUIC" in page
    (server,) = caller_of(machine.people.admin).get(f"hosts/{machine.host.name}/traffic/").json()["servers"]
    assert server["engine"] == "native" and server["traffic"]["connections"]["active"] >= 1
    assert {zone["name"] for zone in server["traffic"]["zones"]} == {"shop", "blog"}
    assert signed_in(machine.people.owner).get(url).status_code == 403
    assert caller_of(machine.people.owner).get(f"hosts/{machine.host.name}/traffic/").status_code == 403
    assert caller_of(machine.people.admin, ["read"]).get(f"hosts/{machine.host.name}/traffic/").status_code == 403


def test_rates_come_from_two_readings_and_counts_outlive_a_reload(machine: Machine) -> None:
    shop, _blog = sites(machine)
    caller = caller_of(machine.people.owner)
    before = caller.get("sites/shop/traffic/").json()
    for _ in range(40):
        ask(machine.port, "/", host="shop.example")

    def grew() -> bool:
        now = caller.get("sites/shop/traffic/").json()
        return now["zones"][0]["requests"] >= before["zones"][0]["requests"] + 40

    assert eventually(grew, timeout_s=20)
    machine.deploy(shop)  # nothing changed, or a reload: either way what was counted stays
    assert caller.get("sites/shop/traffic/").json()["zones"][0]["requests"] >= 40


def test_a_server_that_does_not_run_or_does_not_tell_says_so(machine: Machine) -> None:
    shop, _blog = sites(machine)
    install = EngineInstall.objects.get(engine="native")
    pid = int(Path(install.paths["pid_file"]).read_text())
    os.kill(pid, signal.SIGTERM)
    assert eventually(lambda: not Path(f"/proc/{pid}").exists())
    page = signed_in(machine.people.owner).get("/sites/shop/traffic/").content.decode()
    assert "is the server running?" in page
    EngineInstall.objects.filter(pk=install.pk).update(engine="nginx")
    page = signed_in(machine.people.owner).get("/sites/shop/traffic/").content.decode()
    assert "does not tell the panel what it counts" in page and 'hx-trigger="every' not in page
    assert caller_of(machine.people.owner).get("sites/shop/traffic/").status_code == 422
    Site.objects.filter(pk=shop.pk).update(install=None)
    assert "is on no server yet" in signed_in(machine.people.owner).get("/sites/shop/traffic/").content.decode()
