"""Lists and searches make as many queries for many rows as for a few, for every role."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from panel.audit.services import audit_record
from panel.core.tags import tags_counted, tags_used
from panel.deployments.models import (
    Deployment,
    DeploymentItem,
    DeploymentKind,
    DeploymentStatus,
    Drift,
    OnSuccess,
    Revision,
    SiteState,
)
from panel.deployments.plan import Plan, PlanSite
from panel.hosts.models import Host
from panel.websites.listing import site_tags
from panel.websites.models import Listen, ServerBlock, ServerName, Site
from tests.support.cast import Cast, cast, signed_in

URLS = (
    "/",
    "/hosts/",
    "/hosts/?ordering=-sites",
    "/sites/",
    "/sites/?q=many",
    "/sites/?status=drifted",
    "/sites/?tag=prod",
    "/sites/?ordering=-server",
    "/deployments/",
    "/deployments/?q=many",
    "/deployments/?status=succeeded",
    "/deployments/drift",
    "/audit/",
    "/audit/?q=many",
    "/search/?q=many",
    "/api/v1/attention/",
    "/api/v1/sites/",
    "/api/v1/hosts/",
    "/api/v1/deployments/",
    "/api/v1/audit/",
    "/api/v1/search/?q=many",
)


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


def _many(people: Cast, first: int, count: int) -> None:
    """Sites of the team, each with a drifted file, an audit entry, and a deployment of each kind."""
    for number in range(first, first + count):
        name = f"many-{number}"
        site = Site.objects.create(name=name, team=people.team, web_server=people.nginx, tags=["prod", f"app-{number}"])
        block = ServerBlock.objects.create(site=site, root=f"/srv/{name}")
        Listen.objects.create(block=block, port=80)
        ServerName.objects.create(block=block, name=f"{name}.example")
        revision = Revision.objects.create(
            site=site, number=1, web_server=people.nginx, spec={}, files=[], digest=f"{number:064}"
        )
        for kind in DeploymentKind:
            _deployment(people, site, revision, kind)
        SiteState.objects.create(site=site, status="drifted", revision=revision, live_version=1)
        Drift.objects.create(site=site, web_server=people.nginx, path=f"/etc/{name}.conf")
        audit_record(actor=people.owner, action="site.update", target=site, before={"name": "a"}, after={"name": name})


def _deployment(people: Cast, site: Site, revision: Revision, kind: DeploymentKind) -> None:
    row = Deployment.objects.create(
        host=people.host,
        kind=kind,
        status=DeploymentStatus.SUCCEEDED,
        on_success=OnSuccess.DELETE if kind == DeploymentKind.DISABLE else OnSuccess.NOTHING,
        requested_by=people.owner,
        started_at=timezone.now(),
        finished_at=timezone.now(),
        plan=Plan(sites=[PlanSite(id=site.pk, name=site.name, web_server="nginx", number=1)]),
    )
    DeploymentItem.objects.create(deployment=row, site=site, revision=revision)


def _queries(client: Client, url: str) -> int:
    with CaptureQueriesContext(connection) as caught:
        assert client.get(url).status_code == 200, url
    return len(caught)


@pytest.mark.parametrize("role", ["admin", "owner", "viewer"])
def test_list_query_count_does_not_grow_with_rows(people: Cast, role: str) -> None:
    client = signed_in(getattr(people, role))
    _many(people, 0, 2)
    before = {url: _queries(client, url) for url in URLS}
    _many(people, 2, 5)
    after = {url: _queries(client, url) for url in URLS}
    assert {url: count for url, count in after.items() if count > before[url]} == {}


def test_deployment_list_shows_hosts_users_and_kinds(people: Cast) -> None:
    _many(people, 0, 1)
    page = signed_in(people.owner).get("/deployments/").content.decode()
    for words in ("Renew certificates on web-1", "Maintenance on web-1", "many-0", "olaf"):
        assert words in page


def test_site_list_shows_domains_in_order_of_blocks(people: Cast) -> None:
    _many(people, 0, 1)
    site = Site.objects.get()
    later = ServerBlock.objects.create(site=site, root="/srv/b", position=2)
    sooner = ServerBlock.objects.create(site=site, root="/srv/a", position=1)
    for block, name in ((later, "c.example"), (sooner, "b.example")):
        ServerName.objects.create(block=block, name=name)
    page = signed_in(people.owner).get("/sites/").content.decode()
    assert 'many-0.example, b.example <span class="muted" title="c.example">+1</span>' in page


def test_failures_shared_with_another_team_are_named_without_their_errors(people: Cast) -> None:
    """Whether they are shared is one query for all of them."""
    foreign = Site.objects.create(name="foreign", team=people.other_team, web_server=people.nginx)

    def failing(first: int, count: int) -> None:
        _many(people, first, count)
        for number in range(first, first + count):
            site = Site.objects.get(name=f"many-{number}")
            row = Deployment.objects.filter(items__site=site).order_by("pk")[0]
            Deployment.objects.filter(pk=row.pk).update(status=DeploymentStatus.FAILED, error=f"error {number}")
            SiteState.objects.filter(site=site).update(last_failure=row)
            if number % 2:
                DeploymentItem.objects.create(deployment=row, site=foreign)

    client = signed_in(people.owner)
    failing(0, 2)
    before = _queries(client, "/api/v1/attention/")
    failing(2, 4)
    assert _queries(client, "/api/v1/attention/") <= before
    page = client.get("/api/v1/attention/").json()
    found = {row["title"]: row["detail"] for row in page if row["status"] == "failed"}
    assert found == {f"many-{number}": "" if number % 2 else f"error {number}" for number in range(6)}


def test_tags_of_rows_are_counted_and_listed_once(people: Cast) -> None:
    _many(people, 0, 3)
    Host.objects.update(tags=["eu", "prod"])
    assert tags_counted(Site.objects.all()) == {"app-0": 1, "app-1": 1, "app-2": 1, "prod": 3}
    assert tags_used(Host.objects.all()) == {"eu", "prod"}
    assert site_tags(Site.objects.filter(name="many-1")) == ["app-1", "eu", "prod"]
    Site.objects.filter(name="many-1").update(web_server=None)
    assert site_tags(Site.objects.filter(name="many-1")) == ["app-1", "prod"]


def test_host_filter_offers_hosts_and_keeps_the_choice(people: Cast) -> None:
    page = signed_in(people.owner).get("/sites/?host=web-1").content.decode()
    assert '<option value="web-1" selected>web-1</option>' in page
    assert signed_in(people.owner).get("/sites/?host=absent").status_code == 200
