"""A site is rolled back, disabled, deleted or moved to another host."""

from __future__ import annotations

import pytest

from panel.audit.models import AuditEntry
from panel.core.errors import ApplicationError
from panel.deployments.models import (
    Deployment,
    DeploymentKind,
    DeploymentStatus,
    SiteState,
    SiteStatus,
)
from panel.deployments.planning import services
from panel.deployments.planning.selectors import live_revision
from panel.hosts.models import Engine, Host
from panel.websites import services as websites
from panel.websites.models import Site
from tests.deployments.sample_plans import carried_out, files, live, planned, shop
from tests.support.cast import Cast, web_server


def test_rollback_reaches_any_earlier_revision(people: Cast) -> None:
    site = shop(people)
    first = live(people, site).items.get().revision
    websites.block_update(actor=people.owner, block=site.blocks.get(), autoindex=True)
    live(people, site)
    assert first is not None
    back = services.site_rollback(actor=people.owner, site=site, revision=first)
    assert back.kind == DeploymentKind.ROLLBACK
    services.deployment_confirm(actor=people.owner, deployment=back)
    carried_out(back)
    assert live_revision(site) == first
    foreign = live(people, shop(people, "other")).items.get().revision
    assert foreign is not None
    with pytest.raises(ApplicationError, match="not a revision of shop"):
        services.site_rollback(actor=people.owner, site=site, revision=foreign)


def test_disabling_moves_files_out_of_web_server_configuration(people: Cast) -> None:
    site = shop(people)
    live(people, site)
    deployment = services.site_disable(actor=people.owner, site=site)
    assert deployment is not None
    assert set(files(deployment).values()) == {"keep", "remove"}
    assert [path for path, action in files(deployment).items() if action == "remove"] == [
        "/etc/nginx/sites-enabled/shop.conf"
    ]
    assert Site.objects.get().enabled
    services.deployment_confirm(actor=people.owner, deployment=deployment)
    assert not Site.objects.get().enabled
    carried_out(deployment)
    assert SiteState.objects.get().status == SiteStatus.DISABLED
    assert live_revision(site) is None


@pytest.mark.parametrize("how", ["refused by the host", "cannot be cancelled"])
def test_site_stays_enabled_when_removal_fails(people: Cast, how: str) -> None:
    site = shop(people)
    live(people, site)
    deployment = services.site_disable(actor=people.owner, site=site)
    assert deployment is not None
    services.deployment_confirm(actor=people.owner, deployment=deployment)
    assert not Site.objects.get().enabled
    if how == "cannot be cancelled":
        services.deployment_cancel(actor=people.owner, deployment=deployment)
    else:
        carried_out(deployment, outcome="rolled_back", error="no")
    assert Site.objects.get().enabled
    assert live_revision(site) is not None


def test_live_site_cannot_be_deleted_without_deployment(people: Cast) -> None:
    site = shop(people)
    live(people, site)
    with pytest.raises(ApplicationError, match="is live on nginx on web-1"):
        websites.site_delete(actor=people.owner, site=site)
    with pytest.raises(ApplicationError, match="To change the web server, move the site"):
        websites.site_web_server_set(actor=people.owner, site=site, web_server=people.apache)
    deployment = services.site_delete(actor=people.owner, site=site)
    assert deployment is not None
    services.deployment_confirm(actor=people.owner, deployment=deployment)
    assert Site.objects.exists()
    carried_out(deployment)
    assert not Site.objects.exists()
    assert AuditEntry.objects.filter(action="site.delete").count() == 1


def test_draft_is_deleted_at_once(people: Cast) -> None:
    site = shop(people)
    planned(people, site)
    assert services.site_delete(actor=people.owner, site=site) is None
    assert not Site.objects.exists()
    assert Deployment.objects.get().status == DeploymentStatus.CANCELLED


def test_move_to_another_host_deploys_there_first(people: Cast) -> None:
    site = shop(people)
    live(people, site)
    other = Host.objects.create(name="web-2", site_roots=["/srv/www"], status="unreachable", status_detail="away")
    nginx = web_server(other, Engine.NGINX, "")
    up, down = services.site_move(actor=people.owner, site=site, web_server=nginx)
    services.deployment_confirm(actor=people.owner, deployment=up)
    down.refresh_from_db()
    assert down.status == DeploymentStatus.PLANNED
    carried_out(up)
    down.refresh_from_db()
    assert down.status == DeploymentStatus.QUEUED
    assert Site.objects.get().web_server == nginx
    carried_out(down)
    state = SiteState.objects.get()
    assert state.status == SiteStatus.LIVE
    assert state.revision is not None
    assert state.revision.web_server == nginx


def test_failed_move_to_another_host_leaves_site_in_place(people: Cast) -> None:
    site = shop(people)
    before = live(people, site).items.get().revision
    other = Host.objects.create(name="web-2", site_roots=["/srv/www"], status="unreachable", status_detail="away")
    up, down = services.site_move(actor=people.owner, site=site, web_server=web_server(other, Engine.NGINX, ""))
    services.deployment_confirm(actor=people.owner, deployment=up)
    carried_out(up, outcome="failed", error="no")
    down.refresh_from_db()
    assert down.status == DeploymentStatus.CANCELLED
    assert live_revision(site) == before
    assert Site.objects.get().web_server == people.nginx
