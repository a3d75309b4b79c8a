"""Workers that race, die or lose their connection: the row decides, and the host's journal has the outcome."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connection

from panel.core.claims import Attempt
from panel.deployments import tasks, waking
from panel.deployments.execution import services as execution
from panel.deployments.models import Deployment, DeploymentStatus, SiteState, SiteStatus
from panel.deployments.planning import services
from panel.hosts.locks import host_lock
from panel.hosts.models import Engine, HostLock
from panel.remote import pool
from tests.deployments.real_host import Machine
from tests.support.nginx import NginxInstance
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
WORKER = """
import sys, django
django.setup()
from uuid import UUID
from django.conf import settings
from pathlib import Path
settings.LOCAL_HOST_ROOT = Path(sys.argv[1])
from panel.deployments.execution.services import deployments_execute
deployments_execute([UUID(uuid) for uuid in sys.argv[2:]])
"""


def confirmed(machine: Machine, nginx: NginxInstance) -> Deployment:
    site = machine.site("shop", machine.web_server(nginx, Engine.NGINX))
    deployment = machine.plan(site)
    services.deployment_confirm(actor=machine.people.owner, deployment=deployment)
    return deployment


def database_url() -> str:
    values = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{values['NAME']}"
    user = f"{values['USER']}:{values['PASSWORD']}@" if values["PASSWORD"] else f"{values['USER']}@"
    return f"postgres://{user}{values['HOST']}:{values['PORT']}/{values['NAME']}"


def worker(home: Path, fault: str, *deployments: Deployment) -> subprocess.Popen[bytes]:
    """A worker in a process of its own, whose agents stop at `fault`."""
    env = os.environ | {
        "PADDOCK_DATABASE_URL": database_url(),
        "PADDOCK_ENCRYPTION_KEYS": ",".join(django_settings.ENCRYPTION_KEYS),
        "PADDOCK_AGENT_TEST": "1",
        "PADDOCK_AGENT_FAULT": fault,
        "DJANGO_SETTINGS_MODULE": "panel.settings",
    }
    uuids = [str(deployment.uuid) for deployment in deployments]
    return subprocess.Popen([sys.executable, "-c", WORKER, str(home), *uuids], env=env, cwd=ROOT)


def test_racing_workers_run_deployment_once(machine: Machine, nginx: NginxInstance) -> None:
    deployment = confirmed(machine, nginx)
    results: list[Attempt] = []
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        try:
            results.append(execution.deployment_execute(deployment.uuid))
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["done", "nothing", "nothing", "nothing"]
    deployment.refresh_from_db()
    assert deployment.status == DeploymentStatus.SUCCEEDED
    assert list(deployment.steps.values_list("name", flat=True)).count("switch") == 1


@pytest.mark.parametrize("point", ["journaled", "tested", "switched", "live"])
def test_deployment_of_killed_worker_is_resumed(
    machine: Machine, nginx: NginxInstance, agent_home: Path, point: str
) -> None:
    deployment = confirmed(machine, nginx)
    process = worker(agent_home, f"hold:{point}", deployment)
    try:
        reached = {"journaled": "journal", "tested": "test", "switched": "switch", "live": "start"}[point]
        reload_or_start = {"start", "reload"} if reached == "start" else {reached}
        assert eventually(lambda: deployment.steps.filter(name__in=reload_or_start, status="succeeded").exists())
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    deployment.refresh_from_db()
    assert deployment.status == DeploymentStatus.RUNNING
    assert execution.orphans_queue() == [deployment.uuid]
    assert execution.deployment_execute(deployment.uuid) == Attempt.DONE
    deployment.refresh_from_db()
    assert deployment.status == DeploymentStatus.SUCCEEDED, deployment.error
    assert machine.answers("shop", "this is shop")
    assert SiteState.objects.get().status == SiteStatus.LIVE
    assert list(deployment.steps.values_list("name", flat=True)).count("switch") == 1


@pytest.mark.parametrize("point", ["journaled", "switch-0", "switched", "reloaded", "committed"])
def test_killed_agent_leaves_old_or_new_state(
    machine: Machine, nginx: NginxInstance, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    deployment = confirmed(machine, nginx)
    pool.close()
    monkeypatch.setenv("PADDOCK_AGENT_TEST", "1")
    monkeypatch.setenv("PADDOCK_AGENT_FAULT", f"kill:{point}")

    def forget_fault(_seconds: float) -> None:
        monkeypatch.delenv("PADDOCK_AGENT_FAULT", raising=False)

    monkeypatch.setattr(time, "sleep", forget_fault)
    execution.deployment_execute(deployment.uuid)
    monkeypatch.undo()
    deployment.refresh_from_db()
    if deployment.status == DeploymentStatus.QUEUED:
        execution.deployment_execute(deployment.uuid)
        deployment.refresh_from_db()
    enabled = list((nginx.root / "sites-enabled").iterdir())
    if point == "committed":
        assert deployment.status == DeploymentStatus.SUCCEEDED
        assert machine.answers("shop", "this is shop")
    else:
        assert deployment.status == DeploymentStatus.ROLLED_BACK
        assert "killed" in deployment.error
        assert enabled == []
    assert not list(nginx.root.rglob(".paddock-*"))


@pytest.mark.parametrize("point", ["journaled", "tested", "switched", "live"])
def test_outcome_is_fetched_again_when_connection_breaks(remote: Machine, nginx: NginxInstance, point: str) -> None:
    """The agent waits at `point` until its channel breaks, then continues alone; the panel asks for the outcome."""
    sshd = remote.sshd
    assert sshd is not None
    sshd.stop()
    sshd.environment |= {"PADDOCK_AGENT_TEST": "1", "PADDOCK_AGENT_FAULT": f"hold:{point}"}
    sshd.start()
    deployment = confirmed(remote, nginx)
    pool.close()
    results: list[Attempt] = []

    def work() -> None:
        try:
            results.append(execution.deployment_execute(deployment.uuid))
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    reached = {"journaled": {"journal"}, "tested": {"test"}, "switched": {"switch"}, "live": {"reload", "start"}}[point]
    assert eventually(lambda: deployment.steps.filter(name__in=reached, status="succeeded").exists())
    assert sshd.process.process is not None
    listener = sshd.process.process.pid
    children = Path(f"/proc/{listener}/task/{listener}/children").read_text().split()
    assert children
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    thread.join(timeout=120)
    assert results == [Attempt.DONE]
    deployment.refresh_from_db()
    assert deployment.status == DeploymentStatus.SUCCEEDED, deployment.error
    assert remote.answers("shop", "this is shop")
    names = list(deployment.steps.values_list("name", flat=True))
    assert names.count("switch") == 1
    assert "probe" in names  # also what nobody was there to hear


def test_deployment_stays_queued_while_host_is_busy(machine: Machine, nginx: NginxInstance) -> None:
    deployment = confirmed(machine, nginx)
    with host_lock(machine.host, "benchmark 7"):
        assert execution.deployment_execute(deployment.uuid) == Attempt.BUSY
        deployment.refresh_from_db()
        assert deployment.status == DeploymentStatus.QUEUED
    assert execution.deployment_execute(deployment.uuid) == Attempt.DONE
    assert HostLock.objects.get().holder == ""


def test_messages_about_a_busy_host_repeat_themselves_a_few_times_only(
    machine: Machine, nginx: NginxInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = str(confirmed(machine, nginx).uuid)
    sent: list[tuple[tuple[str, ...], dict[str, Any]]] = []
    monkeypatch.setattr(tasks.run, "apply_async", lambda args, **options: sent.append((args, options)))
    with host_lock(machine.host, "benchmark 7"):
        for retries in range(5):
            tasks.run.apply(args=(uuid,), retries=retries)
    assert [args for args, _options in sent] == [(uuid,)] * 3
    assert [options["retries"] for _args, options in sent] == [1, 2, 3]
    assert sum(options["countdown"] for _args, options in sent) < 4, "less than between two sweeps"


def test_deployment_fails_without_changes_when_host_is_unreachable(remote: Machine, nginx: NginxInstance) -> None:
    deployment = confirmed(remote, nginx)
    remote.host.port = 1
    remote.host.save()
    execution.deployment_execute(deployment.uuid)
    deployment.refresh_from_db()
    assert deployment.status == DeploymentStatus.FAILED
    assert "The host was not changed." in deployment.error
    assert SiteState.objects.get().last_failure == deployment


def test_task_runs_deployment_and_sweep_finds_queued_ones(
    machine: Machine, nginx: NginxInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = confirmed(machine, nginx)
    woken: list[str] = []
    monkeypatch.setattr(waking, "task_send", lambda task, uuid: woken.append(uuid))
    tasks.sweep()
    assert woken == [str(deployment.uuid)]
    tasks.run(woken[0])
    deployment.refresh_from_db()
    assert deployment.status == DeploymentStatus.SUCCEEDED
    woken.clear()
    tasks.sweep()
    assert woken == []
