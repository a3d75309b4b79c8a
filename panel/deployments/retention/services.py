"""Delete old deployments and revisions, a few at a time.

The newest deployments and revisions of each site stay. So do the revisions that a live or disabled site needs, and
those in remaining deployments. `PADDOCK_KEEP_DEPLOYMENTS_DAYS` sets the time; 0 keeps everything.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from django.conf import settings
from django.db.models import Exists, OuterRef
from django.utils import timezone

from panel.deployments.models import TERMINAL, Deployment, DeploymentItem, Revision, SiteState

KEPT_OF_SITE = 20
AT_ONCE = 200


def old_forget(now: dt.datetime | None = None) -> int:
    """Delete at most AT_ONCE old deployments, then as many old revisions; return the number of deleted rows."""
    if not settings.KEEP_DEPLOYMENTS_DAYS:
        return 0
    before = (now or timezone.now()) - dt.timedelta(days=settings.KEEP_DEPLOYMENTS_DAYS)
    return _deployments_forget(before) + _revisions_forget(before)


def _deployments_forget(before: dt.datetime) -> int:
    kept = SiteState.objects.filter(last_failure=OuterRef("pk"))
    rows = Deployment.objects.filter(status__in=TERMINAL, finished_at__lt=before).exclude(Exists(kept))
    old = list(rows.order_by("pk").values_list("pk", flat=True)[:AT_ONCE])
    items = DeploymentItem.objects.filter(deployment__in=old).values_list("deployment", "site")
    sites: dict[int, list[int]] = {pk: [] for pk in old}
    for deployment, site in items:
        sites[deployment].append(site)
    limits = _limits({site for named in sites.values() for site in named})
    gone = [pk for pk, named in sites.items() if all(pk < limits[site] for site in named)]
    Deployment.objects.filter(pk__in=gone).delete()
    return len(gone)


def _limits(sites: Iterable[int]) -> dict[int, int]:
    """Return, by site id, the id of the oldest deployment to keep; 0 if the site has fewer than KEPT_OF_SITE."""
    found = {}
    for site in sites:
        newest = DeploymentItem.objects.filter(site=site).order_by("-deployment").values_list("deployment", flat=True)
        found[site] = next(iter(newest[KEPT_OF_SITE - 1 : KEPT_OF_SITE]), 0)
    return found


def _revisions_forget(before: dt.datetime) -> int:
    live = SiteState.objects.filter(site=OuterRef("site"))
    named = DeploymentItem.objects.filter(site=OuterRef("site"))
    rows = Revision.objects.filter(created_at__lt=before)
    for column in ("revision", "disabled_revision"):
        rows = rows.exclude(Exists(live.filter(**{column: OuterRef("pk")})))
    for column in ("revision", "previous", "disabled_after", "disabled_before"):
        rows = rows.exclude(Exists(named.filter(**{column: OuterRef("pk")})))
    gone = []
    for pk, site, number in rows.order_by("pk").values_list("pk", "site", "number")[:AT_ONCE]:
        if Revision.objects.filter(site=site, number__gt=number).count() >= KEPT_OF_SITE:
            gone.append(pk)
    Revision.objects.filter(pk__in=gone).delete()
    return len(gone)
