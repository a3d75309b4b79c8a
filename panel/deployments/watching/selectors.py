"""Selectors for the periodic health checks of live sites."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from panel.core.jobs import JobStatus
from panel.deployments.models import DEPLOYED, Deployment, Revision, SiteState
from panel.hosts.models import Host

MOST_SITES = 2000  # of one host in one round; each has up to four requests


def live_states(host: Host, sites: Collection[int] | None = None) -> list[SiteState]:
    """Return the states of sites live on a host (only those with ids in `sites`, if given), without loading the specs
    and files of their revisions.
    """
    rows = SiteState.objects.filter(status__in=DEPLOYED, revision__web_server__host=host).select_related(
        "site", "revision"
    )
    if sites is not None:
        rows = rows.filter(site__in=sites)
    return list(rows.defer("revision__spec", "revision__files").order_by("pk")[:MOST_SITES])


def spec_of(revision: int) -> dict[str, Any]:
    found: dict[str, Any] = Revision.objects.values_list("spec", flat=True).get(pk=revision)
    return found


def same_revision(states: list[SiteState]) -> list[SiteState]:
    """Return the states whose live revision has not changed in the database since they were loaded. If another revision
    went live, its deployment has observed the site.
    """
    rows = SiteState.objects.filter(pk__in=[state.pk for state in states]).values_list("pk", "revision")
    now = dict(rows)
    return [state for state in states if now.get(state.pk) == state.revision_id]


def sites_changing(host: Host) -> set[int]:
    """Return the ids of sites with a running deployment on the host. Such a site may respond as before or after the
    change.
    """
    running = Deployment.objects.filter(host=host, status=JobStatus.RUNNING)
    return {pk for pk in running.values_list("items__site", flat=True) if pk is not None}
