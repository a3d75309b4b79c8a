"""Plans of a shop on a host that is not asked, and what became of them."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from agents.protocol import ApplyResult, StepEvent
from panel.core.claims import Claim
from panel.deployments.execution import outcomes
from panel.deployments.models import (
    Deployment,
    DeploymentStatus,
)
from panel.deployments.planning import services
from panel.hosts.models import WebServer
from panel.websites import services as websites
from panel.websites.models import Site
from tests.support.cast import Cast


def shop(people: Cast, name: str = "shop", **values: Any) -> Site:
    given: dict[str, Any] = {
        "actor": people.owner,
        "team": people.team,
        "name": name,
        "domains": [f"{name}.example"],
        "web_server": people.nginx,
        "root": f"/srv/www/{name}",
    }
    return websites.site_create(**(given | values))


def shop_with_parts(people: Cast, web_server: WebServer) -> Site:
    """A shop with HTTPS, an upstream and a PHP pool, each with a location that uses it."""
    admin = people.admin
    certificate = websites.certificate_self_sign(actor=admin, team=people.team, name="shop", names=["shop.example"])
    site = shop(people, actor=admin, web_server=web_server, certificate=certificate)
    servers = [{"address": "127.0.0.1:9001"}]
    upstream = websites.upstream_create(actor=admin, site=site, name="app", servers=servers)
    pool = websites.php_pool_create(actor=admin, site=site, name="main", address="unix:/run/php/shop.sock")
    block = site.blocks.get()
    proxied = {"match": "^~", "pattern": "/app/", "handler": "proxy", "upstream": upstream}
    websites.location_create(actor=admin, block=block, **proxied)
    php = {"match": "~", "pattern": r"\.php$", "handler": "php", "php_pool": pool}
    websites.location_create(actor=admin, block=block, **php)
    return site


def planned(people: Cast, *sites: Site) -> Deployment:
    (deployment,) = services.deployment_plan(actor=people.owner, sites=sites)
    return deployment


def carried_out(*deployments: Deployment, outcome: str = "applied", error: str = "") -> None:
    """The panel's side of an outcome that the agent reported."""
    claim = Claim(Deployment)
    rows = Deployment.objects.filter(pk__in=[deployment.pk for deployment in deployments])
    rows.update(status=DeploymentStatus.RUNNING, claimed_by=claim.token, started_at=timezone.now())
    result = ApplyResult(outcome, error, [StepEvent("test", "succeeded", ["nginx", "-t"], 0, "ok")])
    outcomes.ends_record(claim, [outcomes.end_of(deployment, result, {}) for deployment in deployments])
    for deployment in deployments:
        deployment.refresh_from_db()


def live(people: Cast, site: Site) -> Deployment:
    deployment = planned(people, site)
    services.deployment_confirm(actor=people.owner, deployment=deployment)
    carried_out(deployment)
    return deployment


def files(deployment: Deployment) -> dict[str, str]:
    return {file.path: file.action for file in deployment.plan.files}
