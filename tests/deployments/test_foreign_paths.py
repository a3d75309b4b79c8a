"""No plan, move or rollback serves files of another team."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from panel.deployments.models import (
    Deployment,
)
from panel.deployments.planning import services
from panel.deployments.planning.selectors import live_revision
from panel.hosts.models import Engine, Host
from panel.websites import services as websites
from panel.websites.models import Site
from tests.deployments.sample_plans import carried_out, live, planned, shop
from tests.support.cast import Cast, web_server


def test_plan_is_rejected_when_it_serves_files_of_another_team(people: Cast) -> None:
    """Both rows are older than the rule that rejects overlaps on save."""
    site = shop(people)
    shop(people, "blog", actor=people.outsider, team=people.other_team)
    Site.objects.get(name="blog").blocks.update(root="/srv/www/shop/blog")
    with pytest.raises(ValidationError, match="ask an administrator"):
        planned(people, site)
    with pytest.raises(ValidationError, match="ask an administrator"):
        services.deployment_plan(actor=people.outsider, sites=[Site.objects.get(name="blog")])
    assert not Deployment.objects.exists()
    (allowed,) = services.deployment_plan(actor=people.admin, sites=[site])
    services.deployment_confirm(actor=people.admin, deployment=allowed)
    carried_out(allowed)
    websites.block_update(actor=people.owner, block=site.blocks.get(), autoindex=True)
    assert planned(people, site).items.get().revision.number == 2  # type: ignore[union-attr]


def test_move_is_rejected_when_it_serves_files_of_another_team(people: Cast) -> None:
    site = shop(people)
    live(people, site)
    other = Host.objects.create(name="web-2", connection="local", status="ready", site_roots=["/srv/www"])
    there = web_server(other, Engine.NGINX, "")
    values = {"actor": people.outsider, "team": people.other_team, "web_server": there, "root": "/srv/www/shop/blog"}
    shop(people, "blog", **values)
    with pytest.raises(ValidationError, match=r"/srv/www/shop on web-2 .* ask an administrator"):
        services.site_move(actor=people.owner, site=Site.objects.get(pk=site.pk), web_server=there)


def test_rollback_is_rejected_when_files_now_belong_to_another_team(people: Cast) -> None:
    site = shop(people)
    live(people, site)
    first = live_revision(site)
    assert first is not None
    websites.block_update(actor=people.owner, block=site.blocks.get(), root="/srv/www/shop-new")
    live(people, site)
    shop(people, "blog", actor=people.outsider, team=people.other_team, root="/srv/www/shop")
    site = Site.objects.get(pk=site.pk)
    with pytest.raises(ValidationError) as caught:
        services.site_rollback(actor=people.owner, site=site, revision=first)
    assert "/srv/www/shop on web-1" in caught.value.message_dict["revision"][0]
    services.site_rollback(actor=people.admin, site=site, revision=first)
