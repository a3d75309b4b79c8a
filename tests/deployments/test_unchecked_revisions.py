"""A revision of an older panel without path checks cannot be rolled back to."""

from __future__ import annotations

import pytest

from panel.core.errors import ApplicationError
from panel.deployments.models import Revision
from panel.deployments.planning.services import site_rollback
from panel.deployments.revisions.rendered import blobs_keep
from panel.deployments.rollback.services import draft_restore
from panel.rendering.spec import RenderedFile
from panel.websites import services as websites
from panel.websites.models import Site
from tests.api.caller import caller_of
from tests.deployments.sample_plans import live, shop
from tests.support.cast import Cast

CLIMBING = {"pattern": "^/(.)(.)a/(.*)$", "replacement": "/$1$2/$3", "flag": "last"}


def two_revisions(people: Cast) -> tuple[Site, Revision]:
    """The first has a rewrite that is checked while serving; the second, which is live, has none."""
    site = shop(people)
    block = site.blocks.get()
    websites.block_update(actor=people.owner, block=block, rewrites=[CLIMBING])
    live(people, site)
    websites.block_update(actor=people.owner, block=site.blocks.get(), rewrites=[])
    live(people, site)
    return site, Revision.objects.get(number=1)


def without_checks(revision: Revision) -> None:
    """As an older panel stored it."""
    name = f"/sites-available/{revision.site.name}.conf"
    (record,) = [item for item in revision.files if item["path"].endswith(name)]
    old = RenderedFile(record["path"], "server { rewrite ^/(.)(.)a/(.*)$ /$1$2/$3 last; }\n")
    record["sha256"] = blobs_keep({0: [old]})[0][0].sha256
    Revision.objects.filter(pk=revision.pk).update(files=revision.files)


def test_revision_with_path_checks_can_be_rolled_back_to(people: Cast) -> None:
    site, revision = two_revisions(people)
    assert site_rollback(actor=people.owner, site=site, revision=revision)


def test_revision_without_path_checks_offers_draft_reset_instead(people: Cast) -> None:
    site, revision = two_revisions(people)
    without_checks(revision)
    revision = Revision.objects.get(pk=revision.pk)
    for actor in (people.owner, people.admin):
        with pytest.raises(ApplicationError, match="Restore the draft"):
            site_rollback(actor=actor, site=site, revision=revision)
    answer = caller_of(people.owner).post("sites/shop/rollback/", {"revision": 1})
    assert answer.status_code == 422 and "Restore the draft" in answer.content.decode(), answer.content
    draft_restore(actor=people.owner, site=site, revision=revision)
    assert site.blocks.get().rewrites == [CLIMBING]
