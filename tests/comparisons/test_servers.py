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
from tests.comparisons.conftest import LiveSites, before_comparing, carried_out
from tests.support.ports import free_port


def tried_while(live_sites: LiveSites, monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> Comparison:
    """A comparison that is cancelled once its copies stand and `happens` is over."""

    def meanwhile() -> None:
        happens()
        services.comparison_cancel(actor=live_sites.machine.people.owner, comparison=Comparison.objects.get())

    before_comparing(monkeypatch, meanwhile)
    return live_sites.tried()


def told(live_sites: LiveSites, action: str) -> None:
    """An admin has gallop started or stopped."""
    params = {"web_server": live_sites.web_servers["native"].pk, "action": action}
    admin, host = live_sites.machine.people.admin, live_sites.machine.host
    job = host_job_request(actor=admin, host=host, kind=HostJobKind.SERVICE, params=params)
    jobs.host_job_execute(job.uuid)
    job.refresh_from_db()
    assert job.status == JobStatus.SUCCEEDED, job.error


def test_comparison_restores_stopped_and_running_web_servers(
    live_sites: LiveSites, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(live_sites, "start")
    live_sites.running.add("native")
    during: list[set[str]] = []
    tried_while(live_sites, monkeypatch, lambda: during.append(live_sites.found_running()))
    assert during == [{"nginx", "apache", "native"}]
    live_sites.assert_as_before()
    assert not Contender.objects.filter(was_stopped=True).exists()


def test_web_server_that_got_site_keeps_running(live_sites: LiveSites, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = live_sites.machine
    blog = machine.site("blog", live_sites.web_servers["native"], port=free_port())
    tried_while(live_sites, monkeypatch, lambda: machine.deploy(blog))
    live_sites.running.add("native")
    live_sites.assert_running()


def test_web_server_started_by_someone_else_keeps_running(
    live_sites: LiveSites, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried_while(live_sites, monkeypatch, lambda: told(live_sites, "start"))
    live_sites.running.add("native")
    live_sites.assert_running()


def test_web_server_stopped_before_comparison_is_stopped_again(
    live_sites: LiveSites, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(live_sites, "start")
    told(live_sites, "stop")
    tried_while(live_sites, monkeypatch, lambda: None)
    live_sites.assert_as_before()


def test_failed_stop_of_web_server_is_reported_and_retried(
    live_sites: LiveSites, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = servers.stop_again

    def busy(*arguments: object) -> None:
        raise ApplicationError("The host is busy.")

    monkeypatch.setattr(servers, "stop_again", busy)
    comparison = tried_while(live_sites, monkeypatch, lambda: None)
    assert comparison.status == JobStatus.QUEUED
    assert "on gallop: The host is busy." in comparison.remains
    assert "native" in live_sites.found_running()
    monkeypatch.setattr(servers, "stop_again", real)
    Comparison.objects.update(retry_at=None)
    assert carried_out(comparison).status == JobStatus.CANCELLED
    live_sites.assert_as_before()
