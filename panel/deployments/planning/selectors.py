"""Selectors for the live revisions of sites and web servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from django.db.models import QuerySet

from panel.deployments.models import DEPLOYED, Revision, SiteState
from panel.deployments.planning.changes import Change
from panel.hosts.models import WebServer
from panel.websites.models import Site


def live_revision(site: Site) -> Revision | None:
    return live_revisions([site]).get(site.pk)


def live_revisions(sites: Iterable[Site], read: Iterable[WebServer] = ()) -> dict[int, Revision]:
    """Return the live revision of each site, by site id; undeployed sites are omitted.

    Specs are loaded on first use. `read`: web servers already loaded with their hosts, which are attached to the
    revisions.
    """
    states = list(_live(sites).select_related("revision").defer("revision__spec"))
    known = {web_server.pk: web_server for web_server in read}
    missing = {state.revision.web_server_id for state in states if state.revision} - known.keys()
    known |= WebServer.objects.select_related("host").in_bulk(list(missing)) if missing else {}
    found = {}
    for state in states:
        if state.revision:
            state.revision.web_server = known[state.revision.web_server_id]
            found[state.site_id] = state.revision
    return found


def live_numbers(sites: Iterable[Site]) -> dict[int, int]:
    """Return {site id: id of its live revision} for the deployed sites."""
    return dict(_live(sites).filter(revision__isnull=False).values_list("site_id", "revision_id"))


def _live(sites: Iterable[Site]) -> QuerySet[SiteState]:
    return SiteState.objects.filter(site__in=[site.pk for site in sites], status__in=DEPLOYED)


def live_states(
    web_servers: Iterable[WebServer], changes: Mapping[WebServer, Sequence[Change]] | None = None
) -> dict[int, list[SiteState]]:
    """Return {web server id: states of its live sites, ordered by site name}. Sites in `changes` are left out."""
    found: dict[int, list[SiteState]] = {web_server.pk: [] for web_server in web_servers}
    rows = SiteState.objects.filter(status__in=DEPLOYED, revision__web_server__in=found)
    left_out = {(web_server.pk, change.site.pk) for web_server, part in (changes or {}).items() for change in part}
    if left_out and left_out.issuperset(rows.values_list("revision__web_server", "site")):
        return found  # `changes` covers all live sites, for example on hosts with one site
    for state in rows.select_related("site", "revision").order_by("site__name"):
        assert state.revision is not None
        if (state.revision.web_server_id, state.site_id) not in left_out:
            found[state.revision.web_server_id].append(state)
    return found
