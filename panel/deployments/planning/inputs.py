"""What the files of a plan follow from, as one digest: the rows of its sites, as they lie in the database.

They are neither decoded nor made objects, since nothing has to be known of them but whether they are as they were. So
whatever is added to a site's parts counts without being named here, and confirming costs a tenth of reading the sites.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from django.db import connection
from django.db.models import Model

from panel.deployments.models import PinnedFile
from panel.hosts.models import EngineInstall
from panel.rendering.spec import to_json
from panel.websites import freeze
from panel.websites.models import (
    Certificate,
    Listen,
    Location,
    PhpPool,
    RawSnippet,
    ServerBlock,
    ServerName,
    Site,
    Upstream,
    UpstreamServer,
)

# Every kind of part, and which foreign key leads to what it is a part of; that one stands before it.
PARTS: tuple[tuple[type[Model], str], ...] = (
    (ServerBlock, "site"),
    (Listen, "block"),
    (ServerName, "block"),
    (Location, "block"),
    (Upstream, "site"),
    (UpstreamServer, "upstream"),
    (PhpPool, "site"),
    (RawSnippet, "site"),
    (PinnedFile, "site"),
)
# Columns that no file follows from. Of the server that the site is on all but these are such: they say where it logs
# when it moves to another.
_BESIDE = {"created_at", "updated_at", "row_version", "adopted_by_id"}
_BESIDE_OF: dict[type[Model], set[str]] = {Site: {"team_id", "enabled", "health_path", "notes", "tags"}}
_SERVER = ("engine", "paths")
_AT_ONCE = 400  # names in one query; SQLite takes at least 999

Row = dict[str, Any]


class Inputs:
    """The rows of some sites, by their ids, at the moment when it is made. Before a plan reads the sites that is: what
    is changed in between is in the files and not in the digest, and the plan is stale. A constant number of queries."""

    def __init__(self, sites: Iterable[int]) -> None:
        rows = {row["id"]: row for row in _rows(Site, "id", list(sites), _columns(Site))}
        self._found: dict[int, list[tuple[type[Model], Row]]] = {pk: [(Site, row)] for pk, row in rows.items()}
        owners: dict[type[Model], dict[int, int]] = {Site: {pk: pk for pk in rows}}
        for model, key in PARTS:
            parents = owners[_parent(model, key)]
            owners[model] = {}
            for row in _rows(model, f"{key}_id", list(parents), _columns(model)):
                site = owners[model][row["id"]] = parents[row[f"{key}_id"]]
                self._found[site].append((model, row))
        self._add(EngineInstall, Site, "install_id", _SERVER)
        self._add(Certificate, ServerBlock, "certificate_id", _columns(Certificate))

    def digest(self, site: Site, install: EngineInstall) -> str:
        """The SHA-256 of all that the site's files on that server follow from: as long as it is the same, so are
        they. Of a site that was not there, what no site has."""
        server = json.dumps(to_json(freeze.install_spec(install)), sort_keys=True)
        found = [
            (model.__name__, *row.values())
            for model, row in self._found.get(site.pk, ())
            if _counts(model, row, install)
        ]
        return hashlib.sha256(repr((server, found)).encode()).hexdigest()

    def _add(self, model: type[Model], named_by: type[Model], key: str, columns: Iterable[str]) -> None:
        """The rows that a foreign key of a site's own names."""
        wanted = [(rows, row[key]) for rows in self._found.values() for kind, row in rows if kind is named_by]
        found = {row["id"]: row for row in _rows(model, "id", {pk for _, pk in wanted if pk}, columns)}
        for rows, pk in wanted:
            if pk in found:
                rows.append((model, found[pk]))


def _counts(model: type[Model], row: Row, install: EngineInstall) -> bool:
    """Raw directives are one engine's, adopted texts one server's."""
    if model is RawSnippet:
        return bool(row["engine"] == install.engine)
    return model is not PinnedFile or bool(row["install_id"] == install.pk)


def _parent(model: type[Model], key: str) -> type[Model]:
    parent = model._meta.get_field(key).related_model
    assert isinstance(parent, type)
    return parent


def _columns(model: type[Model]) -> list[str]:
    beside = _BESIDE | _BESIDE_OF.get(model, set())
    return [field.column for field in model._meta.concrete_fields if field.column and field.column not in beside]


def _rows(model: type[Model], key: str, values: Collection[int], columns: Iterable[str]) -> Iterator[Row]:
    """The rows whose `key` is one of `values`, in the order of their ids, as the driver gives them."""
    names = ["id", *(name for name in columns if name != "id")]
    quoted = ", ".join(map(connection.ops.quote_name, names))
    table, by = map(connection.ops.quote_name, (model._meta.db_table, key))
    left = sorted(values)
    for start in range(0, len(left), _AT_ONCE):
        part = left[start : start + _AT_ONCE]
        marks = ", ".join(["%s"] * len(part))
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {quoted} FROM {table} WHERE {by} IN ({marks}) ORDER BY id", part)  # noqa: S608
            for row in cursor.fetchall():
                yield dict(zip(names, row, strict=True))
