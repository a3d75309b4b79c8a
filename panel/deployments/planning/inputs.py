"""One digest of everything a plan's files are rendered from: the raw database rows of its sites.

Rows are compared without decoding or creating objects. So new parts of a site count automatically, and a confirmation
costs a tenth of reading the sites.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from django.db import connection
from django.db.models import Model

from panel.deployments.models import PinnedFile
from panel.hosts.models import WebServer
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

# Every kind of part, with the foreign key to its owner, which is listed before it.
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
# Columns that affect no file. For the site's current web server all columns except these are ignored too; they only
# matter when the site moves to another server with other log paths.
_BESIDE = {"created_at", "updated_at", "row_version", "adopted_by_id"}
_BESIDE_OF: dict[type[Model], set[str]] = {Site: {"team_id", "enabled", "health_path", "notes", "tags"}}
_SERVER = ("engine", "paths")
_AT_ONCE = 400  # names in one query; SQLite supports at least 999

Row = dict[str, Any]


class Inputs:
    """Rows of some sites, by id, at the time of creation.

    Create it before a plan reads the sites: a change in between is then in the files but not in the digest, and the
    plan is outdated. Uses a constant number of queries.
    """

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
        self._add(WebServer, Site, "web_server_id", _SERVER)
        self._add(Certificate, ServerBlock, "certificate_id", _columns(Certificate))

    def digest(self, site: Site, web_server: WebServer) -> str:
        """SHA-256 of everything that the site's files on that server depend on. For a site that was missing, a value
        that no site has.
        """
        server = json.dumps(to_json(freeze.web_server_spec(web_server)), sort_keys=True)
        found = [
            (model.__name__, *row.values())
            for model, row in self._found.get(site.pk, ())
            if _counts(model, row, web_server)
        ]
        return hashlib.sha256(repr((server, found)).encode()).hexdigest()

    def _add(self, model: type[Model], named_by: type[Model], key: str, columns: Iterable[str]) -> None:
        """Add the rows that a foreign key of a site names."""
        wanted = [(rows, row[key]) for rows in self._found.values() for kind, row in rows if kind is named_by]
        found = {row["id"]: row for row in _rows(model, "id", {pk for _, pk in wanted if pk}, columns)}
        for rows, pk in wanted:
            if pk in found:
                rows.append((model, found[pk]))


def _counts(model: type[Model], row: Row, web_server: WebServer) -> bool:
    """Return whether the row applies to this web server: raw directives are for one engine, adopted texts for one
    server.
    """
    if model is RawSnippet:
        return bool(row["engine"] == web_server.engine)
    return model is not PinnedFile or bool(row["web_server_id"] == web_server.pk)


def _parent(model: type[Model], key: str) -> type[Model]:
    parent = model._meta.get_field(key).related_model
    assert isinstance(parent, type)
    return parent


def _columns(model: type[Model]) -> list[str]:
    beside = _BESIDE | _BESIDE_OF.get(model, set())
    return [field.column for field in model._meta.concrete_fields if field.column and field.column not in beside]


def _rows(model: type[Model], key: str, values: Collection[int], columns: Iterable[str]) -> Iterator[Row]:
    """Raw rows whose `key` is in `values`, ordered by id."""
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
