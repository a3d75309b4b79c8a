"""A plan is confirmed only while everything that its files were made from is as it was, whoever changed it and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.test.utils import CaptureQueriesContext

from panel import rendering
from panel.core.errors import Conflict
from panel.deployments.models import Blob, Deployment, DeploymentStatus, PinnedFile, Revision
from panel.deployments.planning import inputs, services
from panel.deployments.revisions.rendered import sha256_of
from panel.hosts.models import Host, Layout, WebServer
from panel.websites import services as websites
from panel.websites.models import (
    Certificate,
    Listen,
    Location,
    PhpPool,
    RawSnippet,
    ServerBlock,
    ServerName,
    Site,
    Upstream,
    UpstreamServer,
)
from tests.deployments.sample_plans import live
from tests.support.cast import Cast


@pytest.fixture
def site(people: Cast) -> Site:
    """A site with every kind of part."""
    admin = people.admin
    certificate = websites.certificate_self_sign(actor=admin, team=people.team, name="shop", names=["shop.example"])
    made = websites.site_create(
        actor=admin,
        team=people.team,
        name="shop",
        domains=["shop.example"],
        web_server=people.nginx,
        certificate=certificate,
        root="/srv/www/shop",
    )
    servers = [{"address": "127.0.0.1:9001"}]
    upstream = websites.upstream_create(actor=admin, site=made, name="app", servers=servers)
    pool = websites.php_pool_create(actor=admin, site=made, name="main", address="unix:/run/php/shop.sock")
    block = made.blocks.get()
    proxied = {"match": "^~", "pattern": "/app/", "handler": "proxy", "upstream": upstream}
    websites.location_create(actor=admin, block=block, **proxied)
    php = {"match": "~", "pattern": r"\.php$", "handler": "php", "php_pool": pool}
    websites.location_create(actor=admin, block=block, **php)
    websites.snippet_create(actor=admin, site=made, engine="nginx", text="etag off;", block=block)
    return made


def planned(people: Cast, site: Site) -> Deployment:
    (deployment,) = services.deployment_plan(actor=people.admin, sites=[site])
    return deployment


def confirmed(people: Cast, deployment: Deployment) -> str:
    services.deployment_confirm(actor=people.admin, deployment=deployment)
    deployment.refresh_from_db()
    return deployment.status


def adopt(site: Site, text: str = "# by hand\n") -> None:
    path = Revision.objects.filter(site=site).latest("pk").files[0]["path"]
    blob, _ = Blob.objects.get_or_create(sha256=sha256_of(text), content=text, size=len(text))
    PinnedFile.objects.create(site=site, web_server=site.web_server, path=path, blob=blob)


CHANGES: dict[str, Callable[[Site], Any]] = {
    "a name": lambda site: ServerName.objects.filter(block__site=site).update(name="other.example"),
    "a listen": lambda site: Listen.objects.filter(block__site=site, tls=False).update(port=8080),
    "a header of the block": lambda site: ServerBlock.objects.filter(site=site).update(
        headers=[{"name": "X-A", "value": "b", "always": True}]
    ),
    "a location": lambda site: Location.objects.filter(block__site=site, handler="proxy").update(read_timeout_s=77),
    "a location's order": lambda site: Location.objects.filter(block__site=site, handler="php").update(match="~*"),
    "one location less": lambda site: Location.objects.filter(block__site=site, handler="proxy").delete(),
    "a user's password": lambda site: Location.objects.filter(block__site=site, handler="php").update(
        basic_auth_realm="shop", basic_auth_users={"ann": "$2y$05$" + "a" * 53}
    ),
    "an upstream": lambda site: Upstream.objects.filter(site=site).update(keepalive=3),
    "an upstream's server": lambda site: UpstreamServer.objects.filter(upstream__site=site).update(weight=5),
    "a PHP pool": lambda site: PhpPool.objects.filter(site=site).update(address="unix:/run/php/other.sock"),
    "a snippet": lambda site: RawSnippet.objects.filter(site=site).update(text="etag on;"),
    "a certificate": lambda site: Certificate.objects.update(certificate_pem="another chain"),
    "a certificate's key": lambda site: Certificate.objects.update(private_key_pem="another key"),
    "an adopted edit": adopt,
    "what its caches hold": lambda site: Site.objects.filter(pk=site.pk).update(cache_mb=9),
    "the web server's version": lambda site: WebServer.objects.filter(pk=site.web_server_id).update(version="1.99.0"),
    "the server's folders": lambda site: WebServer.objects.filter(pk=site.web_server_id).update(
        paths={**WebServer.objects.get(pk=site.web_server_id).paths, "config_root": "/opt/nginx"}
    ),
    "the server's layout": lambda site: WebServer.objects.filter(pk=site.web_server_id).update(layout=Layout.CONF_D),
    "the host's site roots": lambda site: Host.objects.update(site_roots=["/srv/elsewhere"]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=[name.replace(" ", "-") for name in CHANGES])
def test_plan_is_stale_when_any_input_of_its_files_changed(
    people: Cast, site: Site, change: Callable[[Site], Any]
) -> None:
    """Changed behind everybody's back: no service counts a version or leaves a mark."""
    deployment = planned(people, site)
    before = (Revision.objects.count(), Blob.objects.count())
    change(site)
    pinned = PinnedFile.objects.count()
    with pytest.raises(Conflict, match="outdated: shop has changed since it was made"):
        confirmed(people, deployment)
    deployment.refresh_from_db()
    assert (deployment.status, deployment.confirmed_at) == (DeploymentStatus.PLANNED, None)
    assert (Revision.objects.count(), Blob.objects.count() - pinned) == before


def test_stale_check_reads_every_part_of_site_model() -> None:
    """One that is added to the site's model and not here would be confirmed though it was changed."""
    read = {Site, Certificate} | {model for model, _ in inputs.PARTS}
    parts = [model for model in apps.get_app_config("websites").get_models() if model not in read]
    assert [
        model.__name__
        for model in parts
        if any(field.related_model in read for field in model._meta.concrete_fields if field.is_relation)
    ] == []


def test_plan_is_stale_when_adopted_edit_is_released(people: Cast, site: Site) -> None:
    planned(people, site)
    adopt(site)
    deployment = planned(people, site)
    PinnedFile.objects.all().delete()
    with pytest.raises(Conflict, match="outdated"):
        confirmed(people, deployment)


def test_move_plan_is_stale_when_input_changed(people: Cast, site: Site) -> None:
    RawSnippet.objects.all().delete()  # Apache has none of it
    live(people, site)
    (deployment,) = services.site_move(actor=people.admin, site=site, web_server=people.apache)
    Location.objects.filter(block__site=site, handler="proxy").update(read_timeout_s=77)
    with pytest.raises(Conflict, match="outdated: shop has changed"):
        confirmed(people, deployment)


def test_plan_is_valid_when_change_was_reverted(people: Cast, site: Site) -> None:
    deployment = planned(people, site)
    block = site.blocks.get()
    for autoindex in (True, False):
        websites.block_update(actor=people.admin, block=block, autoindex=autoindex)
        block.refresh_from_db()
    assert confirmed(people, deployment) == DeploymentStatus.QUEUED


def test_plan_is_valid_when_unrelated_fields_changed(people: Cast, site: Site) -> None:
    other = websites.site_create(
        actor=people.admin,
        team=people.team,
        name="blog",
        domains=["blog.example"],
        web_server=people.nginx,
        root="/srv/www/blog",
    )
    deployment = planned(people, site)
    ServerBlock.objects.filter(site=other).update(autoindex=True)
    Site.objects.filter(pk=site.pk).update(notes="ask Ann first")
    WebServer.objects.filter(pk=site.web_server_id).update(is_running=True, workers=3)
    site.blocks.get().save()
    RawSnippet.objects.create(site=site, engine="apache", text="FileETag None", block=site.blocks.get())
    assert confirmed(people, deployment) == DeploymentStatus.QUEUED


def test_plan_is_stale_when_it_names_no_inputs(people: Cast, site: Site) -> None:
    deployment = planned(people, site)
    deployment.plan.sites = [replace(line, inputs="") for line in deployment.plan.sites]
    deployment.save(update_fields=["plan"])
    with pytest.raises(Conflict, match="outdated"):
        confirmed(people, deployment)


def test_confirmation_renders_and_stores_nothing(people: Cast, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = planned(people, site)
    monkeypatch.setattr(rendering, "render", lambda *_: pytest.fail("rendered again"))
    with CaptureQueriesContext(connection) as captured:
        assert confirmed(people, deployment) == DeploymentStatus.QUEUED
    assert not [query for query in captured.captured_queries if 'FROM "deployments_blob"' in query["sql"]]
