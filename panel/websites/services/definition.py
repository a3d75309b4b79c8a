"""A whole site as one JSON document: out of the database and into it, all or nothing.

    {"name", "team": slug, "install": id | null, "enabled", "health_path", "cache_mb", "notes",
     "upstreams": [{"name", "balancing", "keepalive", "servers": [{"address", "weight", ...}]}],
     "php_pools": [{"name", "address", "settings"}],
     "blocks": [{"listens": [{"port", ...}], "names": ["a.example"], "certificate": name | null, ...members,
                 "snippets": {"nginx": "..."},
                 "locations": [{"match", "pattern", "handler", "upstream": name, "php_pool": name, ...members,
                                "snippets": {...}}]}]}

Members left out have the model's default. Faults are ValidationErrors keyed by their place: blocks/0/locations/1/root.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models, transaction

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, may, require
from panel.audit.services import SECRET, audit_record
from panel.core.models import version_bump
from panel.hosts.models import Engine, EngineInstall
from panel.websites import checks, paths
from panel.websites.models import Certificate, Location, PhpPool, RawSnippet, ServerBlock, Site, Upstream
from panel.websites.services.base import assign, at, editable_fields, removal_guards, row_values
from panel.websites.services.blocks import listens_set, names_set
from panel.websites.services.parts import servers_set

Data = Mapping[str, Any]
_PLACES = {"position", "certificate", "upstream", "php_pool"}


# --- out ---


def _members(instance: models.Model) -> dict[str, Any]:
    """The members that differ from nothing else than the instance itself, in the model's order."""
    allowed = editable_fields(type(instance)) - _PLACES
    return {
        field.name: getattr(instance, field.name) for field in instance._meta.concrete_fields if field.name in allowed
    }


def _snippets(rows: list[RawSnippet], owner: ServerBlock | Location) -> dict[str, str]:
    key = "block_id" if isinstance(owner, ServerBlock) else "location_id"
    texts: dict[str, str] = {}
    for row in rows:
        if getattr(row, key) == owner.pk:
            texts[row.engine] = f"{texts[row.engine]}\n{row.text}" if row.engine in texts else row.text
    return texts


def _location_out(location: Location, snippets: list[RawSnippet], with_secrets: bool) -> dict[str, Any]:
    values = _members(location)
    if not with_secrets:
        values["basic_auth_users"] = dict.fromkeys(location.basic_auth_users, SECRET)
    values["upstream"] = location.upstream.name if location.upstream else None
    values["php_pool"] = location.php_pool.name if location.php_pool else None
    values["snippets"] = _snippets(snippets, location)
    return values


def _block_out(block: ServerBlock, snippets: list[RawSnippet], with_secrets: bool) -> dict[str, Any]:
    locations = block.locations.select_related("upstream", "php_pool")
    return {
        "listens": [_members(row) for row in block.listens.all()],
        "names": [row.name for row in block.names.all()],
        "certificate": block.certificate.name if block.certificate else None,
        **_members(block),
        "snippets": _snippets(snippets, block),
        "locations": [_location_out(row, snippets, with_secrets) for row in locations],
    }


def site_export(site: Site, *, with_secrets: bool = False) -> dict[str, Any]:
    """The site's definition; password hashes appear as "(secret)" unless asked for (cloning does)."""
    snippets = list(site.snippets.all())
    blocks = site.blocks.select_related("certificate").prefetch_related("listens", "names")
    return {
        **_members(site),
        "team": site.team.slug,
        "install": site.install_id,
        "upstreams": [
            {**_members(row), "servers": [_members(server) for server in row.servers.all()]}
            for row in site.upstreams.prefetch_related("servers")
        ],
        "php_pools": [_members(row) for row in site.php_pools.all()],
        "blocks": [_block_out(block, snippets, with_secrets) for block in blocks],
    }


# --- in ---


def _split(data: Any, apart: set[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plain members, and those that stand for rows or other objects."""
    values = row_values(data)
    plain = {name: value for name, value in values.items() if name not in apart}
    return plain, {name: value for name, value in values.items() if name in apart}


def _list(data: Data, name: str) -> list[Any]:
    value = data.get(name) or []
    if not isinstance(value, list):
        raise ValidationError({name: "This is a JSON list."})
    return value


class _Builder:
    """Writes the rows of one definition; knows the site's upstreams and pools by name."""

    def __init__(self, actor: User, site: Site, kept_users: Mapping[tuple[str, str], dict[str, str]]) -> None:
        self.actor = actor
        self.site = site
        self.kept_users = kept_users
        self.upstreams: dict[str, Upstream] = {}
        self.php_pools: dict[str, PhpPool] = {}

    def build(self, data: Data) -> None:
        for index, item in enumerate(_list(data, "upstreams")):
            with at(f"upstreams/{index}"):
                self._upstream(item)
        for index, item in enumerate(_list(data, "php_pools")):
            with at(f"php_pools/{index}"):
                pool = PhpPool(site=self.site)
                self._save(pool, _split(item, set())[0])
                self.php_pools[pool.name] = pool
        for index, item in enumerate(_list(data, "blocks")):
            with at(f"blocks/{index}"):
                self._block(item, index)

    def _save(self, instance: models.Model, values: Data) -> None:
        assign(instance, values)
        instance.full_clean()
        instance.save()

    def _upstream(self, item: Any) -> None:
        plain, apart = _split(item, {"servers"})
        upstream = Upstream(site=self.site)
        self._save(upstream, plain)
        servers_set(upstream, _list(apart, "servers"))
        self.upstreams[upstream.name] = upstream

    def _block(self, item: Any, position: int) -> None:
        plain, apart = _split(item, {"listens", "names", "certificate", "locations", "snippets"})
        certificate = self._certificate(apart.get("certificate"))
        block = ServerBlock(site=self.site, position=position, certificate=certificate)
        self._save(block, plain)
        listens_set(block, _list(apart, "listens"))
        names_set(block, _list(apart, "names"))
        self._write_snippets(apart, block=block)
        for index, row in enumerate(_list(apart, "locations")):
            with at(f"locations/{index}"):
                self._location(row, block, index)

    def _location(self, item: Any, block: ServerBlock, position: int) -> None:
        plain, apart = _split(item, {"upstream", "php_pool", "snippets"})
        location = Location(
            block=block,
            position=position,
            upstream=self._named(self.upstreams, "upstream", apart.get("upstream")),
            php_pool=self._named(self.php_pools, "php_pool", apart.get("php_pool")),
        )
        plain["basic_auth_users"] = self._users(plain)
        self._save(location, plain)
        self._write_snippets(apart, location=location)

    def _users(self, plain: Data) -> Any:
        """A hash that was exported as "(secret)" stays what it was."""
        users = plain.get("basic_auth_users") or {}
        if not isinstance(users, Mapping):
            return users
        kept = self.kept_users.get((str(plain.get("match", "")), str(plain.get("pattern", ""))), {})
        return {name: kept.get(name, value) if value == SECRET else value for name, value in users.items()}

    def _named(self, known: Mapping[str, Any], field: str, name: Any) -> Any:
        if name is None or name == "":
            return None
        if not isinstance(name, str) or name not in known:
            have = ", ".join(known) or "none"
            raise ValidationError({field: f"This site has no {field} named “{name}”; it has: {have}."})
        return known[name]

    def _certificate(self, name: Any) -> Certificate | None:
        if not name:
            return None
        if not isinstance(name, str) or "\0" in name:
            raise ValidationError({"certificate": "Write the certificate's name."})
        row = Certificate.objects.filter(name=name, team=self.site.team).first()
        if row is None:
            raise ValidationError({"certificate": f"The team {self.site.team} has no certificate named “{name}”."})
        return row

    def _write_snippets(self, apart: Data, **owner: Any) -> None:
        texts = apart.get("snippets") or {}
        if not isinstance(texts, Mapping):
            raise ValidationError({"snippets": 'Write {"nginx": "directives"}.'})
        for engine, text in texts.items():
            if engine not in Engine.values:
                known = ", ".join(Engine.values)
                raise ValidationError({f"snippets/{engine}": f"There is no such server; there are: {known}."})
            with at(f"snippets/{engine}"):
                self._save(RawSnippet(site=self.site, **owner), {"engine": engine, "text": text})


def _snippet_texts(data: Any) -> list[Any]:
    """Every snippet with its place, to see whether a definition changes any; what is of another shape holds none."""
    found: list[tuple[int, int | None, Any]] = []
    for b, block in _rows(data, "blocks"):
        found.append((b, None, block.get("snippets")))
        found += [(b, place, location.get("snippets")) for place, location in _rows(block, "locations")]
    return [item for item in found if item[2]]


def _rows(data: Any, name: str) -> list[tuple[int, Data]]:
    rows = data.get(name) if isinstance(data, Mapping) else None
    return [(n, row) for n, row in enumerate(rows if isinstance(rows, list) else []) if isinstance(row, Mapping)]


def changes_snippets(old: Data, new: Data) -> bool:
    """Whether going from one definition to the other touches directives in a server's own words."""
    return _snippet_texts(old) != _snippet_texts(new)


def _check_snippets(actor: User, old: Data, new: Data) -> None:
    if changes_snippets(old, new):
        require(actor, Action.ADMINISTER)


def _team(actor: User, slug: Any, default: Team | None) -> Team:
    if slug is None and default is not None:
        return default
    if not isinstance(slug, str) or "\0" in slug:  # which PostgreSQL cannot even be asked about
        raise ValidationError({"team": "Write the short name of the team that owns the site: see your teams."})
    team = Team.objects.filter(slug=slug).first()
    if team is None or not may(actor, Action.VIEW, team):
        raise ValidationError({"team": f"There is no team “{slug}” that you belong to."})
    return team


def _install(pk: Any) -> EngineInstall | None:
    if pk is None:
        return None
    row = EngineInstall.objects.filter(pk=pk).first() if type(pk) is int else None
    if row is None:
        raise ValidationError({"install": f"There is no server with the id {pk!r}: see the list of hosts."})
    return row


def _kept_users(site: Site | None) -> dict[tuple[str, str], dict[str, str]]:
    if site is None:
        return {}
    rows = Location.objects.filter(block__site=site)
    return {(row.match, row.pattern): row.basic_auth_users for row in rows if row.basic_auth_users}


def _clear(site: Site) -> None:
    for rows in (site.snippets, site.blocks, site.upstreams, site.php_pools):
        rows.all().delete()


def _place(site: Site, install: EngineInstall | None) -> None:
    """Another server than before: refused by whoever knows that the site stands on the old one."""
    if site.pk and site.install != install:
        for guard in removal_guards:
            guard(site, "move")
    site.install = install


def _refuse_clashes(actor: User, site: Site, named: Set[str]) -> None:
    if site.install is None:
        return
    problems = checks.site_clashes(site, site.install) if site.enabled else []
    problems += checks.path_clashes(actor, site, site.install.host, kept=named)
    if problems:
        raise ValidationError({problem.where: problem.message for problem in problems})


@transaction.atomic
def site_define(*, actor: User, data: Data, site: Site | None = None, expected_version: int | None = None) -> Site:
    """Create a site from its definition, or make `site` exactly that. Nothing changes unless all of it is good."""
    plain, apart = _split(data, {"team", "install", "upstreams", "php_pools", "blocks"})
    team = _team(actor, apart.get("team"), site.team if site else None)
    require(actor, Action.CHANGE, team)
    before = None
    if site is not None:
        require(actor, Action.CHANGE, site.team)
        before = site_export(site)
    _check_snippets(actor, before or {}, data)
    kept = _kept_users(site)
    old = site.install if site else None
    install = _install(apart.get("install")) if "install" in apart or site is None else old
    named = paths.kept_paths(site, team, install.host if install else None)
    target = site or Site()
    target.team = team
    _place(target, install)
    assign(target, plain)
    target.full_clean()
    if site is not None:
        version_bump(site, expected_version)
        _clear(site)
    target.save()
    _Builder(actor, target, kept).build(data)
    _refuse_clashes(actor, target, named)
    action = "site.define" if site else "site.create"
    audit_record(actor=actor, action=action, target=target, before=before, after=site_export(target))
    return target
