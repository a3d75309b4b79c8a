"""A draft has changes while its version is not the version that deployments recorded as live."""

from __future__ import annotations

import pytest

from panel.deployments.drift.services import drift_adopt, pin_release
from panel.deployments.models import Deployment, Drift, Revision, SiteState
from panel.deployments.planning import services
from panel.deployments.revisions.rendered import sha256_of
from panel.deployments.rollback.services import draft_restore
from panel.websites import services as websites
from panel.websites.models import Site
from panel.websites.versions import IS_PENDING
from tests.deployments.sample_plans import carried_out, live, planned, shop
from tests.support.cast import Cast


def has_changes(site: Site) -> bool:
    return Site.objects.filter(IS_PENDING, pk=site.pk).exists()


def edit(people: Cast, site: Site, autoindex: bool = True) -> None:
    websites.block_update(actor=people.owner, block=site.blocks.get(), autoindex=autoindex)


def confirm(people: Cast, deployment: Deployment, outcome: str = "applied") -> None:
    services.deployment_confirm(actor=people.owner, deployment=deployment)
    carried_out(deployment, outcome=outcome)


def revision(site: Site, number: int) -> Revision:
    return Revision.objects.get(site=site, number=number)


@pytest.fixture
def site(people: Cast) -> Site:
    """Live, without changes."""
    made = shop(people)
    live(people, made)
    return made


def test_deployed_site_has_no_changes_until_it_is_edited(people: Cast, site: Site) -> None:
    assert not has_changes(site)
    edit(people, site)
    assert has_changes(site)
    live(people, site)
    assert not has_changes(site)


def test_edit_during_a_deployment_is_a_change(people: Cast, site: Site) -> None:
    edit(people, site)
    deployment = planned(people, site)
    services.deployment_confirm(actor=people.owner, deployment=deployment)
    websites.block_update(actor=people.owner, block=site.blocks.get(), index=["start.html"])
    carried_out(deployment)
    assert has_changes(site)


def test_failed_deployment_leaves_the_changes(people: Cast, site: Site) -> None:
    edit(people, site)
    confirm(people, planned(people, site), outcome="rolled_back")
    assert has_changes(site)


def test_plan_recognizes_a_change_that_was_undone_by_hand(people: Cast, site: Site) -> None:
    edit(people, site)
    edit(people, site, autoindex=False)
    assert has_changes(site)
    planned(people, site)
    assert not has_changes(site)


def test_earlier_revision_is_another_version_than_the_draft(people: Cast, site: Site) -> None:
    edit(people, site)
    live(people, site)
    confirm(people, services.site_rollback(actor=people.owner, site=site, revision=revision(site, 1)))
    assert has_changes(site)
    draft_restore(actor=people.owner, site=site, revision=revision(site, 1))
    assert not has_changes(site)


def test_earlier_revision_that_the_draft_says_leaves_no_changes(people: Cast, site: Site) -> None:
    edit(people, site)
    live(people, site)
    draft_restore(actor=people.owner, site=site, revision=revision(site, 1))
    assert has_changes(site)
    confirm(people, services.site_rollback(actor=people.owner, site=site, revision=revision(site, 1)))
    assert not has_changes(site)


@pytest.mark.parametrize("is_edited", [False, True])
def test_disabling_that_is_cancelled_or_fails_changes_no_draft(people: Cast, site: Site, is_edited: bool) -> None:
    if is_edited:
        edit(people, site)
    for end in ("cancel", "fail"):
        deployment = services.site_disable(actor=people.owner, site=site)
        assert deployment is not None
        services.deployment_confirm(actor=people.owner, deployment=deployment)
        assert not Site.objects.get(pk=site.pk).enabled
        if end == "cancel":
            services.deployment_cancel(actor=people.owner, deployment=deployment)
        else:
            carried_out(deployment, outcome="failed")
        assert (Site.objects.get(pk=site.pk).enabled, has_changes(site)) == (True, is_edited)


def test_disabled_site_has_changes_once_it_is_enabled(people: Cast, site: Site) -> None:
    deployment = services.site_disable(actor=people.owner, site=site)
    assert deployment is not None
    confirm(people, deployment)
    assert not has_changes(site)
    websites.site_enable(actor=people.owner, site=Site.objects.get(pk=site.pk), enabled=True)
    assert has_changes(site)


def test_move_leaves_no_changes(people: Cast, site: Site) -> None:
    (deployment,) = services.site_move(actor=people.owner, site=site, web_server=people.apache)
    confirm(people, deployment)
    assert Site.objects.get(pk=site.pk).web_server == people.apache
    assert not has_changes(site)


def test_adopted_drift_is_no_change_and_its_release_is_one(people: Cast, site: Site) -> None:
    state = SiteState.objects.get(site=site)
    assert state.revision is not None
    record, text = state.revision.files[0], "# by hand\n"
    drift = Drift.objects.create(
        site=site,
        web_server=people.nginx,
        path=record["path"],
        expected_sha256=record["sha256"],
        found_sha256=sha256_of(text),
        found=text,
    )
    pin = drift_adopt(actor=people.admin, drift=drift)
    assert not has_changes(site)
    pin_release(actor=people.admin, pin=pin)
    assert has_changes(site)


def test_allowance_is_no_change_of_a_draft(people: Cast, site: Site) -> None:
    before = Site.objects.get(pk=site.pk).version
    websites.allowance_create(actor=people.admin, kind="name", value="a.example", team=people.team)
    assert not has_changes(site)
    assert Site.objects.get(pk=site.pk).version > before


def test_renewed_certificate_is_a_change_of_every_site_that_uses_it(people: Cast) -> None:
    values = {"actor": people.owner, "team": people.team, "names": ["shop.example"]}
    certificate = websites.certificate_self_sign(name="shop", **values)
    site = shop(people, certificate=certificate)
    live(people, site)
    new = websites.certificate_self_sign(name="new", **values)
    websites.certificate_replace(
        actor=people.owner,
        certificate=certificate,
        certificate_pem=new.certificate_pem,
        private_key_pem=new.private_key_pem,
    )
    assert has_changes(site)
