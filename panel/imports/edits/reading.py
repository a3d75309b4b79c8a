"""Convert an edit of a deployed file to a change of the site's definition. The functions access no database and no
host.

The importer reads the deployed and the edited files. The site's definition changes only where the two results differ,
so everything that the importer cannot express is kept.
"""

from __future__ import annotations

import copy
import difflib
import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from panel.core.errors import ApplicationError
from panel.imports.mapping import mapped
from panel.imports.reading import Loader, SourceFile
from panel.rendering.readers import Read, Unreadable
from panel.rendering.readers.engines import NGINX_SYNTAX, READERS
from panel.rendering.spec import WebServerSpec
from panel.websites.definitions import SiteData

_KEYS = {
    "locations": ("match", "pattern"),
    "listens": ("address", "port"),
    "headers": ("name",),
    "request_headers": ("name",),
    "servers": ("address",),
    "upstreams": ("name",),
    "php_pools": ("name",),
}
# Directives of nginx whose order among each other decides (ngx_http_rewrite_module, ngx_http_access_module).
_IN_ORDER = dict.fromkeys(("if", "set", "rewrite", "return", "break"), "rewrite") | {"deny": "allow"}
_MOST_RAW_LINES = 2000  # a comparison takes time with the square of their number


@dataclass
class Parts:
    """Fields of a site's definition that the importer reads from its files."""

    upstreams: list[Any] = field(default_factory=list)
    php_pools: list[Any] = field(default_factory=list)
    blocks: list[Any] = field(default_factory=list)
    cache_mb: int | None = None


def with_edit(definition: SiteData, deployed: Parts, edited: Parts) -> SiteData:
    """Return a site's definition with an edit of its files applied. `deployed` and `edited` are the fields read from
    the files before and after the edit. Raises ApplicationError if the edit adds or removes server blocks.
    """
    before, after = _renamed(deployed, definition), _renamed(edited, definition)
    changed = definition.copy()
    changed["upstreams"] = _merged(list(definition["upstreams"]), before.upstreams, after.upstreams, "upstreams")
    changed["php_pools"] = _merged(list(definition["php_pools"]), before.php_pools, after.php_pools, "php_pools")
    changed["blocks"] = _blocks(definition["blocks"], before.blocks, after.blocks)
    if before.cache_mb != after.cache_mb and after.cache_mb is not None:
        changed["cache_mb"] = after.cache_mb
    return changed


def tree(engine: str, text: str) -> tuple[object, ...]:
    """Return the directives of a file without comments, spacing and line numbers, as nested tuples to compare.

    Directives of nginx and gallop are sorted by name where their order does not matter. Raises ApplicationError if the
    text cannot be parsed.
    """
    try:
        return _bare(READERS[engine](text), engine in NGINX_SYNTAX)
    except Unreadable as error:
        raise ApplicationError(f"line {error.line}: {error.message}") from error
    except RecursionError as error:
        raise ApplicationError("the blocks of the file are nested too deeply") from error


def _bare(nodes: Iterable[Read], is_sorted: bool) -> tuple[object, ...]:
    ordered = sorted(nodes, key=lambda node: _IN_ORDER.get(node.name, node.name)) if is_sorted else nodes
    return tuple((node.name, node.args, None if node.body is None else _bare(node.body, is_sorted)) for node in ordered)


def directives(engine: str, text: str) -> list[str]:
    """Return every directive of a file as one line, also those inside of blocks."""
    found: list[str] = []
    level = list(READERS[engine](text))
    while level:
        node = level.pop()
        found.append(" ".join((node.name, *node.args)))
        level += node.body or ()
    return found


def parts_of(web_server: WebServerSpec, files: Mapping[str, str], path: str) -> Parts:
    """Read the fields of a site's definition from the file `path` with the importer. `files` maps paths to texts, for
    this file and for all files that it can include.
    """

    def find(pattern: str) -> list[SourceFile]:
        return [SourceFile(name, text) for name, text in files.items() if fnmatch.fnmatchcase(name, pattern)]

    loader = Loader(web_server.engine, find, web_server.config_root)
    loaded = loader.load_file(SourceFile(path, files[path]))
    found = Parts()
    for site in mapped(loaded, web_server, web_server.config_root).sites:
        found.upstreams += site.definition["upstreams"]
        found.php_pools += site.definition["php_pools"]
        found.blocks += site.definition["blocks"]
        found.cache_mb = site.definition.get("cache_mb", found.cache_mb)
    return found


def _renamed(read: Parts, definition: SiteData) -> Parts:
    """Return a copy of the fields `read` in which upstreams and PHP pools have their names from `definition`. Upstreams
    and pools are matched by position, because their names in a file can be longer than in the definition.
    """
    found = copy.deepcopy(read)
    for kind, reference in (("upstreams", "upstream"), ("php_pools", "php_pool")):
        rows, own = getattr(found, kind), [row["name"] for row in cast(Any, definition)[kind]]
        names = {row["name"]: name for row, name in zip(rows, own, strict=False)}
        for row in rows:
            row["name"] = names.get(row["name"], row["name"])
        for block in found.blocks:
            for location in block["locations"]:
                if location.get(reference):
                    location[reference] = names.get(location[reference], location[reference])
    return found


def _blocks(own: Sequence[Any], before: Sequence[Any], after: Sequence[Any]) -> list[Any]:
    if len(before) != len(after):
        raise ApplicationError("the edit adds or removes server blocks")
    blocks = [dict(block) for block in own]
    for old, new in zip(before, after, strict=True):
        if old == new:
            continue
        place = max(range(len(blocks)), key=lambda number: _likeness(blocks[number], old))
        blocks[place] = _merged(blocks[place], old, new, "")
    return blocks


def _likeness(block: Any, other: Any) -> tuple[int, int, int]:
    """Return the numbers of names, ports, and locations that two server blocks have in common."""
    names = set(block["names"]) & set(other["names"])
    sockets = {row["port"] for row in block["listens"]} & {row["port"] for row in other["listens"]}
    locations = {_key(row, "locations") for row in block["locations"]} & {
        _key(row, "locations") for row in other["locations"]
    }
    return len(names), len(sockets), len(locations)


def _merged(own: Any, old: Any, new: Any, name: str) -> Any:
    """Return the value `own` of the definition, with the edit from `old` to `new` applied. A key missing in `new` is
    removed, so that the field's default applies.
    """
    if old == new:
        return own
    if name == "snippets":
        return _merged_snippets(own or {}, old or {}, new or {})
    if isinstance(own, dict) and isinstance(old, dict) and isinstance(new, dict):
        found = dict(own)
        for key in {**old, **new}:
            if old.get(key) == new.get(key):
                continue
            if key in new or key == "snippets":
                found[key] = _merged(own.get(key), old.get(key), new.get(key), key)
            else:
                found.pop(key, None)
        return found
    if name in _KEYS and all(isinstance(value, list) for value in (own, old, new)):
        return _merged_rows(own, old, new, name)
    return new


def _merged_rows(own: list[Any], old: list[Any], new: list[Any], name: str) -> list[Any]:
    before = {_key(row, name): row for row in old}
    after = {_key(row, name): row for row in new}
    rows = {_key(row, name): row for row in own if _key(row, name) in after or _key(row, name) not in before}
    for key, row in after.items():
        rows[key] = _merged(rows[key], before[key], row, "") if key in rows and key in before else rows.get(key, row)
    order = {key: number for number, key in enumerate(after)}
    if list(order) == [key for key in before if key in after]:  # nothing new and nothing moved
        return list(rows.values())
    known = sorted((key for key in rows if key in order), key=lambda key: order[key])
    return [rows[key] for key in rows if key not in order] + [rows[key] for key in known]


def _merged_snippets(own: Mapping[str, str], old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Return a definition's raw directives `own`, texts by engine, with the edit from `old` to `new` applied; empty
    texts are omitted.
    """
    engines = {**own, **old, **new}
    texts = {engine: _merged_lines(*(value.get(engine, "") for value in (own, old, new))) for engine in engines}
    return {engine: text for engine, text in texts.items() if text}


def _merged_lines(own: str, old: str, new: str) -> str:
    """Return the text `own` without the lines that the edit from `old` to `new` removes, and with the lines that the
    edit adds at the end.
    """
    lines, added = own.split("\n") if own else [], []
    before, after = old.split("\n") if old else [], new.split("\n") if new else []
    if len(after) > _MOST_RAW_LINES:
        raise ApplicationError(f"the file has more than {_MOST_RAW_LINES} lines of raw directives")
    for kind, i1, i2, j1, j2 in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            for line in before[i1:i2]:
                if line in lines:
                    lines.remove(line)
            added += after[j1:j2]
    return "\n".join([*lines, *added])


def _key(row: Any, name: str) -> tuple[object, ...]:
    return tuple(row.get(part, "") for part in _KEYS[name])
