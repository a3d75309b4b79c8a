"""Contexts that only rules can reach: they answer for a context that OpenLiteSpeed would not ask in time.

Their paths begin with `/./`, which no request has, because OpenLiteSpeed resolves it (GPath::clean in src/util). It
tries regular expressions in the order of their texts, so those of these contexts begin with `!`; `!^` never matches.
"""

from __future__ import annotations

from collections.abc import Sequence

from panel.rendering import expiry
from panel.rendering.apache.quoting import line as rewrite_line
from panel.rendering.exclusive import quote
from panel.rendering.openlitespeed import refusals
from panel.rendering.spec import Location, ServerBlock
from panel.rendering.tree import Directive, Lines, Node, block, directive

FOLDER = "PADDOCK_FOLDER"
TO_FOLDER = (
    directive("RewriteCond", f"%{{ENV:{FOLDER}}}", "!^$"),
    directive("RewriteRule", "^", f"%{{ENV:{FOLDER}}}", "[R=301,NE,L]"),
)


def path(name: str) -> str:
    return f"/./paddock/{name}"


def context(name: str, headers: Sequence[str], rules: Sequence[Directive] = ()) -> Node:
    """The context of this path. Without rules, it answers 404: it has no files."""
    body: list[Node] = [directive("location", "$VH_ROOT/paddock-none"), directive("allowBrowse", 1)]
    if headers:
        body.append(Lines("extraHeaders", tuple(headers)))
    if rules:
        lines = Lines("rules", tuple(map(rewrite_line, rules)))
        body.append(block("rewrite", body=[directive("enable", 1), lines], gap=False))
    return block("context", f"exp:!^|^{quote(path(name))}$", body=body)


def is_past(source: Location) -> bool:
    """Return whether the location of files has a past expiry time."""
    return source.handler == "static" and bool(source.expires) and expiry.parse(source.expires, "/expires").no_cache


def sends_headers(source: Location | None, inside: ServerBlock) -> bool:
    """Return whether redirects of this location of files have headers, and contexts can send them."""
    everywhere = inside.headers or inside.hsts_max_age_s is not None
    own = source is not None and (source.headers or is_past(source))
    return bool(everywhere or own) and refusals.can_be_marked(inside)
