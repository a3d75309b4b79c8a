"""Selectors of placements that a user may see, and of the state of their copies."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, QuerySet

from panel.accounts.models import User
from panel.accounts.permissions import visible
from panel.hosts.models import Host
from panel.placements.choosing import targets
from panel.placements.models import PlacedSite, Placement
from panel.websites.listing import sites_listed
from panel.websites.models import Site


@dataclass(frozen=True)
class Member:
    """One host of a placement. `state` is due, current, leaving, or problem.

    Due: the copy is missing, or older than the site. Current: the draft of the copy is up to date; `site` is the copy,
    with its live state loaded. Leaving: the host has a copy, but no longer the tags. Problem: Paddock cannot choose a
    web server for the copy; `problem` is the reason.
    """

    host: Host
    state: str
    site: Site | None = None
    problem: str = ""


def placements_visible(user: User) -> QuerySet[Placement]:
    rows = Placement.objects.select_related("site__team", "site__web_server__host")
    return (
        visible(rows, user, team_path="site__team")
        .annotate(copy_count=Count("copies", distinct=True))
        .order_by("site__name")
    )


def members(user: User, placement: Placement) -> list[Member]:
    """Return the hosts of a placement by name: hosts that have its tags, and hosts that lost the tags but still have a
    copy.
    """
    copies = list(PlacedSite.objects.filter(placement=placement))
    sites = {site.pk: site for site in sites_listed(user).filter(pk__in=[copy.site_id for copy in copies])}
    by_server = {sites[copy.site_id].web_server_id: copy for copy in copies if copy.site_id in sites}
    own = (placement.site.version, placement.row_version)
    found: list[Member] = []
    for target in targets(placement):
        copy = by_server.pop(target.web_server.pk, None) if target.web_server else None
        if target.web_server is None:
            found.append(Member(target.host, "problem", problem=target.problem))
        elif copy is None or (copy.site_version, copy.placement_version) != own:
            found.append(Member(target.host, "due", sites[copy.site_id] if copy else None))
        else:
            found.append(Member(target.host, "current", sites[copy.site_id]))
    for copy in by_server.values():
        site = sites[copy.site_id]
        if site.web_server is not None:
            found.append(Member(site.web_server.host, "leaving", site))
    return sorted(found, key=lambda member: member.host.name)


def is_due(user: User, placement: Placement) -> bool:
    """Return whether a plan of this placement would change any host."""
    return any(
        member.state in ("due", "leaving") or (member.site is not None and member.site.is_pending)  # type: ignore[attr-defined]
        for member in members(user, placement)
    )
