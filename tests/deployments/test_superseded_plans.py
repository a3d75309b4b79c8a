"""A newer plan replaces an open plan of its kind and sites; each kind of failed deployment can be planned again."""

from __future__ import annotations

import pytest
from django.urls import reverse

from panel.audit.models import AuditEntry
from panel.core.errors import Conflict
from panel.deployments.models import Deployment, DeploymentKind, DeploymentStatus
from panel.deployments.planning import services
from panel.websites import services as websites
from tests.api.caller import caller_of
from tests.deployments.sample_plans import carried_out, live, planned, shop
from tests.support.cast import Cast, signed_in

WAITS = DeploymentStatus.PLANNED


def address(deployment: Deployment, name: str = "detail") -> str:
    return reverse(f"deployments:{name}", args=[deployment.uuid])


def test_superseded_plan_links_to_newer_plan(people: Cast) -> None:
    site, client = shop(people), signed_in(people.owner)
    first, second, third = (planned(people, site) for _ in range(3))
    assert list(Deployment.objects.filter(status=WAITS)) == [third]
    for old in (first, second):
        old.refresh_from_db()
        assert (old.status, old.superseded_by) == (DeploymentStatus.CANCELLED, third)
    listed = client.get(reverse("deployments:list")).content.decode()
    assert listed.count("Replaced") == 2 and listed.count("newer plan</a>") == 2
    page = client.get(address(first)).content.decode()
    assert "A newer plan replaced this plan" in page and address(third) in page
    with pytest.raises(Conflict, match="A newer plan replaced this plan"):
        services.deployment_confirm(actor=people.owner, deployment=first)
    assert AuditEntry.objects.filter(action="deployment.supersede").count() == 2
    told = caller_of(people.owner).get(f"deployments/{first.uuid}/?fields=status,superseded_by").json()  # type: ignore[attr-defined]
    assert told == {"status": "cancelled", "superseded_by": str(third.uuid)}


def test_plans_of_other_kinds_or_sites_are_not_superseded(people: Cast) -> None:
    site, other = shop(people), shop(people, "blog")
    live(people, site)
    both = planned(people, site, other)
    (disabling,) = services.deployment_plan(actor=people.owner, sites=[site], kind=DeploymentKind.DISABLE)
    alone = planned(people, site)
    assert set(Deployment.objects.filter(status=WAITS)) == {both, disabling, alone}
    again = planned(people, site, other)
    assert set(Deployment.objects.filter(status=WAITS)) == {disabling, again}


def test_confirmed_plan_is_not_superseded(people: Cast) -> None:
    site = shop(people)
    queued = planned(people, site)
    services.deployment_confirm(actor=people.owner, deployment=queued)
    planned(people, site)
    queued.refresh_from_db()
    assert (queued.status, queued.superseded_by) == (DeploymentStatus.QUEUED, None)


@pytest.mark.parametrize("kind", ["overwrite", "disable", "rollback", "move"])
def test_failed_deployment_offers_new_plan_of_its_kind(people: Cast, kind: str) -> None:
    site, client = shop(people), signed_in(people.owner)
    first = live(people, site).items.get().revision
    websites.block_update(actor=people.owner, block=site.blocks.get(), autoindex=True)
    live(people, site)
    if kind == "rollback":
        assert first
        failed = services.site_rollback(actor=people.owner, site=site, revision=first)
    elif kind == "move":
        failed = services.site_move(actor=people.owner, site=site, web_server=people.apache)[0]
    else:
        (failed,) = services.deployment_plan(actor=people.owner, sites=[site], kind=DeploymentKind(kind))
    services.deployment_confirm(actor=people.owner, deployment=failed)
    carried_out(failed, outcome="rolled_back", error="the server said no")
    assert "Plan again" in client.get(address(failed)).content.decode()
    assert "Plan again" not in signed_in(people.viewer).get(address(failed)).content.decode()
    page = client.post(address(failed, "again"), follow=True)
    new = Deployment.objects.get(status=WAITS)
    assert (new.kind, [item.site for item in new.items.all()]) == (kind, [site])
    assert new.items.get().revision == failed.items.get().revision
    assert page.redirect_chain[-1][0] == address(new)  # type: ignore[attr-defined]


def test_open_plan_is_replaced_in_place_when_planned_again(people: Cast) -> None:
    site = shop(people)
    stale = planned(people, site)
    websites.block_update(actor=people.owner, block=site.blocks.get(), autoindex=True)
    assert "Plan again" in signed_in(people.owner).get(address(stale)).content.decode()
    answer = caller_of(people.owner).post(f"deployments/{stale.uuid}/again/")
    assert answer.status_code == 201
    stale.refresh_from_db()
    assert stale.superseded_by == Deployment.objects.get(status=WAITS)
    live(people, site)
    done = Deployment.objects.get(status=DeploymentStatus.SUCCEEDED)
    assert caller_of(people.owner).post(f"deployments/{done.uuid}/again/").status_code == 409
