"""Delete maintenance rows whose page is no longer live: a row stays only while a live revision shows the page."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import QuerySet

from panel.deployments.models import DeploymentItem, DeploymentStatus
from panel.deployments.planning.selectors import live_revisions
from panel.deployments.revisions.rendered import spec_of
from panel.websites.models import Maintenance

UNFINISHED = (DeploymentStatus.QUEUED, DeploymentStatus.RUNNING)


def sites_busy() -> QuerySet[DeploymentItem, int]:
    """Return the ids of sites with a queued or running deployment, as a query set."""
    return DeploymentItem.objects.filter(deployment__status__in=UNFINISHED).values_list("site", flat=True)


def rows_settle(sites: Iterable[int]) -> None:
    """Delete the maintenance rows of sites (ids) that have neither a live page nor an unfinished deployment."""
    rows = list(Maintenance.objects.filter(site__in=list(sites)).select_related("site"))
    if not rows:
        return
    live = live_revisions([row.site for row in rows])
    waiting = set(sites_busy().filter(site__in=[row.site_id for row in rows]))
    shown = {pk for pk, revision in live.items() if spec_of(revision).maintenance}
    Maintenance.objects.filter(site__in=[row.site_id for row in rows if row.site_id not in shown | waiting]).delete()
