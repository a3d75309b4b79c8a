"""Conversion of database rows to a frozen SiteSpec: the only place that turns the desired state in the ORM into plain
data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from django.db.models import Prefetch, QuerySet, prefetch_related_objects

from panel.hosts.models import WebServer
from panel.rendering import challenges, spec
from panel.websites import field_names, paths, shared
from panel.websites.models import (
    Certificate,
    ClientVerify,
    Location,
    Maintenance,
    RawSnippet,
    ServerBlock,
    Site,
    StreamRoute,
    StreamServer,
)


def with_parts(sites: QuerySet[Site]) -> list[Site]:
    """Return the sites with all their parts (server blocks, locations, upstreams, ...), loaded in a constant number of
    queries.
    """
    found = list(
        sites.select_related("team", "web_server__host", "maintenance").prefetch_related(
            Prefetch("blocks", ServerBlock.objects.select_related("certificate__host")),
            "blocks__listens",
            "blocks__names",
            Prefetch("blocks__locations", Location.objects.select_related("upstream", "php_pool")),
            "upstreams__servers",
            "php_pools",
            Prefetch("stream_servers", StreamServer.objects.select_related("upstream", "certificate__host")),
            Prefetch("stream_servers__routes", StreamRoute.objects.select_related("upstream")),
            "snippets",
        )
    )
    blocks = [block for site in found for block in site.blocks.all()]
    locations = [location for block in blocks for location in block.locations.all()]
    if any(shared.lists_named(location.access_rules) for location in locations):
        prefetch_related_objects(found, "team__accesslist_set")
    headers = [*(block.headers for block in blocks), *(location.headers for location in locations)]
    if any(map(shared.header_sets_named, headers)):
        prefetch_related_objects(found, "team__headerset_set")
    return found


def site_folder(site: Site, web_server: WebServer) -> str:
    """Return the folder on the host for the site's certificates, keys, and password files."""
    return f"{web_server.paths['config_root'].rstrip('/')}/paddock/{site.name}"


def tls_files(site: Site, web_server: WebServer, certificate: Certificate) -> spec.TlsFiles:
    if certificate.host_id:
        paths = certificate.certificate_path, certificate.key_path
        return spec.TlsFiles(name=certificate.name, certificate_path=paths[0], key_path=paths[1])
    stem = f"{site_folder(site, web_server)}/{certificate.name}"
    return spec.TlsFiles(name=certificate.name, certificate_path=f"{stem}.crt", key_path=f"{stem}.key")


def fetched(site: Site) -> Site:
    """Load the site and its parts again from the database, because the object `site` may be outdated."""
    found = with_parts(Site.objects.filter(pk=site.pk))
    if not found:
        raise Site.DoesNotExist
    return found[0]


def site_spec(site: Site, web_server: WebServer) -> spec.SiteSpec:
    """Return the SiteSpec of a site, as stored in the database, for `web_server`. A constant number of queries."""
    return spec_of_fetched(fetched(site), web_server)


def spec_of_fetched(site: Site, web_server: WebServer) -> spec.SiteSpec:
    """Return the SiteSpec of a site that was just loaded by `with_parts` or `fetched`. Makes no queries."""
    snippets = _Snippets([item for item in site.snippets.all() if item.engine == web_server.engine])
    return spec.SiteSpec(
        name=site.name,
        blocks=tuple(_block(site, web_server, block, snippets) for block in site.blocks.all()),
        upstreams=tuple(
            spec.Upstream(
                name=upstream.name,
                servers=tuple(
                    spec.UpstreamServer(
                        address=server.address,
                        weight=server.weight,
                        max_fails=server.max_fails,
                        fail_timeout_s=server.fail_timeout_s,
                        backup=server.backup,
                        down=server.down,
                    )
                    for server in upstream.servers.all()
                ),
                balancing=cast(Any, upstream.balancing),
                keepalive=upstream.keepalive,
            )
            for upstream in site.upstreams.all()
        ),
        php_pools=tuple(
            spec.PhpPool(name=pool.name, address=pool.address, settings=tuple(sorted(pool.settings.items())))
            for pool in site.php_pools.all()
        ),
        cache_mb=site.cache_mb,
        challenge_folder=challenges.folder_of(web_server.paths["config_root"]) if site.answers_challenges else "",
        tls_challenge_port=site.tls_challenge_port if site.answers_challenges else 0,
        maintenance=maintenance_of(site),
        stream_servers=tuple(_stream_server(site, web_server, row) for row in site.stream_servers.all()),
    )


def _stream_server(site: Site, web_server: WebServer, row: StreamServer) -> spec.StreamServer:
    return spec.StreamServer(
        name=row.name,
        port=row.port,
        upstream=row.upstream.name,
        address=row.address,
        protocol=cast(Any, row.protocol),
        connect_timeout_s=row.connect_timeout_s,
        session_timeout_s=row.session_timeout_s,
        proxy_protocol=row.proxy_protocol,
        allowed=tuple(row.allowed),
        tls=tls_files(site, web_server, row.certificate) if row.certificate else None,
        upstream_tls=row.upstream_tls,
        upstream_tls_name=row.upstream_tls_name,
        upstream_tls_ca=row.upstream_tls_ca,
        routes=tuple(spec.StreamRoute(route.name, route.upstream.name) for route in row.routes.all()),
    )


def maintenance_of(site: Site) -> spec.Maintenance | None:
    row: Maintenance | None = getattr(site, "maintenance", None)
    return spec.Maintenance(row.text, row.retry_after_s, tuple(row.allowed)) if row else None


class _Snippets:
    """Raw directives of one site for one kind of web server, by server block or location."""

    def __init__(self, rows: list[RawSnippet]) -> None:
        self._rows = rows

    def of_block(self, block: ServerBlock) -> str:
        return "\n".join(row.expanded.strip("\n") for row in self._rows if row.block_id == block.pk)

    def of_location(self, location: Location) -> str:
        return "\n".join(row.expanded.strip("\n") for row in self._rows if row.location_id == location.pk)


def _response_headers(site: Site, items: Sequence[Mapping[str, Any]]) -> tuple[spec.Header, ...]:
    is_named = shared.header_sets_named(items)
    sets = {row.name: row.headers for row in site.team.headerset_set.all()} if is_named else {}
    return shared.headers_expanded(items, sets)


def _rewrites(items: list[dict[str, str]]) -> tuple[spec.Rewrite, ...]:
    return tuple(spec.Rewrite(item["pattern"], item["replacement"], cast(Any, item.get("flag", ""))) for item in items)


def _cache(row: Location) -> spec.Cache | None:
    if not row.cache_times:
        return None
    return spec.Cache(
        valid=tuple(spec.CacheTime(tuple(item["codes"]), item["seconds"]) for item in row.cache_times),
        skip_cookies=tuple(row.cache_skip_cookies),
        skip_queries=row.cache_skip_queries,
        stale_on_error=row.cache_stale,
        status_header=row.cache_header,
        key=row.cache_key,
    )


def _block(site: Site, web_server: WebServer, block: ServerBlock, snippets: _Snippets) -> spec.ServerBlock:
    tls = tls_files(site, web_server, block.certificate) if block.certificate else None
    return spec.ServerBlock(
        **{name: getattr(block, name) for name in field_names.BLOCK_SCALARS},
        listens=tuple(
            spec.Listen(
                port=item.port,
                address=item.address,
                tls=item.tls,
                http2=item.http2,
                http3=item.http3,
                default_server=item.default_server,
            )
            for item in block.listens.all()
        ),
        names=tuple(item.name for item in block.names.all()),
        index=tuple(block.index),
        try_files=tuple(block.try_files),
        rewrites=_rewrites(block.rewrites),
        error_pages=tuple(
            spec.ErrorPage(tuple(item["codes"]), item["uri"], item.get("response")) for item in block.error_pages
        ),
        headers=_response_headers(site, block.headers),
        access_log=paths.log_on(block.access_log, site.web_server, web_server),
        error_log=paths.log_on(block.error_log, site.web_server, web_server),
        gzip_types=tuple(block.gzip_types),
        tls=tls,
        client_certificates=_client_certificates(site, web_server, block),
        locations=tuple(_location(site, web_server, item, snippets) for item in block.locations.all()),
        snippet=snippets.of_block(block),
    )


def _client_certificates(site: Site, web_server: WebServer, block: ServerBlock) -> spec.ClientCertificates | None:
    """Return the settings with which the web server verifies client certificates; None if verification is off.

    File names depend on the files' content, so a change of the content creates a new file.
    """
    if not block.client_verify:
        return None
    folder = site_folder(site, web_server)
    return spec.ClientCertificates(
        required=block.client_verify == ClientVerify.REQUIRED,
        ca=block.client_ca,
        ca_path=f"{folder}/client-ca-{_digest(block.client_ca)}.pem",
        crl=block.client_crl,
        crl_path=f"{folder}/client-crl-{_digest(block.client_crl)}.pem" if block.client_crl else "",
        depth=block.client_verify_depth,
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _location(site: Site, web_server: WebServer, row: Location, snippets: _Snippets) -> spec.Location:
    return spec.Location(
        **{name: getattr(row, name) for name in field_names.LOCATION_SCALARS},
        rewrites=_rewrites(row.rewrites),
        index=tuple(row.index),
        try_files=tuple(row.try_files),
        php_pool=row.php_pool.name if row.php_pool else "",
        upstream=row.upstream.name if row.upstream else "",
        request_headers=shared.headers_expanded(row.request_headers, {}),
        headers=_response_headers(site, row.headers),
        access_rules=shared.rules_expanded(row.access_rules, _lists(site, row)),
        basic_auth=_basic_auth(site, web_server, row),
        rate_limit=spec.RateLimit(row.rate_limit_rps, row.rate_limit_burst) if row.rate_limit_rps else None,
        cache=_cache(row),
        snippet=snippets.of_location(row),
    )


def _lists(site: Site, location: Location) -> dict[str, list[str]]:
    """Return {name: addresses} of the team's access lists; {} if the location's rules use no list."""
    is_named = shared.lists_named(location.access_rules)
    return {row.name: row.sources for row in site.team.accesslist_set.all()} if is_named else {}


def _basic_auth(site: Site, web_server: WebServer, row: Location) -> spec.BasicAuth | None:
    """Return the location's basic authentication; None without users. The password file's name depends on its content,
    so locations with the same users share one file.
    """
    if not row.basic_auth_users:
        return None
    users = tuple(sorted(row.basic_auth_users.items()))
    path = f"{site_folder(site, web_server)}/users-{_digest(json.dumps(users))}.htpasswd"
    return spec.BasicAuth(realm=row.basic_auth_realm, users=users, path=path)
