"""The content of a plan, what it stores, and when it can no longer be confirmed."""

from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from panel.audit.models import AuditEntry
from panel.core.errors import ApplicationError, Conflict
from panel.deployments.execution.requests import jobs_make
from panel.deployments.models import (
    Blob,
    Deployment,
    DeploymentStatus,
    PinnedFile,
    Revision,
    SiteState,
    SiteStatus,
)
from panel.deployments.planning import services
from panel.deployments.planning.changes import Change
from panel.deployments.planning.selectors import live_states
from panel.hosts.models import Engine, Host, HostStatus, Layout, WebServer
from panel.websites import services as websites
from panel.websites.models import Site
from tests.deployments.sample_plans import carried_out, files, live, planned, shop
from tests.support.cast import Cast, web_server
from tests.support.ports import free_port


def test_first_plan_shows_every_file_as_new(people: Cast) -> None:
    deployment = planned(people, shop(people))
    assert sorted(files(deployment).values()) == ["link", "put"]
    config = next(file for file in deployment.plan.files if file.action == "put")
    assert "+" in config.diff
    assert "server_name shop.example;" in config.diff
    assert config.expect == ""
    assert deployment.plan.unchecked == "web-1 does not answer."
    assert deployment.status == DeploymentStatus.PLANNED


def test_equal_renderings_share_one_revision(people: Cast) -> None:
    site = shop(people)
    first, second = planned(people, site), planned(people, site)
    assert first.items.get().revision == second.items.get().revision
    assert Revision.objects.count() == 1
    websites.block_update(actor=people.owner, block=site.blocks.get(), autoindex=True)
    assert planned(people, site).items.get().revision.number == 2  # type: ignore[union-attr]
    websites.block_update(actor=people.owner, block=site.blocks.get(), autoindex=False)
    assert planned(people, site).items.get().revision == first.items.get().revision


def test_plan_shows_diff_against_live_files(people: Cast) -> None:
    site = shop(people)
    live(people, site)
    websites.block_update(actor=people.owner, block=site.blocks.get(), names=["new.example"])
    (changed,) = [file for file in planned(people, site).plan.files if file.action == "put"]
    lines = changed.diff.splitlines()
    assert any(line.startswith("-") and "shop.example" in line for line in lines)
    assert any(line.startswith("+") and "new.example" in line for line in lines)
    assert changed.expect == changed.old_sha256 != ""


def test_plan_shows_private_keys_only_as_checksum(people: Cast) -> None:
    certificate = websites.certificate_self_sign(
        actor=people.owner, team=people.team, name="shop", names=["shop.example"]
    )
    deployment = planned(people, shop(people, certificate=certificate))
    assert "PRIVATE KEY" not in str(deployment.plan)
    (key,) = [file for file in deployment.plan.files if file.path.endswith(".key")]
    assert f"(secret, sha256 {key.sha256})" in key.diff
    assert key.mode == 0o600
    assert Blob.objects.get(pk=key.sha256).is_secret


def test_plan_rejects_invalid_draft(people: Cast) -> None:
    site = shop(people)
    websites.block_update(actor=people.owner, block=site.blocks.get(), listens=[{"port": 443, "tls": True}])
    with pytest.raises(ValidationError) as caught:
        planned(people, site)
    assert list(caught.value.message_dict) == ["blocks/0/certificate"]
    other = shop(people, "other")
    with pytest.raises(ValidationError) as caught:
        planned(people, site, other)
    assert list(caught.value.message_dict) == ["shop/blocks/0/certificate"]
    assert not Deployment.objects.exists()


def test_plan_without_sites_is_rejected(people: Cast) -> None:
    with pytest.raises(ApplicationError, match="No sites selected"):
        services.deployment_plan(actor=people.admin, sites=[])


def test_planning_requires_permission_to_deploy(people: Cast) -> None:
    site = shop(people)
    for actor in (people.viewer, people.outsider):
        with pytest.raises(PermissionDenied):
            services.deployment_plan(actor=actor, sites=[site])
    deployment = planned(people, site)
    for actor in (people.viewer, people.outsider):
        with pytest.raises(PermissionDenied):
            services.deployment_confirm(actor=actor, deployment=deployment)
        with pytest.raises(PermissionDenied):
            services.deployment_cancel(actor=actor, deployment=deployment)
        with pytest.raises(PermissionDenied):
            services.site_disable(actor=actor, site=site)
    deployment.refresh_from_db()
    assert deployment.status == DeploymentStatus.PLANNED


def test_sites_of_several_hosts_form_one_batch(people: Cast) -> None:
    other = Host.objects.create(name="web-2", site_roots=["/srv/www"], status="unreachable", status_detail="away")
    nginx = web_server(other, Engine.NGINX, "")
    sites = [shop(people), shop(people, "two"), shop(people, "far", web_server=nginx)]
    found = services.deployment_plan(actor=people.owner, sites=sites)
    assert [(row.host.name, row.items.count()) for row in found] == [("web-1", 2), ("web-2", 1)]
    assert len({row.batch for row in found}) == 1
    services.deployment_confirm(actor=people.owner, deployment=found[0])
    assert {row.status for row in Deployment.objects.all()} == {DeploymentStatus.QUEUED}


def test_plan_query_count_does_not_grow_with_hosts(people: Cast) -> None:
    """Planning, confirming and recording the result."""

    def queries(count: int) -> int:
        sites = []
        for number in range(count):
            host = Host.objects.create(name=f"host-{count}-{number}", status="unreachable", site_roots=["/srv/www"])
            values = {"engine": Engine.NGINX, "layout": Layout.SITES, "paths": people.nginx.paths}
            web_server = WebServer.objects.create(host=host, **values)
            sites.append(shop(people, f"site-{count}-{number}", web_server=web_server))
        with CaptureQueriesContext(connection) as captured:
            (first, *others) = services.deployment_plan(actor=people.admin, sites=sites)
            services.deployment_confirm(actor=people.admin, deployment=first)
            carried_out(first, *others)
        return len(captured)

    assert queries(9) - 8 <= queries(2)  # `carried_out` itself reads each of them once


def test_plan_and_transaction_query_count_does_not_grow_with_live_sites(people: Cast) -> None:
    def queries(count: int) -> int:
        sites = []
        for number in range(count):
            host = Host.objects.create(name=f"host-{count}-{number}", status="unreachable", site_roots=["/srv/www"])
            values = {"engine": Engine.NGINX, "layout": Layout.SITES, "paths": people.nginx.paths}
            web_server = WebServer.objects.create(host=host, **values)
            sites.append(shop(people, f"site-{count}-{number}", web_server=web_server))
            live(people, sites[-1])
            websites.block_update(actor=people.owner, block=sites[-1].blocks.get(), autoindex=True)
        with CaptureQueriesContext(connection) as captured:
            rows = services.deployment_plan(actor=people.admin, sites=sites)
            jobs_make([(row,) for row in rows])
        return len(captured)

    assert queries(9) == queries(2)


def test_plan_reads_the_ssh_authorities_as_often_for_nine_hosts_as_for_two(people: Cast) -> None:
    def queries(count: int) -> int:
        sites = []
        for number in range(count):
            values = {"status": HostStatus.READY, "address": "127.0.0.1", "port": free_port(), "username": "paddock"}
            host = Host.objects.create(name=f"host-{count}-{number}", site_roots=["/srv/www"], **values)
            row = WebServer.objects.create(
                host=host, engine=Engine.NGINX, layout=Layout.SITES, paths=people.nginx.paths
            )
            sites.append(shop(people, f"site-{count}-{number}", web_server=row))
        with CaptureQueriesContext(connection) as captured:
            services.deployment_plan(actor=people.admin, sites=sites)
        return sum("hosts_sshauthority" in query["sql"] for query in captured)

    assert 0 < queries(9) == queries(2)


def test_plan_is_stale_when_site_changed(people: Cast) -> None:
    site = shop(people)
    deployment = planned(people, site)
    websites.block_update(actor=people.owner, block=site.blocks.get(), autoindex=True)
    with pytest.raises(Conflict, match="outdated: the draft of shop was changed"):
        services.deployment_confirm(actor=people.owner, deployment=deployment)
    deployment.refresh_from_db()
    assert deployment.status == DeploymentStatus.PLANNED


def test_plan_is_stale_after_another_deployment(people: Cast) -> None:
    site = shop(people)
    older = planned(people, site)
    live(people, site)
    Deployment.objects.filter(pk=older.pk).update(status=DeploymentStatus.PLANNED, error="")  # as of an older panel
    with pytest.raises(Conflict, match="live revision of shop is shop #1, but the plan expects none"):
        services.deployment_confirm(actor=people.owner, deployment=older)


def test_plan_can_be_confirmed_once(people: Cast) -> None:
    deployment = planned(people, shop(people))
    services.deployment_confirm(actor=people.owner, deployment=deployment)
    with pytest.raises(Conflict):
        services.deployment_confirm(actor=people.owner, deployment=deployment)
    assert AuditEntry.objects.filter(action="deployment.confirm").count() == 1


def test_second_deployment_of_site_is_rejected_while_one_runs(people: Cast) -> None:
    site = shop(people)
    first = planned(people, site)
    services.deployment_confirm(actor=people.owner, deployment=first)
    second = planned(people, site)
    with pytest.raises(Conflict, match="Another deployment of shop is running"):
        services.deployment_confirm(actor=people.owner, deployment=second)


def test_deployment_success_makes_revision_live_and_failure_is_recorded(people: Cast) -> None:
    site = shop(people)
    done = live(people, site)
    state = SiteState.objects.get(site=site)
    assert (state.status, state.revision) == (SiteStatus.LIVE, done.items.get().revision)
    assert done.steps.get().argv == ["nginx", "-t"]
    websites.block_update(actor=people.owner, block=site.blocks.get(), autoindex=True)
    bad = planned(people, site)
    services.deployment_confirm(actor=people.owner, deployment=bad)
    carried_out(bad, outcome="rolled_back", error="nginx: [emerg] unknown directive")
    state.refresh_from_db()
    assert bad.status == DeploymentStatus.ROLLED_BACK
    assert bad.error == "nginx: [emerg] unknown directive"
    assert (state.revision, state.last_failure) == (done.items.get().revision, bad)


def test_plan_lists_settings_that_web_server_cannot_express(people: Cast) -> None:
    site = shop(people, web_server=people.apache)
    websites.location_create(
        actor=people.owner, block=site.blocks.get(), pattern="/", handler="static", rate_limit_rps=5
    )
    warnings = planned(people, site).plan.warnings
    assert any("rate_limit" in line.where and line.nearest for line in warnings)
    assert {line.place for line in warnings} == {"server block 1, location /"}


def test_cancelled_plans_are_closed_but_running_deployments_finish(people: Cast) -> None:
    deployment = planned(people, shop(people))
    services.deployment_confirm(actor=people.owner, deployment=deployment)
    services.deployment_cancel(actor=people.owner, deployment=deployment)
    assert deployment.status == DeploymentStatus.CANCELLED
    Deployment.objects.update(status=DeploymentStatus.RUNNING)
    with pytest.raises(Conflict, match="cannot be cancelled"):
        services.deployment_cancel(actor=people.owner, deployment=deployment)


def test_plan_keeps_and_reports_adopted_text(people: Cast) -> None:
    site = shop(people)
    path = next(file.path for file in planned(people, site).plan.files if file.action == "put")
    Blob.objects.create(sha256="ab", content="# mine\n", size=7)
    PinnedFile.objects.create(site=site, web_server=people.nginx, path=path, blob_id="ab", adopted_by=people.admin)
    plan = planned(people, site).plan
    (file,) = [file for file in plan.files if file.path == path]
    assert "+# mine" in file.diff
    assert "keeps the version that was adopted" in plan.warnings[0].text


def test_plan_is_rejected_when_listener_no_longer_fits_live_site(people: Cast) -> None:
    """The admin's file changed since the live site was deployed; the plan is for another site."""
    server = WebServer.objects.create(
        host=people.host,
        engine=Engine.OPENLITESPEED,
        layout=Layout.VHOSTS,
        paths=people.nginx.paths | {"config_root": "/usr/local/lsws/conf", "prefix": "/usr/local/lsws"},
    )
    live(people, shop(people, web_server=server))
    own = {"name": "Main", "address": "", "port": 80, "secure": True, "text": "address *:80\nsecure 1"}
    other = shop(people, "other", web_server=server, port=81)
    server.own_listeners = [own]
    server.save()
    with pytest.raises(ApplicationError, match="own listener Main already uses port 80 with TLS"):
        planned(people, other)


def test_live_states_leave_out_changing_sites_of_that_web_server_only(people: Cast) -> None:
    """A change of the site on another host does not remove it from the state of this web server."""
    here, there = people.nginx, web_server(Host.objects.create(name="web-2", site_roots=["/srv/www"]), Engine.NGINX, "")
    first, second = shop(people), shop(people, "blog")
    live(people, first)
    live(people, second)

    def left(*changed: Site, **elsewhere: Site) -> list[str]:
        changes = {here: [Change(site, None, None) for site in changed]}
        changes |= {there: [Change(site, None, None) for site in elsewhere.values()]}
        return [state.site.name for state in live_states([here], changes)[here.pk]]

    assert left() == ["blog", "shop"]
    assert left(first) == ["blog"]
    assert left(first, gone=second) == ["blog"]
    assert left(first, second) == []
