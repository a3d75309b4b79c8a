"""Old deployments, revisions, jobs and audit entries are forgotten; what is live or new is kept."""

from __future__ import annotations

import datetime as dt

import pytest
from django.utils import timezone
from pytest_django import Settings

from panel.audit import retention as audit_retention
from panel.audit.models import AuditEntry
from panel.deployments.models import Deployment, Revision, SiteState
from panel.deployments.retention import services as retention
from panel.hosts import retention as host_retention
from panel.hosts.models import Engine, HostJob
from panel.websites import services as websites
from panel.websites.models import Site
from tests.deployments.real_host import Machine
from tests.support.nginx import NginxInstance

LONG_AGO = timezone.now() - dt.timedelta(days=500)


@pytest.fixture
def site(machine: Machine, nginx: NginxInstance) -> Site:
    """A site with five deployments, the last of which is live, all of them long ago."""
    site = machine.site("shop", machine.web_server(nginx, Engine.NGINX))
    for number in range(5):
        websites.block_update(actor=machine.people.owner, block=site.blocks.get(), client_max_body_mb=number + 1)
        machine.deploy(site)
    Deployment.objects.update(finished_at=LONG_AGO)
    Revision.objects.update(created_at=LONG_AGO)
    return site


def test_old_deployments_and_revisions_are_forgotten_but_the_newest_and_the_live_one(
    machine: Machine, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert retention.old_forget() == 0, "a site keeps its newest twenty"
    monkeypatch.setattr(retention, "KEPT_OF_SITE", 2)
    assert retention.old_forget() == 3 + 2, "the revision before the kept ones is named by one of them"
    assert list(site.revisions.order_by("number").values_list("number", flat=True)) == [3, 4, 5]
    assert Deployment.objects.count() == 2
    live = SiteState.objects.get().revision
    assert live is not None and live.number == 5
    assert retention.old_forget() == 0
    machine.deploy(site)
    assert machine.get("shop").status == 200


def test_recent_deployments_are_kept(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "KEPT_OF_SITE", 1)
    Deployment.objects.update(finished_at=timezone.now())
    Revision.objects.update(created_at=timezone.now())
    assert retention.old_forget() == 0 and Deployment.objects.count() == 5


def test_unlimited_time_keeps_everything(site: Site, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setattr(retention, "KEPT_OF_SITE", 1)
    settings.KEEP_DEPLOYMENTS_DAYS = settings.KEEP_AUDIT_DAYS = 0
    AuditEntry.objects.update(at=LONG_AGO)
    assert (retention.old_forget(), audit_retention.old_forget(), host_retention.old_forget()) == (0, 0, 0)


def test_old_audit_entries_and_jobs_are_forgotten(site: Site, machine: Machine) -> None:
    count = AuditEntry.objects.count()
    newest = AuditEntry.objects.order_by("-pk").first()
    assert newest is not None and count > 3
    AuditEntry.objects.exclude(pk=newest.pk).update(at=LONG_AGO)
    assert audit_retention.old_forget() == count - 1
    assert list(AuditEntry.objects.all()) == [newest]
    for finished in (LONG_AGO, timezone.now(), None):
        HostJob.objects.create(host=machine.host, kind="check", finished_at=finished)
    assert host_retention.old_forget() == 1 and HostJob.objects.count() == 2
