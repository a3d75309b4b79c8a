"""Selectors: server blocks, locations, upstreams, PHP pools, stream servers, raw directives and names of sites."""

from __future__ import annotations

from django.db.models import Prefetch, QuerySet

from panel.accounts.models import User
from panel.accounts.permissions import visible
from panel.websites.models import (
    Listen,
    Location,
    PhpPool,
    RawSnippet,
    ServerBlock,
    ServerName,
    Site,
    StreamRoute,
    StreamServer,
    Upstream,
    UpstreamServer,
)

# --- parts of all sites that a user can see ---


def blocks_visible(user: User) -> QuerySet[ServerBlock]:
    rows = ServerBlock.objects.select_related("site__team", "certificate").prefetch_related("listens", "names")
    return visible(rows, user, team_path="site__team")


def locations_visible(user: User) -> QuerySet[Location]:
    rows = Location.objects.select_related("block__site__team", "upstream", "php_pool")
    return visible(rows, user, team_path="block__site__team")


def upstreams_visible(user: User) -> QuerySet[Upstream]:
    rows = Upstream.objects.select_related("site__team").prefetch_related("servers")
    return visible(rows, user, team_path="site__team")


def php_pools_visible(user: User) -> QuerySet[PhpPool]:
    return visible(PhpPool.objects.select_related("site__team"), user, team_path="site__team")


def stream_servers_visible(user: User) -> QuerySet[StreamServer]:
    return visible(_stream_servers(), user, team_path="site__team")


def _stream_servers() -> QuerySet[StreamServer]:
    routes = Prefetch("routes", StreamRoute.objects.select_related("upstream"))
    return StreamServer.objects.select_related("site__team", "upstream", "certificate").prefetch_related(routes)


def snippets_visible(user: User) -> QuerySet[RawSnippet]:
    return visible(RawSnippet.objects.select_related("site__team"), user, team_path="site__team")


def server_names_visible(user: User) -> QuerySet[ServerName]:
    return visible(ServerName.objects.select_related("block__site"), user, team_path="block__site__team")


def upstream_servers_visible(user: User) -> QuerySet[UpstreamServer]:
    return visible(UpstreamServer.objects.select_related("upstream__site"), user, team_path="upstream__site__team")


# --- parts of one site ---


def blocks_of(site: Site) -> QuerySet[ServerBlock]:
    """Return the server blocks of a site with everything that their page shows."""
    locations = Location.objects.select_related("upstream", "php_pool").prefetch_related("snippets")
    return (
        ServerBlock.objects.filter(site=site)
        .select_related("certificate", "site__team", "site__web_server__host")
        .prefetch_related("listens", "names", "snippets", Prefetch("locations", queryset=locations))
    )


def locations_of(site: Site) -> QuerySet[Location]:
    rows = Location.objects.select_related("block__site__team", "block__site__web_server__host")
    return rows.filter(block__site=site)


def snippets_of(site: Site) -> QuerySet[RawSnippet]:
    return RawSnippet.objects.filter(site=site).select_related("block__site", "location__block__site")


def listens_of(site: Site) -> QuerySet[Listen]:
    """Return the addresses of all server blocks of a site, those with TLS first."""
    return Listen.objects.filter(block__site=site).order_by("-tls", "port")


def upstreams_of(site: Site) -> QuerySet[Upstream]:
    rows = Upstream.objects.filter(site=site).select_related("site__team")
    return rows.prefetch_related("servers", "locations", "stream_servers", "stream_routes")


def php_pools_of(site: Site) -> QuerySet[PhpPool]:
    return PhpPool.objects.filter(site=site).select_related("site__team").prefetch_related("locations")


def stream_servers_of(site: Site) -> QuerySet[StreamServer]:
    return _stream_servers().filter(site=site)
