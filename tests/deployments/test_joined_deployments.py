"""Deployments that wait for the same host are one transaction with one reload, and none suffers from another."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from uuid import uuid4

import pytest
from django.utils import timezone

from panel.core.claims import Attempt
from panel.deployments import tasks, waking
from panel.deployments.execution import services as execution
from panel.deployments.models import Deployment, DeploymentStatus, SiteState, SiteStatus, Step, WebServerState
from panel.deployments.planning import services
from panel.hosts.models import Engine, HostLock, WebServer
from panel.websites import services as websites
from panel.websites.models import Site
from tests.api.caller import caller_of
from tests.deployments.real_host import Machine
from tests.deployments.test_workers import worker
from tests.support.apache import ApacheInstance
from tests.support.cast import signed_in
from tests.support.nginx import NginxInstance
from tests.support.waiting import eventually

NAMES = ("shop", "blog", "wiki")


class Queue:
    """One deployment for each of three sites of a host, all confirmed."""

    def __init__(self, machine: Machine, web_server: WebServer, *names: str) -> None:
        self.machine = machine
        self.sites = {name: machine.site(name, web_server) for name in names or NAMES}
        self.rows = {name: self.confirmed(site) for name, site in self.sites.items()}

    def confirmed(self, site: Site) -> Deployment:
        plan = self.machine.plan(site)
        services.deployment_confirm(actor=self.machine.people.owner, deployment=plan)
        return plan

    def execute(self) -> list[Attempt]:
        return list(execution.deployments_execute([row.uuid for row in self.rows.values()]).values())

    def execute_all(self) -> None:
        for _attempt in range(10):
            self.execute()
            if not {DeploymentStatus.QUEUED, DeploymentStatus.RUNNING} & set(self.statuses().values()):
                return
        raise AssertionError(self.statuses())

    def statuses(self) -> dict[str, str]:
        for row in self.rows.values():
            row.refresh_from_db()
        return {name: row.status for name, row in self.rows.items()}

    def assert_live(self, *names: str) -> None:
        statuses = self.statuses()
        for name in names or self.rows:
            assert statuses[name] == DeploymentStatus.SUCCEEDED, self.rows[name].error
            assert self.machine.answers(name, f"this is {name}")
            assert SiteState.objects.get(site__name=name).status == SiteStatus.LIVE
        assert set(HostLock.objects.values_list("holder", flat=True)) == {""}


@pytest.fixture
def web_server(machine: Machine, nginx: NginxInstance) -> WebServer:
    return machine.web_server(nginx, Engine.NGINX)


@pytest.fixture
def queue(machine: Machine, web_server: WebServer) -> Queue:
    return Queue(machine, web_server)


def test_waiting_deployments_of_a_host_share_one_reload(queue: Queue, nginx: NginxInstance) -> None:
    before = nginx.reloads()
    assert queue.execute() == [Attempt.DONE] * 3
    queue.assert_live()
    assert nginx.reloads() == before + 1
    assert len({row.joined_as for row in queue.rows.values()} - {None}) == 1
    for name, row in queue.rows.items():
        assert row.is_verified and {check["site"] for check in row.checks} == {name}
        assert list(row.steps.values_list("name", flat=True)).count("reload") == 1
        assert Site.objects.get(name=name).version == SiteState.objects.get(site__name=name).live_version


def test_page_and_api_name_the_deployments_of_the_same_transaction(queue: Queue) -> None:
    queue.execute()
    owner, shop = queue.machine.people.owner, queue.rows["shop"]
    response = signed_in(owner).get(f"/deployments/{shop.uuid}")
    assert response.status_code == 200, response.headers
    page = response.content.decode()
    assert "Deployed together" in page and f'/deployments/{queue.rows["wiki"].uuid}"' in page
    shop.refresh_from_db()
    listed = caller_of(owner).get(f"deployments/?joined_as={shop.joined_as}").json()
    assert {row["uuid"] for row in listed["results"]} == {str(row.uuid) for row in queue.rows.values()}


def test_rejected_configuration_of_one_site_does_not_stop_the_others(queue: Queue, nginx: NginxInstance) -> None:
    blog, admin = queue.sites["blog"], queue.machine.people.admin
    services.deployment_cancel(actor=queue.machine.people.owner, deployment=queue.rows["blog"])
    text = "keepalive_timeout 5s;\nkeepalive_timeout 6s;"
    websites.snippet_create(actor=admin, site=blog, block=blog.blocks.get(), engine="nginx", text=text)
    queue.rows["blog"] = queue.confirmed(blog)
    before = nginx.reloads()
    assert queue.execute() == [Attempt.DONE] * 3
    assert set(queue.statuses().values()) == {DeploymentStatus.QUEUED} and nginx.reloads() == before
    assert "because the joint deployment failed" in queue.rows["shop"].progress
    assert not Step.objects.exists()
    queue.execute_all()
    queue.assert_live("shop", "wiki")
    assert queue.statuses()["blog"] == DeploymentStatus.ROLLED_BACK
    assert "keepalive_timeout" in last_output(queue.rows["blog"])
    assert {row.joined_as for row in queue.rows.values()} == {None}


def last_output(row: Deployment) -> str:
    return row.error + "".join(row.steps.values_list("output", flat=True))


def test_site_that_gets_worse_is_rolled_back_and_the_others_stay(queue: Queue) -> None:
    queue.execute_all()
    for site in queue.sites.values():
        websites.site_update(actor=queue.machine.people.owner, site=site, cache_mb=150)
        websites.block_update(actor=queue.machine.people.owner, block=site.blocks.get(), index=["index.html", "a.html"])
    missing = queue.machine.root / "www" / "missing"
    missing.mkdir()
    websites.block_update(actor=queue.machine.people.owner, block=queue.sites["blog"].blocks.get(), root=str(missing))
    queue.rows = {name: queue.confirmed(site) for name, site in queue.sites.items()}
    queue.execute_all()
    queue.assert_live("shop", "wiki")
    assert queue.statuses()["blog"] == DeploymentStatus.ROLLED_BACK
    assert queue.machine.answers("blog", "this is blog")


def test_sites_of_different_teams_are_not_joined(machine: Machine, web_server: WebServer) -> None:
    queue = Queue(machine, web_server, "shop", "wiki")
    people = machine.people
    foreign = machine.site("blog", web_server, actor=people.admin, team=people.other_team)
    (plan,) = services.deployment_plan(actor=people.admin, sites=[foreign])
    services.deployment_confirm(actor=people.admin, deployment=plan)
    queue.rows = {"shop": queue.rows["shop"], "blog": plan, "wiki": queue.rows["wiki"]}
    Deployment.objects.filter(pk=queue.rows["wiki"].pk).update(confirmed_at=timezone.now())
    assert queue.execute() == [Attempt.DONE, Attempt.BUSY, Attempt.BUSY]
    queue.execute_all()
    queue.assert_live()
    assert {row.joined_as for row in queue.rows.values()} == {None}


def test_result_of_a_joined_transaction_is_recorded_after_the_panel_could_not(
    queue: Queue, nginx: NginxInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_claim: object, _ends: list[execution.End]) -> None:
        raise ValueError("cannot be written")

    before = nginx.reloads()
    monkeypatch.setattr(execution.outcomes, "ends_record", fails)
    queue.execute()
    assert set(queue.statuses().values()) == {DeploymentStatus.QUEUED}
    monkeypatch.undo()
    assert queue.execute() == [Attempt.DONE] * 3
    queue.assert_live()
    assert nginx.reloads() == before + 1


@pytest.mark.parametrize("point", ["journaled", "switched"])
def test_joined_transaction_of_a_killed_worker_is_resumed(
    queue: Queue, agent_home: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = worker(agent_home, f"hold:{point}", *queue.rows.values())
    try:
        assert eventually(lambda: (agent_home / "agent" / "state" / "held").exists())
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert set(queue.statuses().values()) == {DeploymentStatus.RUNNING}
    monkeypatch.setattr(waking, "task_send", lambda task, *uuids: None)
    tasks.sweep()
    queue.execute_all()
    queue.assert_live()
    for row in queue.rows.values():
        assert list(row.steps.values_list("name", flat=True)).count("switch") == 1


def test_joined_transaction_that_never_reached_the_host_is_replaced_by_single_ones(queue: Queue) -> None:
    token = uuid4()
    pks = [row.pk for row in queue.rows.values()]
    Deployment.objects.filter(pk__in=pks).update(joined_as=token, started_at=timezone.now())
    assert queue.execute() == [Attempt.DONE] * 3
    assert set(queue.statuses().values()) == {DeploymentStatus.QUEUED}
    assert all(row.runs_alone for row in queue.rows.values())
    queue.execute_all()
    queue.assert_live()


def test_joined_deployments_on_apache_share_their_listen_file(machine: Machine, apache: ApacheInstance) -> None:
    web_server = machine.web_server(apache, Engine.APACHE)
    queue = Queue(machine, web_server)
    assert queue.execute() == [Attempt.DONE] * 3
    queue.assert_live()
    state = WebServerState.objects.get(web_server=web_server)
    assert [file["path"] for file in state.files] == sorted({file["path"] for file in state.files})
