"""Whatever happens to a comparison, the site is served as before and nothing of the copies is left."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from panel.benchmarks.models import Run
from panel.comparisons import execution, results, services
from panel.comparisons.models import Comparison, ComparisonPhase, Contender, ContenderStatus
from panel.core.errors import Conflict
from panel.core.jobs import JobStatus
from panel.deployments.execution.services import deployment_execute
from panel.deployments.models import Deployment, DeploymentStatus, SiteState
from panel.deployments.planning import services as deployments
from panel.remote import pool
from panel.websites.models import Site
from tests.comparisons.conftest import LiveSites, before_comparing, carried_out
from tests.support.sshd import SshServer


class Killed(BaseException):
    """The worker's process ends here."""


def die() -> None:
    raise Killed


def test_comparison_of_dead_worker_removes_its_copies(live_sites: LiveSites, monkeypatch: pytest.MonkeyPatch) -> None:
    before_comparing(monkeypatch, die)
    comparison = live_sites.queued()
    with pytest.raises(Killed):
        execution.comparison_execute(comparison.uuid)
    assert Site.objects.count() == 4
    assert live_sites.files()
    Comparison.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=5))
    assert execution.orphans_queue() == [comparison.uuid]
    carried_out(comparison)
    assert (comparison.status, comparison.error) == (JobStatus.FAILED, execution.WORKER_GONE)
    live_sites.assert_as_before()


def test_cancelled_comparison_removes_its_copies(live_sites: LiveSites, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = live_sites.machine.people.owner
    before_comparing(monkeypatch, lambda: services.comparison_cancel(actor=owner, comparison=Comparison.objects.get()))
    comparison = live_sites.tried()
    assert (comparison.status, comparison.phase, comparison.run) == (JobStatus.CANCELLED, ComparisonPhase.CLEAN, None)
    live_sites.assert_as_before()
    with pytest.raises(Conflict):
        services.comparison_cancel(actor=owner, comparison=comparison)


def test_queued_comparison_is_cancelled_at_once(live_sites: LiveSites) -> None:
    comparison = live_sites.queued()
    services.comparison_cancel(actor=live_sites.machine.people.owner, comparison=comparison)
    assert carried_out(comparison).status == JobStatus.CANCELLED
    live_sites.assert_as_before()


@pytest.fixture
def dying_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ab that tells its version and else ends by a signal, as one that the kernel kills does."""
    real = shutil.which("ab")
    tool = tmp_path / "ab"
    tool.write_text(f'#!/bin/sh\n[ "$1" = -V ] && exec {real} -V\nkill -KILL $$\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_crashed_load_tool_leaves_no_valid_figures(dying_tool: None, live_sites: LiveSites) -> None:
    comparison = live_sites.tried()
    assert comparison.is_finished
    run = Run.objects.get()
    assert run.reasons or run.error, run.status
    live_sites.assert_as_before()


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Somebody takes the last of the copies' ports after it was found free."""
    real = execution._Course._ports
    with socket.socket() as other:

        def found(course: Any, contender: Contender, count: int) -> list[int]:
            ports = real(course, contender, count)
            other.bind(("127.0.0.1", ports[-1]))
            other.listen()
            return ports

        monkeypatch.setattr(execution._Course, "_ports", found)
        yield


def test_taken_port_excludes_that_web_server_only(taken: None, live_sites: LiveSites) -> None:
    comparison = live_sites.tried()
    assert comparison.status == JobStatus.SUCCEEDED, comparison.error
    found = list(comparison.contenders.values_list("status", flat=True))
    assert found == [ContenderStatus.SAME, ContenderStatus.SAME, ContenderStatus.REFUSED]
    assert comparison.contenders.get(position=2).detail
    live_sites.assert_as_before()


def test_disconnected_host_is_cleaned_up_after_reconnect(
    remote: tuple[LiveSites, SshServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    live_sites, sshd = remote

    def cut() -> None:
        pool.close()
        sshd.stop()

    before_comparing(monkeypatch, cut)
    comparison = live_sites.tried()
    assert (comparison.status, comparison.outcome) == (JobStatus.QUEUED, JobStatus.FAILED)
    assert comparison.remains.count("is not reachable") == 3
    assert comparison.retry_at is not None and comparison.retry_at > timezone.now()
    assert execution.orphans_queue() == []  # not before it is due
    with pytest.raises(Conflict, match="running"):
        live_sites.queued()
    sshd.start()
    Comparison.objects.update(retry_at=timezone.now())
    carried_out(comparison)
    assert (comparison.status, comparison.remains) == (JobStatus.FAILED, "")
    told = [step["status"] for step in results.steps(comparison)]
    assert told == ["succeeded", "succeeded", "failed", "skipped", "succeeded"]
    assert "is not reachable" in comparison.error
    live_sites.assert_as_before()


def test_copy_deployed_without_report_is_found_and_removed(
    live_sites: LiveSites, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The panel gave the deployment up after the host was silent for long; its agent had carried it out."""

    def given_up() -> None:
        copy = Contender.objects.get(position=1).copy
        rows = Deployment.objects.filter(items__site=copy)
        rows.update(status=DeploymentStatus.FAILED, error="not heard of since")
        SiteState.objects.filter(site=copy).delete()
        services.comparison_cancel(actor=live_sites.machine.people.owner, comparison=Comparison.objects.get())

    before_comparing(monkeypatch, given_up)
    live_sites.tried()
    live_sites.assert_as_before()


def test_deleted_site_leaves_no_copies(live_sites: LiveSites, monkeypatch: pytest.MonkeyPatch) -> None:
    def deleted() -> None:
        owner = live_sites.machine.people.owner
        plan = deployments.site_delete(actor=owner, site=live_sites.site)
        assert plan is not None
        deployments.deployment_confirm(actor=owner, deployment=plan)
        deployment_execute(plan.uuid)

    before_comparing(monkeypatch, deleted)
    comparison = live_sites.tried()
    assert comparison.status in (JobStatus.SUCCEEDED, JobStatus.FAILED)
    assert not Site.objects.exists()
    assert live_sites.files() == set()
    execution.forgotten_delete()
    assert not Comparison.objects.exists()
