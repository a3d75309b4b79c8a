"""Services for upstreams, PHP pools, stream servers and raw directives of a site."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import ProtectedError

from panel.accounts.models import User
from panel.accounts.permissions import Action
from panel.core.errors import ApplicationError
from panel.websites import checks, field_names, stream_rules
from panel.websites.following import hosts_tagged, servers_following
from panel.websites.models import (
    Location,
    PhpPool,
    RawSnippet,
    ServerBlock,
    Site,
    StreamRoute,
    StreamServer,
    Upstream,
    UpstreamServer,
)
from panel.websites.services.base import assign, at, refuse_certificate_of_others, remove, row_values, store
from panel.websites.versions import version_count


def servers_set(upstream: Upstream, servers: Iterable[Mapping[str, Any]]) -> None:
    """Replace the servers of an upstream, keeping the given order: [{"address": "127.0.0.1:3000", "weight": 1, ...}].

    For an upstream with host tags, the servers are the hosts; `servers` then only gives their options, by address.
    """
    if upstream.host_tags:
        servers = servers_following(upstream, upstream.site.team, hosts_tagged(), servers)
    upstream.servers.all().delete()
    for position, values in enumerate(servers):
        server = UpstreamServer(upstream=upstream, position=position)
        with at(f"servers/{position}"):
            assign(server, row_values(values))
            server.full_clean()
        server.save()


def _kept(site: Site) -> checks.Kept:
    return checks.kept_of(site, site.team, site.web_server)


def _target_children(actor: User, site: Site, kept: checks.Kept) -> None:
    """Finish a change of an upstream, PHP pool or stream server: increment the site's version.

    Raises ValidationError if the draft refers to services of the host that the site's team may not use.
    """
    version_count(site)
    checks.refuse_foreign(actor, site, kept=kept)


def _upstream_children(
    actor: User, upstream: Upstream, servers: Iterable[Mapping[str, Any]] | None, kept: checks.Kept
) -> None:
    if servers is None and upstream.host_tags:
        servers = list(upstream.servers.values(*field_names.SERVER))
    if servers is not None:
        servers_set(upstream, servers)
    _target_children(actor, upstream.site, kept)


def upstream_create(
    *, actor: User, site: Site, servers: Iterable[Mapping[str, Any]] | None = None, **values: Any
) -> Upstream:
    """Add an upstream with the given servers, or with host tags.

    Raises PermissionDenied, and ValidationError for invalid values, also if both servers and host tags are missing.
    """
    if servers is None and not values.get("host_tags"):
        raise ValidationError({"servers": "Send at least one server, or host_tags."})
    upstream, kept = Upstream(site=site), _kept(site)
    store(
        actor=actor,
        team=site.team,
        instance=upstream,
        action="upstream.create",
        values=values,
        children=lambda: _upstream_children(actor, upstream, servers, kept),
    )
    return upstream


def upstream_update(
    *,
    actor: User,
    upstream: Upstream,
    expected_version: int | None = None,
    servers: Iterable[Mapping[str, Any]] | None = None,
    **values: Any,
) -> Upstream:
    kept = _kept(upstream.site)
    store(
        actor=actor,
        team=upstream.site.team,
        instance=upstream,
        action="upstream.update",
        values=values,
        expected_version=expected_version,
        children=lambda: _upstream_children(actor, upstream, servers, kept),
    )
    return upstream


def _used_by(error: ProtectedError) -> tuple[str, str]:
    """Return the objects that prevent the deletion of a part: ("locations" or "stream servers", their names joined by
    commas).
    """
    rows = list(error.protected_objects)
    locations = [row for row in rows if isinstance(row, Location)]
    servers = {row.server if isinstance(row, StreamRoute) else row for row in rows}
    return "locations" if locations else "stream servers", ", ".join(sorted(map(str, locations or servers)))


@transaction.atomic
def _delete_part(
    actor: User, part: Upstream | PhpPool | StreamServer, action: str, expected_version: int | None
) -> None:
    site = part.site
    try:
        remove(actor=actor, team=site.team, instance=part, action=action, expected_version=expected_version)
    except ProtectedError as error:
        kind, names = _used_by(error)
        raise ApplicationError(
            f"{part} is used by the {kind} {names}. Change these {kind} first.", code="in_use"
        ) from error
    version_count(site)


def upstream_delete(*, actor: User, upstream: Upstream, expected_version: int | None = None) -> None:
    _delete_part(actor, upstream, "upstream.delete", expected_version)


def php_pool_create(*, actor: User, site: Site, **values: Any) -> PhpPool:
    pool, kept = PhpPool(site=site), _kept(site)
    store(
        actor=actor,
        team=site.team,
        instance=pool,
        action="php_pool.create",
        values=values,
        children=lambda: _target_children(actor, site, kept),
    )
    return pool


def php_pool_update(*, actor: User, pool: PhpPool, expected_version: int | None = None, **values: Any) -> PhpPool:
    kept = _kept(pool.site)
    store(
        actor=actor,
        team=pool.site.team,
        instance=pool,
        action="php_pool.update",
        values=values,
        expected_version=expected_version,
        children=lambda: _target_children(actor, pool.site, kept),
    )
    return pool


def php_pool_delete(*, actor: User, pool: PhpPool, expected_version: int | None = None) -> None:
    _delete_part(actor, pool, "php_pool.delete", expected_version)


Routes = Iterable[Mapping[str, Any]]


def routes_set(server: StreamServer, routes: Routes | None) -> None:
    """Replace the names of a stream server: [{"name": "mail.example.com", "upstream": "imap"}]. None keeps them.

    Raises ValidationError for invalid names, and if the stream server cannot have any.
    """
    if routes is None:
        stream_rules.check_routes(server, list(server.routes.all()))
        return
    upstreams = {row.name: row for row in server.site.upstreams.all()}
    rows: list[StreamRoute] = []
    for position, item in enumerate(routes):
        with at(f"routes/{position}"):
            values = row_values(item)
            upstream = upstreams.get(str(values.get("upstream")))
            if upstream is None:
                raise ValidationError({"upstream": "Send the name of an upstream of the site."})
            row = StreamRoute(server=server, upstream=upstream, position=position)
            assign(row, {name: value for name, value in values.items() if name != "upstream"})
            row.full_clean()
            rows.append(row)
    stream_rules.check_routes(server, rows)
    server.routes.all().delete()
    StreamRoute.objects.bulk_create(rows)
    server.__dict__.pop("_prefetched_objects_cache", None)


def _stream_children(actor: User, server: StreamServer, routes: Routes | None, kept: checks.Kept) -> None:
    routes_set(server, routes)
    _target_children(actor, server.site, kept)
    checks.refuse_foreign_paths(actor, server.site, kept=kept.paths)
    checks.refuse_clashes(actor, server.site)


def stream_server_create(*, actor: User, site: Site, routes: Routes | None = None, **values: Any) -> StreamServer:
    """Add a stream server; `routes` as in `routes_set`. Raises PermissionDenied; ValidationError for invalid values, or
    a port of another site.
    """
    refuse_certificate_of_others(site, values)
    server, kept = StreamServer(site=site), _kept(site)
    store(
        actor=actor,
        team=site.team,
        instance=server,
        action="stream_server.create",
        values=values,
        children=lambda: _stream_children(actor, server, routes, kept),
    )
    return server


def stream_server_update(
    *,
    actor: User,
    server: StreamServer,
    expected_version: int | None = None,
    routes: Routes | None = None,
    **values: Any,
) -> StreamServer:
    """Change fields of a stream server. `routes` replaces the stored names; None keeps them."""
    refuse_certificate_of_others(server.site, values)
    kept = _kept(server.site)
    store(
        actor=actor,
        team=server.site.team,
        instance=server,
        action="stream_server.update",
        values=values,
        expected_version=expected_version,
        children=lambda: _stream_children(actor, server, routes, kept),
    )
    return server


def stream_server_delete(*, actor: User, server: StreamServer, expected_version: int | None = None) -> None:
    _delete_part(actor, server, "stream_server.delete", expected_version)


def snippet_create(
    *,
    actor: User,
    site: Site,
    engine: str,
    text: str,
    block: ServerBlock | None = None,
    location: Location | None = None,
) -> RawSnippet:
    """Create raw directives of a server block or location; administrators only."""
    snippet = RawSnippet(site=site, block=block, location=location)
    store(
        actor=actor,
        team=site.team,
        instance=snippet,
        action="snippet.create",
        values={"engine": engine, "text": text},
        children=lambda: version_count(site),
        needs=Action.ADMINISTER,
    )
    return snippet


def snippet_update(*, actor: User, snippet: RawSnippet, text: str, expected_version: int | None = None) -> RawSnippet:
    store(
        actor=actor,
        team=snippet.site.team,
        instance=snippet,
        action="snippet.update",
        values={"text": text},
        expected_version=expected_version,
        children=lambda: version_count(snippet.site),
        needs=Action.ADMINISTER,
    )
    return snippet


@transaction.atomic
def snippet_delete(*, actor: User, snippet: RawSnippet, expected_version: int | None = None) -> None:
    site = snippet.site
    remove(
        actor=actor,
        team=site.team,
        instance=snippet,
        action="snippet.delete",
        expected_version=expected_version,
        needs=Action.ADMINISTER,
    )
    version_count(site)
