"""A comparison starts servers that were stopped, and leaves every server as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from panel.comparisons import servers, services
from panel.comparisons.models import Comparison, Contender
from panel.core.errors import ApplicationError
from panel.core.jobs import JobStatus
from panel.hosts import execution as jobs
from panel.hosts.models import HostJobKind
from panel.hosts.services import host_job_request
from tests.comparisons.conftest import Stand, before_comparing, carried_out
from tests.support.ports import free_port


def tried_while(stand: Stand, monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> Comparison:
    """A comparison that is cancelled once its copies stand and `happens` is over."""

    def meanwhile() -> None:
        happens()
        services.comparison_cancel(actor=stand.machine.people.owner, comparison=Comparison.objects.get())

    before_comparing(monkeypatch, meanwhile)
    return stand.tried()


def told(stand: Stand, action: str) -> None:
    """An admin has gallop started or stopped."""
    params = {"web_server": stand.web_servers["native"].pk, "action": action}
    admin, host = stand.machine.people.admin, stand.machine.host
    job = host_job_request(actor=admin, host=host, kind=HostJobKind.SERVICE, params=params)
    jobs.host_job_execute(job.uuid)
    job.refresh_from_db()
    assert job.status == JobStatus.SUCCEEDED, job.error


def test_comparison_restores_stopped_and_running_web_servers(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    told(stand, "start")
    stand.running.add("native")
    during: list[set[str]] = []
    tried_while(stand, monkeypatch, lambda: during.append(stand.found_running()))
    assert during == [{"nginx", "apache", "native"}]
    stand.assert_as_before()
    assert not Contender.objects.filter(was_stopped=True).exists()


def test_web_server_that_got_site_keeps_running(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = stand.machine
    blog = machine.site("blog", stand.web_servers["native"], port=free_port())
    tried_while(stand, monkeypatch, lambda: machine.deploy(blog))
    stand.running.add("native")
    stand.assert_running()


def test_web_server_started_by_someone_else_keeps_running(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    tried_while(stand, monkeypatch, lambda: told(stand, "start"))
    stand.running.add("native")
    stand.assert_running()


def test_web_server_stopped_before_comparison_is_stopped_again(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    told(stand, "start")
    told(stand, "stop")
    tried_while(stand, monkeypatch, lambda: None)
    stand.assert_as_before()


def test_failed_stop_of_web_server_is_reported_and_retried(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    real = servers.stop_again

    def busy(*arguments: object) -> None:
        raise ApplicationError("The host is busy.")

    monkeypatch.setattr(servers, "stop_again", busy)
    comparison = tried_while(stand, monkeypatch, lambda: None)
    assert comparison.status == JobStatus.QUEUED
    assert "on gallop: The host is busy." in comparison.remains
    assert "native" in stand.found_running()
    monkeypatch.setattr(servers, "stop_again", real)
    Comparison.objects.update(retry_at=None)
    assert carried_out(comparison).status == JobStatus.CANCELLED
    stand.assert_as_before()
