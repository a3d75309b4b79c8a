"""Deployments to several hosts at once: fast together, and independent of each other."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from panel.core.claims import Attempt
from panel.deployments import tasks, waking
from panel.deployments.execution import services as execution
from panel.deployments.models import DeploymentStatus, SiteState, SiteStatus
from panel.deployments.planning import services
from panel.hosts.locks import host_lock
from panel.hosts.models import Connection, Engine, Host, HostLock, HostStatus, Layout, WebServer
from tests.deployments.real_host import Machine
from tests.deployments.test_workers import worker
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.waiting import eventually


class Fleet:
    """Three hosts with a server and a site each. They share this machine and its agents' journal."""

    def __init__(self, machine: Machine, servers: list[NginxInstance]) -> None:
        self.owner = machine.people.owner
        self.ports = [free_port() for _ in servers]
        sites = []
        for server, port in zip(servers, self.ports, strict=True):
            host = Host.objects.create(
                name=f"many-{port}",
                connection=Connection.LOCAL,
                status=HostStatus.READY,
                site_roots=[str(machine.root / "www")],
            )
            values = {"engine": Engine.NGINX, "paths": server.paths, "layout": Layout.SITES}
            web_server = WebServer.objects.create(host=host, **values)
            sites.append(machine.site(f"site-{port}", web_server, port=port))
        self.planned = services.deployment_plan(actor=self.owner, sites=sites)
        services.deployment_confirm(actor=self.owner, deployment=self.planned[0])

    def execute(self) -> list[Attempt]:
        return list(execution.deployments_execute([row.uuid for row in self.planned]).values())

    def statuses(self) -> list[str]:
        for row in self.planned:
            row.refresh_from_db()
        return [row.status for row in self.planned]

    def assert_live(self) -> None:
        assert self.statuses() == [DeploymentStatus.SUCCEEDED] * 3, [row.error for row in self.planned]
        for port in self.ports:
            wanted = f"this is site-{port}"
            assert eventually(lambda: ask(port, "/", host=f"site-{port}.example").text == wanted)  # noqa: B023
        assert list(SiteState.objects.values_list("status", flat=True)) == [SiteStatus.LIVE] * 3
        for row in self.planned:
            assert list(row.steps.values_list("name", flat=True)).count("switch") == 1
        assert set(HostLock.objects.values_list("holder", flat=True)) == {""}


@pytest.fixture
def fleet(machine: Machine, server_root: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(machine, [stack.enter_context(NginxInstance(server_root / f"n{number}")) for number in range(3)])


def test_deployments_of_batch_run_together(fleet: Fleet) -> None:
    assert fleet.execute() == [Attempt.DONE] * 3
    fleet.assert_live()
    assert fleet.execute() == [Attempt.NOTHING] * 3


def test_one_message_wakes_worker_for_whole_batch(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[tuple[str, ...]] = []
    monkeypatch.setattr(waking, "task_send", lambda task, *uuids: messages.append(uuids))
    tasks.sweep()
    assert messages == [tuple(str(row.uuid) for row in fleet.planned)]
    tasks.run(*messages[0])
    fleet.assert_live()


def test_busy_host_does_not_delay_other_hosts(fleet: Fleet) -> None:
    first, second, third = fleet.planned
    with host_lock(second.host, "benchmark 7"):
        assert fleet.execute() == [Attempt.DONE, Attempt.BUSY, Attempt.DONE]
        assert fleet.statuses() == [first.status, DeploymentStatus.QUEUED, third.status]
    assert fleet.execute() == [Attempt.NOTHING, Attempt.DONE, Attempt.NOTHING]
    fleet.assert_live()


def test_deployment_that_cannot_be_prepared_fails_alone(fleet: Fleet) -> None:
    broken = fleet.planned[1]
    broken.plan.web_servers = [10**9]
    broken.save(update_fields=["plan"])
    assert fleet.execute() == [Attempt.DONE] * 3
    assert fleet.statuses() == [DeploymentStatus.SUCCEEDED, DeploymentStatus.FAILED, DeploymentStatus.SUCCEEDED]
    assert "before it contacted the host" in broken.error
    assert set(HostLock.objects.values_list("holder", flat=True)) == {""}


def test_deployment_result_is_fetched_again_when_database_write_fails(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host keeps the outcome, so the panel can ask for it once it can write again."""
    victim, write = fleet.planned[1].pk, execution.outcomes.ends_record

    def fails(claim: object, ends: list[execution.End]) -> None:
        if any(end.deployment.pk == victim for end in ends):
            raise ValueError("cannot be written")
        write(claim, ends)  # type: ignore[arg-type]

    monkeypatch.setattr(execution.outcomes, "ends_record", fails)
    fleet.execute()
    assert fleet.statuses() == [DeploymentStatus.SUCCEEDED, DeploymentStatus.QUEUED, DeploymentStatus.SUCCEEDED]
    monkeypatch.undo()
    fleet.execute()
    fleet.assert_live()


def test_end_of_a_deployment_wakes_those_that_wait_for_its_host(
    machine: Machine, nginx: NginxInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    web_server = machine.web_server(nginx, Engine.NGINX)
    plans = [machine.plan(machine.site(name, web_server)) for name in ("shop", "blog", "wiki")]
    for plan in plans:
        services.deployment_confirm(actor=machine.people.owner, deployment=plan)
    woken: list[str] = []
    monkeypatch.setattr(waking, "task_send", lambda _task, *uuids: woken.extend(uuids))
    tasks.run(str(plans[0].uuid))
    assert woken == [str(plans[1].uuid), str(plans[2].uuid)]


@pytest.mark.parametrize("point", ["journaled", "switched"])
def test_batch_of_killed_worker_is_resumed(
    fleet: Fleet, agent_home: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = worker(agent_home, f"hold:{point}", *fleet.planned)
    try:
        assert eventually(lambda: (agent_home / "agent" / "state" / "held").exists())
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert fleet.statuses() == [DeploymentStatus.RUNNING] * 3
    messages: list[tuple[str, ...]] = []
    monkeypatch.setattr(waking, "task_send", lambda task, *uuids: messages.append(uuids))
    tasks.sweep()
    assert messages == [tuple(str(row.uuid) for row in fleet.planned)]
    for _attempt in range(10):
        fleet.execute()
        if DeploymentStatus.QUEUED not in fleet.statuses():
            break
    fleet.assert_live()
