"""A deployment closes the plans that it makes stale; other plans stay open."""

from __future__ import annotations

import pytest

from panel.core.errors import Conflict
from panel.deployments.models import Deployment, DeploymentKind, DeploymentStatus
from panel.deployments.planning import services
from panel.hosts.models import Engine, Host
from panel.websites import services as websites
from panel.websites.models import Site
from tests.deployments.sample_plans import carried_out, live, planned, shop
from tests.support.cast import Cast, web_server


def status(deployment: Deployment) -> tuple[str, str]:
    deployment.refresh_from_db()
    return deployment.status, deployment.error


def edited(people: Cast, site: Site, **values: object) -> Site:
    websites.block_update(actor=people.owner, block=site.blocks.get(), **values)
    return site


def test_older_plan_of_same_site_is_closed_with_reason(people: Cast) -> None:
    site = shop(people)
    older = planned(people, site, shop(people, "blog"))  # a plan of the same sites alone would be replaced
    live(people, site)
    assert status(older)[0] == DeploymentStatus.CANCELLED
    assert status(older)[1].startswith("This plan is outdated because another plan has deployed shop.")
    with pytest.raises(Conflict, match="This plan is outdated because another plan has deployed shop"):
        services.deployment_confirm(actor=people.owner, deployment=older)


def test_outdated_plan_is_closed_with_its_whole_batch(people: Cast) -> None:
    far = web_server(Host.objects.create(name="web-2", site_roots=["/srv/www"]), Engine.NGINX, "")
    shops = [shop(people), shop(people, "blog", web_server=far)]
    batch = services.deployment_plan(actor=people.owner, sites=shops)
    live(people, shops[0])
    assert {status(row)[0] for row in batch} == {DeploymentStatus.CANCELLED}


def test_plans_of_other_sites_stay_open(people: Cast) -> None:
    other = planned(people, shop(people, "blog"))
    live(people, shop(people))
    assert status(other) == (DeploymentStatus.PLANNED, "")


def test_plan_stays_valid_when_its_base_revision_is_live_again(people: Cast) -> None:
    site = shop(people)
    live(people, site)
    waiting = planned(people, edited(people, site, autoindex=True))
    overwrite = services.deployment_plan(actor=people.owner, sites=[site], kind=DeploymentKind.OVERWRITE)
    carried_out(*overwrite)
    assert status(waiting) == (DeploymentStatus.PLANNED, "")
    services.deployment_confirm(actor=people.owner, deployment=waiting)


def test_failed_deployment_closes_no_plans(people: Cast) -> None:
    site = shop(people)
    waiting, failing = planned(people, site, shop(people, "blog")), planned(people, site)
    carried_out(failing, outcome="rolled_back", error="nginx: [emerg]")
    assert status(waiting) == (DeploymentStatus.PLANNED, "")
