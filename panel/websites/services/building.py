"""Creation and update of a site's rows from its definition.

Existing rows are reused if they can be matched, so links, ETags and audit entries stay valid. Unchanged rows are not
saved, so their version stays the same.

A server block is matched by its listens and names, then by its names, then by its position in the list; a location by
its pattern, then by its position; upstreams and PHP pools by name; raw directives by their owner and engine.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.db import models

from panel.audit.services import SECRET
from panel.hosts.models import Engine
from panel.websites.models import Certificate, Location, PhpPool, RawSnippet, ServerBlock, Site, StreamServer, Upstream
from panel.websites.services.base import assign, at, editable_fields, row_values
from panel.websites.services.blocks import listens_set, names_set
from panel.websites.services.parts import routes_set, servers_set

Data = Mapping[str, Any]
PLACES = {"position", "certificate", "upstream", "php_pool"}  # set by the place, or by a name, in the definition
Row = TypeVar("Row", bound=models.Model)
Key = Callable[[Any], Hashable]


def members_of(instance: models.Model) -> dict[str, object]:
    """Return the fields of a row that a definition contains as plain values, in the model's order."""
    allowed = editable_fields(type(instance)) - PLACES
    return {
        field.name: getattr(instance, field.name) for field in instance._meta.concrete_fields if field.name in allowed
    }


def split(data: Any, apart: set[str]) -> tuple[dict[str, object], dict[str, object]]:
    """Return the values of a definition's object as two mappings: plain fields, and those in `apart`, which other rows
    store.
    """
    values = row_values(data)
    plain = {name: value for name, value in values.items() if name not in apart}
    return plain, {name: value for name, value in values.items() if name in apart}


def list_of(data: Data, name: str) -> list[Any]:
    value = data.get(name) or []
    if not isinstance(value, list):
        raise ValidationError({name: "Send a JSON list."})
    return value


def _matched(rows: Sequence[Row], items: Sequence[Any], *keys: tuple[Key, Key]) -> tuple[list[Row | None], list[Row]]:
    """Match the items of a definition with existing rows. Return the row of each item (None for a new item), and the
    rows without an item.

    `keys` are pairs of functions: one computes the key of a row, one the key of an item, each from (position, object).
    An item gets the first unused row with an equal key. Items without a row are matched again by the next pair.
    """
    found: list[Row | None] = [None] * len(items)
    left = list(enumerate(rows))
    for of_row, of_item in keys:
        for index, item in enumerate(items):
            key = of_item((index, item)) if found[index] is None else None
            placed = next((placed for placed in left if of_row(placed) == key), None) if key is not None else None
            if placed is not None:
                found[index] = placed[1]
                left.remove(placed)
    return found, [row for _index, row in left]


def _text(item: Any, name: str) -> Hashable:
    value = item[1].get(name, "") if isinstance(item[1], Mapping) else None
    return value if isinstance(value, str) else None


def _names(item: Any) -> Hashable:
    names = item[1].get("names") if isinstance(item[1], Mapping) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return tuple(name.strip().lower() for name in names)


def _ports(item: Any) -> Hashable:
    listens = item[1].get("listens") if isinstance(item[1], Mapping) else None
    if _names(item) is None or not isinstance(listens, list):
        return None
    return _names(item), tuple(str(row.get("port", 80)) for row in listens if isinstance(row, Mapping))


def _row_names(placed: Any) -> Hashable:
    return tuple(row.name.lower() for row in placed[1].names.all())


def _row_ports(placed: Any) -> Hashable:
    return _row_names(placed), tuple(str(row.port) for row in placed[1].listens.all())


_BY_NAME: tuple[Key, Key] = (lambda placed: placed[1].name, lambda item: _text(item, "name"))
_BY_PLACE: tuple[Key, Key] = (lambda placed: placed[0], lambda item: item[0])
_BY_PATTERN: tuple[Key, Key] = (
    lambda placed: (placed[1].match, placed[1].pattern),
    lambda item: (_text(item, "match"), _text(item, "pattern")),
)


def _columns(row: models.Model) -> dict[str, object]:
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


def _rows_of(owner: models.Model, name: str) -> list[dict[str, object]]:
    return [members_of(row) for row in getattr(owner, name).all()]


class Builder:
    """Writer of the rows of one definition, which finds the site's upstreams and PHP pools by name.

    `kept_users`: password hashes that "(secret)" in the definition stands for, by match and pattern of their location.
    """

    def __init__(self, site: Site, kept_users: Mapping[tuple[str, str], dict[str, str]]) -> None:
        self.site = site
        self.kept_users = kept_users
        self.upstreams: dict[str, Upstream] = {}
        self.php_pools: dict[str, PhpPool] = {}
        self.snippets: list[RawSnippet] = []  # existing snippets not yet found in the definition

    def build(self, data: Data, *, is_new: bool) -> None:
        """Create, change and delete the site's rows to match the definition. `is_new`: the site has no rows yet.

        Raises ValidationError keyed by place in the definition (blocks/0/root).
        """
        site = self.site
        self.snippets = [] if is_new else list(site.snippets.all())
        upstreams, spare = self._old([] if is_new else site.upstreams.all(), data, "upstreams", _BY_NAME)
        for index, (item, upstream) in enumerate(upstreams):
            with at(f"upstreams/{index}"):
                self._upstream(item, upstream or Upstream(site=site))
        pools, spare_pools = self._old([] if is_new else site.php_pools.all(), data, "php_pools", _BY_NAME)
        for index, (item, pool) in enumerate(pools):
            with at(f"php_pools/{index}"):
                self._pool(item, pool or PhpPool(site=site))
        before = [] if is_new else site.blocks.prefetch_related("listens", "names")
        blocks, gone = self._old(before, data, "blocks", (_row_ports, _ports), (_row_names, _names), _BY_PLACE)
        _delete(gone)
        for index, (item, block) in enumerate(blocks):
            with at(f"blocks/{index}"):
                self._block(item, block or ServerBlock(site=site), index)
        servers, gone_servers = self._old([] if is_new else site.stream_servers.all(), data, "stream_servers", _BY_NAME)
        _delete(gone_servers)
        for index, (item, server) in enumerate(servers):
            with at(f"stream_servers/{index}"):
                self._stream_server(item, server or StreamServer(site=site))
        _delete(self.snippets)
        _delete([*spare, *spare_pools])  # nothing refers to them

    def _old(
        self, rows: Iterable[Row], data: Data, name: str, *keys: tuple[Key, Key]
    ) -> tuple[list[tuple[Any, Row | None]], list[Row]]:
        """Match the definition's list `name` with existing rows by `keys`, as `_matched` does.

        Return (item, row or None) pairs, and the rows without an item.
        """
        items = list_of(data, name)
        found, left = _matched(list(rows), items, *keys)
        return list(zip(items, found, strict=True)), left

    def _save(self, instance: models.Model, values: Data, **places: Any) -> bool:
        """Save an instance if it changed. Return whether fields other than the position changed. Fields without a value
        in `values` get the model's default, also in existing rows.
        """
        before = None if instance._state.adding else _columns(instance)
        if before is not None:
            for field in instance._meta.concrete_fields:
                if field.name in editable_fields(type(instance)) - PLACES and not field.is_relation:
                    setattr(instance, field.name, field.get_default())
        for name, value in places.items():
            setattr(instance, name, value)
        assign(instance, values)
        instance.full_clean()
        after = _columns(instance)
        changed = {name for name in after if before is None or before[name] != after[name]}
        if changed == {"position"}:  # for example after reordering locations, which changes none of them
            type(instance)._base_manager.filter(pk=instance.pk).update(position=after["position"])
        elif changed:
            instance.save()
        return bool(changed - {"position"})

    def _upstream(self, item: Any, upstream: Upstream) -> None:
        plain, apart = split(item, {"servers"})
        is_saved = self._save(upstream, plain)
        before = _rows_of(upstream, "servers")
        servers_set(upstream, list_of(apart, "servers"))
        if not is_saved and _rows_of(upstream, "servers") != before:
            upstream.save()
        self.upstreams[upstream.name] = upstream

    def _pool(self, item: Any, pool: PhpPool) -> None:
        self._save(pool, split(item, set())[0])
        self.php_pools[pool.name] = pool

    def _stream_server(self, item: Any, server: StreamServer) -> None:
        plain, apart = split(item, {"upstream", "certificate", "routes"})
        upstream = self._named(self.upstreams, "upstream", apart.get("upstream"))
        if upstream is None:
            raise ValidationError({"upstream": "Send the name of an upstream of the site."})
        before = [] if server._state.adding else _rows_of(server, "routes")
        is_saved = self._save(server, plain, upstream=upstream, certificate=self._certificate(apart.get("certificate")))
        routes_set(server, list_of(apart, "routes"))
        if not is_saved and _rows_of(server, "routes") != before:
            server.save()

    def _block(self, item: Any, block: ServerBlock, position: int) -> None:
        plain, apart = split(item, {"listens", "names", "certificate", "locations", "snippets"})
        certificate, is_new = self._certificate(apart.get("certificate")), block._state.adding
        before = [] if is_new else [*_rows_of(block, "listens"), *_rows_of(block, "names")]
        is_saved = self._save(block, plain, position=position, certificate=certificate)
        block.__dict__.pop("_prefetched_objects_cache", None)
        listens_set(block, list_of(apart, "listens"))
        names_set(block, list_of(apart, "names"))
        if not is_saved and [*_rows_of(block, "listens"), *_rows_of(block, "names")] != before:
            block.save()
        self._write_snippets(apart, block=block)
        old = [] if is_new else block.locations.all()
        locations, gone = self._old(old, apart, "locations", _BY_PATTERN, _BY_PLACE)
        _delete(gone)
        for index, (row, location) in enumerate(locations):
            with at(f"locations/{index}"):
                self._location(row, location or Location(block=block), index)

    def _location(self, item: Any, location: Location, position: int) -> None:
        plain, apart = split(item, {"upstream", "php_pool", "snippets"})
        plain["basic_auth_users"] = self._users(plain)
        self._save(
            location,
            plain,
            position=position,
            upstream=self._named(self.upstreams, "upstream", apart.get("upstream")),
            php_pool=self._named(self.php_pools, "php_pool", apart.get("php_pool")),
        )
        self._write_snippets(apart, location=location)

    def _users(self, plain: Data) -> Any:
        """Return the password hashes of a location's users; "(secret)" keeps the existing hash."""
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
            raise ValidationError({field: f"This site has no {field} named “{name}”. Known names: {have}."})
        return known[name]

    def _certificate(self, name: Any) -> Certificate | None:
        if not name:
            return None
        if not isinstance(name, str) or "\0" in name:
            raise ValidationError({"certificate": "Send the certificate's name."})
        row = Certificate.objects.filter(name=name, team=self.site.team).first()
        if row is None:
            raise ValidationError({"certificate": f"The team {self.site.team} has no certificate named “{name}”."})
        return row

    def _write_snippets(self, apart: Data, **owner: ServerBlock | Location) -> None:
        texts = apart.get("snippets") or {}
        if not isinstance(texts, Mapping):
            raise ValidationError({"snippets": 'Send {"nginx": "directives"}.'})
        for engine, text in texts.items():
            if engine not in Engine.values:
                known = ", ".join(Engine.values)
                raise ValidationError({f"snippets/{engine}": f"Unknown web server. Known web servers: {known}."})
            with at(f"snippets/{engine}"):
                self._snippet(engine, text, owner)

    def _snippet(self, engine: str, text: Any, owner: Mapping[str, ServerBlock | Location]) -> None:
        """Save the raw directives of one server block or location for one engine.

        If several rows hold these directives, the definition shows them as one text, and they stay separate rows unless
        the text changes.
        """
        (name, holder), *_ = owner.items()
        old = [row for row in self.snippets if row.engine == engine and getattr(row, f"{name}_id") == holder.pk]
        if old and "\n".join(row.text for row in old) == text:
            self.snippets = [row for row in self.snippets if row not in old]
            return
        snippet = old[0] if old else RawSnippet(site=self.site, **owner)
        self.snippets = [row for row in self.snippets if row is not snippet]
        self._save(snippet, {"engine": engine, "text": text})


def _delete(rows: Iterable[models.Model]) -> None:
    for row in rows:
        row.delete()
