"""Selectors for the periodic health checks of live sites."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db.models import Count, F

from panel.core.jobs import JobStatus
from panel.deployments.models import DEPLOYED, Deployment, HealthChange, Revision, SiteState
from panel.hosts.models import Host

MOST_SITES = 2000  # of one host in one sweep; each has up to four requests


def live_states(hosts: Collection[Host], sites: Collection[int] | None = None) -> dict[int, list[SiteState]]:
    """Return {host id: states of the sites that are live on the host}, without loading the specs and files of their
    revisions. If `sites` is given, only states of sites with these ids are returned.
    """
    rows = SiteState.objects.filter(status__in=DEPLOYED, revision__web_server__host__in=hosts)
    rows = rows.annotate(host_id=F("revision__web_server__host")).select_related("site", "revision")
    if sites is not None:
        rows = rows.filter(site__in=sites)
    found: dict[int, list[SiteState]] = {host.pk: [] for host in hosts}
    for state in rows.defer("revision__spec", "revision__files").order_by("pk")[: MOST_SITES * len(hosts)]:
        found[state.host_id].append(state)
    return found


def specs_of(revisions: Collection[int]) -> dict[int, dict[str, Any]]:
    """Return the specs of revisions as JSON, by revision id."""
    return dict(Revision.objects.filter(pk__in=revisions).values_list("pk", "spec"))


def same_revision(states: list[SiteState]) -> list[SiteState]:
    """Return the states whose live revision has not changed in the database since they were loaded. If another revision
    went live, its deployment has observed the site.
    """
    rows = SiteState.objects.filter(pk__in=[state.pk for state in states]).values_list("pk", "revision")
    now = dict(rows)
    return [state for state in states if now.get(state.pk) == state.revision_id]


def sites_changing(hosts: Collection[Host]) -> set[tuple[int, int]]:
    """Return the sites with a running deployment on one of the hosts, as (host id, site id). Such a site may respond as
    before or after the change.
    """
    running = Deployment.objects.filter(host__in=hosts, status=JobStatus.RUNNING)
    return set(running.values_list("host", "items__site"))


def sites_with_long_history(sites: Collection[int], most: int) -> list[int]:
    """Return the ids in `sites` of the sites that have more than `most` changes of their health stored."""
    rows = HealthChange.objects.filter(site__in=sites).order_by().values("site").annotate(count=Count("pk"))
    return list(rows.filter(count__gt=most).values_list("site", flat=True))
