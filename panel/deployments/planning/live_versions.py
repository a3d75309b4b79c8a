"""Keep `SiteState.live_version` up to date when a site's version changes but its files do not.

`websites.versions` counts the changes; a draft whose version is the live one has no changes to deploy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from django.db.models import F

from panel.deployments.models import DEPLOYED, SiteState
from panel.deployments.planning.changes import Change
from panel.websites.models import Site


def live_versions_follow(sites: Collection[int]) -> None:
    """Increment the live version of those sites (ids) that have no changes to deploy. Call this function before a
    change that increments the sites' versions and leaves their files the same.
    """
    rows = SiteState.objects.filter(site__in=sites, live_version=F("site__version"))
    rows.update(live_version=F("live_version") + 1)


def live_version_is_draft(site: Site, revision: int) -> bool:
    """Record that the draft equals `revision`, given by its id; return whether that revision is live."""
    rows = SiteState.objects.filter(site=site, revision=revision, status__in=DEPLOYED)
    return bool(rows.update(live_version=site.version))


def live_versions_recognize(changes: Iterable[Change]) -> None:
    """Record the drafts that a plan found to equal their live revisions, for example after a change was reversed."""
    for change in changes:
        if change.new and change.old and change.new.pk == change.old.pk and change.version:
            site = Site(pk=change.site.pk, version=change.version)
            live_version_is_draft(site, change.new.pk)
