"""Selectors for deployments, revisions and drift that a user has access to."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable
from typing import Any

from django.db.models import Exists, Min, OuterRef, Prefetch, QuerySet

from panel.accounts.models import User
from panel.accounts.permissions import team_keys, visible
from panel.core.pages import unindexed
from panel.deployments.models import (
    DEPLOYED,
    Deployment,
    DeploymentItem,
    DeploymentStatus,
    Drift,
    DriftResolution,
    PinnedFile,
    Revision,
    SiteState,
)
from panel.hosts.models import HostStatus
from panel.hosts.selectors import hosts_visible
from panel.websites.models import Site


def deployments_visible(user: User) -> QuerySet[Deployment]:
    """Return the deployments that have a site of the user's teams. A deployment with sites of several teams is visible
    to each of the teams.
    """
    rows = Deployment.objects.select_related("host", "requested_by", "superseded_by")
    rows = rows.defer("superseded_by__plan", "superseded_by__comparison")  # large, and not needed here
    if user.is_admin:
        return visible(rows, user)
    items = visible(DeploymentItem.objects.all(), user, team_path="site__team")
    return rows.filter(pk__in=items.values("deployment"))


def deployments_finished(user: User, since: dt.datetime) -> QuerySet[Deployment]:
    """Return the deployments with a site of the user's teams that ended after the time `since`.

    Primary keys grow with time, so only items from the first such deployment on are read.
    """
    rows = Deployment.objects.filter(finished_at__gt=since)
    if user.is_admin:
        return visible(rows, user)
    first = rows.aggregate(first=Min(unindexed("pk")))["first"] or 0
    items = visible(DeploymentItem.objects.filter(deployment__gte=first), user, team_path="site__team")
    return rows.filter(pk__in=items.values("deployment"))


def deployments_on_page(user: User) -> QuerySet[Deployment]:
    """Return `deployments_visible` for lists, without checks and comparisons. Of hosts and users, only names are
    loaded.
    """
    own = [field.name for field in Deployment._meta.concrete_fields if field.name not in ("checks", "comparison")]
    others = ("host__name", "requested_by__username", "superseded_by__uuid")
    return deployments_visible(user).defer(None).only(*own, *others)


def states_on_running_servers() -> QuerySet[SiteState]:
    """Return the states of live sites whose web server runs on a host that responds and is not paused. Stopped servers
    and silent hosts have separate alerts.
    """
    return SiteState.objects.filter(
        status__in=DEPLOYED,
        revision__web_server__is_running=True,
        revision__web_server__host__status=HostStatus.READY,
        revision__web_server__host__is_paused=False,
    )


def with_items(rows: QuerySet[Deployment]) -> QuerySet[Deployment]:
    items = DeploymentItem.objects.select_related("site__team", "revision__web_server", "previous__web_server")
    return rows.prefetch_related(Prefetch("items", queryset=items))


def with_own_sites(user: User, rows: Iterable[Deployment]) -> list[Deployment]:
    """Return the deployments with the attribute `own_sites` set: the PlanSites of sites that the user has access to."""
    found = list(rows)
    lines = {row.pk: row.plan.sites for row in found}
    named = {line.id for part in lines.values() for line in part}
    seen = (
        named if user.is_admin else set(visible(Site.objects.filter(pk__in=named), user).values_list("pk", flat=True))
    )
    for row in found:
        row.own_sites = [line for line in lines[row.pk] if line.id in seen]  # type: ignore[attr-defined]
    return found


def of_own_sites(user: User, rows: QuerySet[Deployment], **names: Any) -> QuerySet[Deployment]:
    """Filter deployments: those with a visible site that matches `names`, a filter such as `name__icontains="shop"`.

    The names of sites that the user may not see are not searched.
    """
    sites = visible(Site.objects.filter(**names), user)
    return rows.filter(pk__in=DeploymentItem.objects.filter(site__in=sites).values("deployment"))


def newest_named(user: User, rows: QuerySet[Deployment], words: str, most: int) -> list[int]:
    """Return the primary keys of the newest `most` deployments with `words` in the name of a visible site or host.

    Two queries, for sites and for hosts, each read only the newest rows; a single query would read and sort all rows.
    The rows are sorted by primary key, which grows with time, because reading the times of thousands of rows is slow.
    """
    hosts = list(hosts_visible(user).filter(name__icontains=words).values_list("pk", flat=True))
    found: set[int] = set()
    for part in (of_own_sites(user, rows, name__icontains=words), rows.filter(host__in=hosts)):
        found.update(part.values_list("pk", flat=True)[:most])
    return sorted(found, reverse=True)[:most]


def is_whole_visible(user: User, deployment: Deployment) -> bool:
    """Return whether the user has access to all sites of the deployment; otherwise files and diffs are hidden."""
    return not shared_with_others(user, [deployment.pk])


def shared_with_others(user: User, deployments: Collection[int]) -> set[int]:
    """Return the primary keys of those deployments that contain sites to which the user has no access."""
    if user.is_admin or not deployments:
        return set()
    foreign = DeploymentItem.objects.filter(deployment__in=deployments).exclude(site__team__in=team_keys(user))
    return set(foreign.values_list("deployment", flat=True))


def deployments_planned(planned: Iterable[Deployment]) -> QuerySet[Deployment]:
    """Load the deployments of a plan again, with the related rows that the API shows."""
    rows = Deployment.objects.filter(pk__in=[row.pk for row in planned]).order_by("pk")
    return with_items(rows).select_related("host", "requested_by", "superseded_by")


def revisions_visible(user: User) -> QuerySet[Revision]:
    rows = Revision.objects.select_related("site", "web_server__host", "created_by").defer("spec")
    return visible(rows, user, team_path="site__team")


def revision_numbered(site: Site, number: int) -> Revision | None:
    return Revision.objects.select_related("web_server__host").filter(site=site, number=number).first()


def revisions_of(site: Site) -> QuerySet[Revision]:
    """Return the revisions of a site, with `was_live`: whether the revision was ever deployed."""
    taken = DeploymentItem.objects.filter(revision=OuterRef("pk"), deployment__status=DeploymentStatus.SUCCEEDED)
    return site.revisions.select_related("web_server__host", "created_by").annotate(was_live=Exists(taken))


def history_of(site: Site, limit: int = 50) -> list[DeploymentItem]:
    """Return the latest deployments of a site, newest first, with their revisions."""
    rows = DeploymentItem.objects.filter(site=site).select_related(
        "deployment__host",
        "deployment__requested_by",
        "revision__web_server",
        "previous",
        "disabled_after",
        "disabled_before",
    )
    return list(rows.order_by("-deployment__created_at")[:limit])


def state_of(site: Site) -> SiteState | None:
    return SiteState.objects.filter(site=site).select_related("revision__web_server__host", "last_failure").first()


def drifts_visible(user: User, *, only_open: bool = True) -> QuerySet[Drift]:
    """Return drift of the sites that the user may see; only administrators see the shared files of web servers."""
    rows = visible(Drift.objects.select_related("site__team", "web_server__host"), user, team_path="site__team")
    return rows.filter(resolution=DriftResolution.OPEN) if only_open else rows


def drifts_on_page(user: User) -> QuerySet[Drift]:
    """Return the open drift that the user may see, with the columns that the list shows, without files' contents."""
    server = ("web_server__engine", "web_server__label", "web_server__host__name")
    rows = visible(Drift.objects.filter(resolution=DriftResolution.OPEN), user, team_path="site__team")
    rows = rows.select_related("site", "web_server__host")
    return rows.only("path", "found_sha256", "detected_at", "site__name", *server)


def pins_visible(user: User) -> QuerySet[PinnedFile]:
    return visible(
        PinnedFile.objects.select_related("site", "web_server__host", "adopted_by"), user, team_path="site__team"
    )
