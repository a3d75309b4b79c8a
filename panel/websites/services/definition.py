"""A whole site as one JSON document: exported from the database, and imported completely or not at all.

{"name", "team": slug, "web_server": id | null, "enabled", "health_path", "cache_mb", "notes",
  "upstreams": [{"name", "balancing", "keepalive", "servers": [{"address", "weight", ...}]}],
  "php_pools": [{"name", "address", "settings"}],
  "stream_servers": [{"name", "protocol", "address", "port", "upstream": name,
    "certificate": name | null, "routes": [{"name", "upstream": name}], ...fields}],
  "blocks": [{"listens": [{"port", ...}], "names": ["a.example"], "certificate": name | null, ...fields,
    "snippets": {"nginx": "..."},
    "locations": [{"match", "pattern", "handler", "upstream": name, "php_pool": name, ...fields,
      "snippets": {...}}]}]}

Missing fields have the model's default. Errors are ValidationErrors keyed by place: blocks/0/locations/1/root.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from django.core.exceptions import ValidationError
from django.db import transaction

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, may, require
from panel.audit.services import SECRET, audit_record
from panel.core.models import version_bump
from panel.hosts.models import WebServer
from panel.hosts.selectors import web_servers_visible
from panel.websites import checks
from panel.websites.definitions import BlockData, LocationData, SiteData, StreamServerData
from panel.websites.models import Location, RawSnippet, ServerBlock, Site, StreamServer
from panel.websites.part_selectors import stream_servers_of
from panel.websites.services.base import assign, move_guards, removal_guards
from panel.websites.services.building import Builder, members_of, split
from panel.websites.versions import version_count

Data = Mapping[str, Any]
# Fields that no host receives, so that a change of them needs no deployment.
UNSAID = frozenset(
    {"notes", "tags", "health_path", "health_status", "health_text", "health_header", "watched_from_panel"}
)


# --- export ---


def _snippets(rows: list[RawSnippet], owner: ServerBlock | Location) -> dict[str, str]:
    key = "block_id" if isinstance(owner, ServerBlock) else "location_id"
    texts: dict[str, str] = {}
    for row in rows:
        if getattr(row, key) == owner.pk:
            texts[row.engine] = f"{texts[row.engine]}\n{row.text}" if row.engine in texts else row.text
    return texts


def _location_out(location: Location, snippets: list[RawSnippet]) -> LocationData:
    values = members_of(location)
    values["upstream"] = location.upstream.name if location.upstream else None
    values["php_pool"] = location.php_pool.name if location.php_pool else None
    values["snippets"] = _snippets(snippets, location)
    return cast(LocationData, values)


def _stream_server_out(row: StreamServer) -> StreamServerData:
    values = {
        **members_of(row),
        "upstream": row.upstream.name,
        "certificate": row.certificate.name if row.certificate else None,
        "routes": [{"name": route.name, "upstream": route.upstream.name} for route in row.routes.all()],
    }
    return cast(StreamServerData, values)


def _block_out(block: ServerBlock, snippets: list[RawSnippet]) -> BlockData:
    locations = block.locations.select_related("upstream", "php_pool")
    values = {
        "listens": [members_of(row) for row in block.listens.all()],
        "names": [row.name for row in block.names.all()],
        "certificate": block.certificate.name if block.certificate else None,
        **members_of(block),
        "snippets": _snippets(snippets, block),
        "locations": [_location_out(row, snippets) for row in locations],
    }
    return cast(BlockData, values)


def site_export(site: Site, *, with_secrets: bool = False) -> SiteData:
    """Return the site's definition. Password hashes appear as "(secret)" unless `with_secrets`, which is set to copy
    a site.
    """
    definition = _definition(site)
    return definition if with_secrets else _without_secrets(definition)


def _definition(site: Site) -> SiteData:
    snippets = list(site.snippets.all())
    blocks = site.blocks.select_related("certificate").prefetch_related("listens", "names")
    definition = {
        **members_of(site),
        "team": site.team.slug,
        "web_server": site.web_server_id,
        "upstreams": [
            {**members_of(row), "servers": [members_of(server) for server in row.servers.all()]}
            for row in site.upstreams.prefetch_related("servers")
        ],
        "php_pools": [members_of(row) for row in site.php_pools.all()],
        "stream_servers": [_stream_server_out(row) for row in stream_servers_of(site)],
        "blocks": [_block_out(block, snippets) for block in blocks],
    }
    return cast(SiteData, definition)


def _without_secrets(definition: SiteData) -> SiteData:
    hidden = definition.copy()
    hidden["blocks"] = [block.copy() for block in definition["blocks"]]
    for block in hidden["blocks"]:
        block["locations"] = [row.copy() for row in block["locations"]]
        for row in block["locations"]:
            row["basic_auth_users"] = dict.fromkeys(row["basic_auth_users"], SECRET)
    return hidden


def _is_changed(before: Data, after: Data) -> bool:
    """Return whether two versions of a definition differ in fields that affect the site's files on its host."""
    return any(before.get(name) != after[name] for name in after if name not in UNSAID)


# --- import ---


def _snippet_texts(data: Any) -> list[Any]:
    """Return the raw directives in a definition as (block number, location, {engine: text}), to detect changes.

    `location` is the match and pattern of a location, because the order of locations may change; "" for the server
    block itself. Values of a wrong type are ignored.
    """
    found: list[tuple[int, str, Any]] = []
    for b, block in _rows(data, "blocks"):
        found.append((b, "", block.get("snippets")))
        for _place, row in _rows(block, "locations"):
            found.append((b, f"{row.get('match', '')} {row.get('pattern')}", row.get("snippets")))
    return [item for item in found if item[2]]


def _rows(data: Any, name: str) -> list[tuple[int, Data]]:
    rows = data.get(name) if isinstance(data, Mapping) else None
    return [(n, row) for n, row in enumerate(rows if isinstance(rows, list) else []) if isinstance(row, Mapping)]


def changes_snippets(old: Data, new: Data) -> bool:
    """Return whether the change from one definition to another affects raw directives."""
    return _snippet_texts(old) != _snippet_texts(new)


def _check_snippets(actor: User, old: Data, new: Data) -> None:
    if changes_snippets(old, new):
        require(actor, Action.ADMINISTER)


def _team(actor: User, slug: Any, default: Team | None) -> Team:
    if slug is None and default is not None:
        return default
    if not isinstance(slug, str) or "\0" in slug:  # PostgreSQL rejects such a query
        raise ValidationError({"team": "Send the short name of the team that owns the site."})
    team = Team.objects.filter(slug=slug).first()
    if team is None or not may(actor, Action.VIEW, team):
        raise ValidationError({"team": f"The team “{slug}” does not exist, or you are not a member."})
    return team


def _web_server(actor: User, pk: Any) -> WebServer | None:
    if pk is None:
        return None
    row = web_servers_visible(actor).filter(pk=pk).first() if type(pk) is int else None
    if row is None:
        raise ValidationError({"web_server": f"No web server has the ID {pk!r}; /api/v1/web-servers/ lists them."})
    return row


def _kept_users(site: Site | None) -> dict[tuple[str, str], dict[str, str]]:
    if site is None:
        return {}
    rows = Location.objects.filter(block__site=site)
    return {(row.match, row.pattern): row.basic_auth_users for row in rows if row.basic_auth_users}


def _place(site: Site, web_server: WebServer | None) -> None:
    """Set the site's web server.

    When the web server of a saved site changes, functions of other apps (`removal_guards`, `move_guards`) can reject
    the change.
    """
    if site.pk and site.web_server != web_server:
        for guard in removal_guards:
            guard(site, "move")
        for move_guard in move_guards:
            move_guard([site], web_server)
    site.web_server = web_server


def _refuse_clashes(actor: User, site: Site, kept: checks.Kept) -> None:
    problems = checks.foreign_problems(actor, site, kept)
    if not problems and site.web_server is not None and site.enabled:
        problems = checks.site_clashes(actor, site, site.web_server)
    faults: dict[str, list[str]] = {}
    for problem in problems:
        faults.setdefault(problem.where, []).append(problem.message)
    if faults:
        raise ValidationError(faults)


@transaction.atomic
def site_define(
    *,
    actor: User,
    data: Data,
    site: Site | None = None,
    expected_version: int | None = None,
    action: str = "",
    noted: Data | None = None,
) -> Site:
    """Create a site from its definition, or change `site` to match it, completely or not at all.

    `action` is the action of the audit row, and `noted` is additional data of the audit row.
    """
    plain, apart = split(data, {"team", "web_server", "upstreams", "php_pools", "stream_servers", "blocks"})
    team = _team(actor, apart.get("team"), site.team if site else None)
    require(actor, Action.CHANGE, team)
    before = _before(actor, site)
    _check_snippets(actor, before or {}, data)
    kept = _kept_users(site)
    old = site.web_server if site else None
    web_server = _web_server(actor, apart.get("web_server")) if "web_server" in apart or site is None else old
    had = checks.kept_of(site, team, web_server)
    target = site or Site()
    target.team = team
    _place(target, web_server)
    checks.refuse_host_of_others(target)
    assign(target, plain)
    target.full_clean()
    if site is not None:
        version_bump(site, expected_version)
    target.save()
    Builder(target, kept).build(data, is_new=site is None)
    _refuse_clashes(actor, target, had)
    after = _definition(target)
    if before and _is_changed(before, after):
        version_count(target)
    action = action or ("site.define" if site else "site.create")
    _record(actor, target, action, before, {**_without_secrets(after), **(noted or {})})
    return target


def _before(actor: User, site: Site | None) -> SiteData | None:
    """Return the current definition of `site`; None for a new site.

    Raises PermissionDenied if `actor` may not change sites of its team.
    """
    if site is None:
        return None
    require(actor, Action.CHANGE, site.team)
    return _definition(site)


def _record(actor: User, site: Site, action: str, before: SiteData | None, after: Data) -> None:
    audit_record(
        actor=actor,
        action=action,
        target=site,
        before={**_without_secrets(before)} if before else None,
        after=after,
    )
