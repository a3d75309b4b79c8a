"""A plan can be confirmed only while every input of its files is unchanged, whoever changed it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from panel import rendering
from panel.accounts.models import User
from panel.core.errors import Conflict
from panel.deployments.drift.services import drift_adopt, pin_release
from panel.deployments.models import Blob, Deployment, DeploymentStatus, Drift, Revision, SiteState
from panel.deployments.planning import services
from panel.deployments.revisions.rendered import sha256_of
from panel.hosts.models import Layout
from panel.hosts.services import host_update, web_server_update
from panel.hosts.services.web_servers import running_set
from panel.websites import services as websites
from panel.websites.models import Allowance, Certificate, Location, RawSnippet, ServerBlock, Site
from tests.deployments.sample_plans import live, shop_with_parts
from tests.support.cast import Cast


@pytest.fixture
def site(people: Cast) -> Site:
    """A site with every kind of part."""
    made, block = shop_with_parts(people, people.nginx), ServerBlock.objects.get()
    websites.snippet_create(actor=people.admin, site=made, engine="nginx", text="etag off;", block=block)
    return made


def planned(people: Cast, site: Site) -> Deployment:
    (deployment,) = services.deployment_plan(actor=people.admin, sites=[site])
    return deployment


def confirmed(people: Cast, deployment: Deployment) -> str:
    services.deployment_confirm(actor=people.admin, deployment=deployment)
    deployment.refresh_from_db()
    return deployment.status


def drifted(site: Site) -> Drift:
    """A file of the live revision that somebody edited on the host."""
    revision = SiteState.objects.get(site=site).revision
    assert revision is not None
    record, text = revision.files[0], "# by hand\n"
    return Drift.objects.create(
        site=site,
        web_server=revision.web_server,
        path=record["path"],
        expected_sha256=record["sha256"],
        found_sha256=sha256_of(text),
        found=text,
    )


def location(site: Site, handler: str) -> Location:
    return Location.objects.get(block__site=site, handler=handler)


CHANGES: dict[str, Callable[[User, Site], Any]] = {
    "a name": lambda admin, site: websites.block_update(actor=admin, block=site.blocks.get(), names=["other.example"]),
    "a location": lambda admin, site: websites.location_update(
        actor=admin, location=location(site, "proxy"), read_timeout_s=77
    ),
    "one location less": lambda admin, site: websites.location_delete(actor=admin, location=location(site, "proxy")),
    "an upstream's server": lambda admin, site: websites.upstream_update(
        actor=admin, upstream=site.upstreams.get(), servers=[{"address": "127.0.0.1:9001", "weight": 5}]
    ),
    "a snippet": lambda admin, site: websites.snippet_update(actor=admin, snippet=site.snippets.get(), text="etag on;"),
    "a certificate": lambda admin, site: renew(admin, site),
    "what its caches hold": lambda admin, site: websites.site_update(actor=admin, site=site, cache_mb=9),
    "the web server's version": lambda admin, site: web_server_update(
        actor=None, web_server=site.web_server, version="1.99.0"
    ),
    "the server's layout": lambda admin, site: web_server_update(
        actor=None, web_server=site.web_server, layout=Layout.CONF_D
    ),
    "the host's site roots": lambda admin, site: host_update(
        actor=admin, host=site.web_server.host, site_roots=["/srv/elsewhere"]
    ),
}


def renew(admin: User, site: Site) -> None:
    """The certificate of another site takes the place of the site's own."""
    other = websites.certificate_self_sign(actor=admin, team=site.team, name="new", names=["shop.example"])
    websites.certificate_replace(
        actor=admin,
        certificate=Certificate.objects.get(name="shop"),
        certificate_pem=other.certificate_pem,
        private_key_pem=other.private_key_pem,
    )


@pytest.mark.parametrize("change", CHANGES.values(), ids=[name.replace(" ", "-") for name in CHANGES])
def test_plan_is_stale_after_a_change_of_what_its_files_follow_from(
    people: Cast, site: Site, change: Callable[[User, Site], Any]
) -> None:
    deployment = planned(people, site)
    before = (Revision.objects.count(), Blob.objects.count())
    change(people.admin, Site.objects.get(pk=site.pk))
    with pytest.raises(Conflict, match="outdated: the draft of shop was changed after the plan was created"):
        confirmed(people, deployment)
    deployment.refresh_from_db()
    assert (deployment.status, deployment.confirmed_at) == (DeploymentStatus.PLANNED, None)
    assert (Revision.objects.count(), Blob.objects.count()) == before


def test_plan_is_stale_after_a_drift_is_adopted_or_released(people: Cast, site: Site) -> None:
    live(people, site)
    deployment = planned(people, site)
    pin = drift_adopt(actor=people.admin, drift=drifted(site))
    with pytest.raises(Conflict, match="outdated"):
        confirmed(people, deployment)
    deployment = planned(people, site)
    pin_release(actor=people.admin, pin=pin)
    with pytest.raises(Conflict, match="outdated: the draft of shop was changed"):
        confirmed(people, deployment)


def test_plan_is_stale_after_an_allowance_is_withdrawn(people: Cast, site: Site) -> None:
    row = Allowance.objects.filter(kind="service").first()
    assert row is not None
    deployment = planned(people, site)
    websites.allowance_delete(actor=people.admin, allowance=row)
    with pytest.raises(Conflict, match="outdated: the draft of shop was changed"):
        confirmed(people, deployment)


def test_move_is_stale_after_a_change_of_the_site(people: Cast, site: Site) -> None:
    RawSnippet.objects.all().delete()  # Apache has none of it
    live(people, site)
    (deployment,) = services.site_move(actor=people.admin, site=site, web_server=people.apache)
    websites.location_update(actor=people.admin, location=location(site, "proxy"), read_timeout_s=77)
    with pytest.raises(Conflict, match="outdated: the draft of shop was changed"):
        confirmed(people, deployment)


def test_plan_is_not_stale_after_a_change_that_no_host_is_told_of(people: Cast, site: Site) -> None:
    other = websites.site_create(
        actor=people.admin,
        team=people.team,
        name="blog",
        domains=["blog.example"],
        web_server=people.nginx,
        root="/srv/www/blog",
    )
    deployment = planned(people, site)
    websites.block_update(actor=people.admin, block=other.blocks.get(), autoindex=True)
    websites.site_update(actor=people.admin, site=site, notes="ask Ann first")
    websites.sites_tag(actor=people.admin, sites=[site], add=["prod"])
    running_set(people.nginx, True)
    websites.site_define(actor=people.admin, site=site, data=websites.site_export(site))
    assert confirmed(people, deployment) == DeploymentStatus.QUEUED


def test_plan_is_stale_when_it_names_no_version(people: Cast, site: Site) -> None:
    deployment = planned(people, site)
    deployment.plan.sites = [replace(line, version=None) for line in deployment.plan.sites]
    deployment.save(update_fields=["plan"])
    with pytest.raises(Conflict, match="outdated"):
        confirmed(people, deployment)


def test_confirmation_renders_and_stores_nothing(people: Cast, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = planned(people, site)
    monkeypatch.setattr(rendering, "render", lambda *_: pytest.fail("rendered again"))
    with CaptureQueriesContext(connection) as captured:
        assert confirmed(people, deployment) == DeploymentStatus.QUEUED
    assert not [query for query in captured.captured_queries if 'FROM "deployments_blob"' in query["sql"]]
