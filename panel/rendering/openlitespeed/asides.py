"""Contexts that only rewrite rules can reach, for responses that other contexts would send too late.

The paths of these contexts begin with `/./`. No request has such a path, because OpenLiteSpeed resolves `/./`
(GPath::clean in src/util). OpenLiteSpeed tries regular expressions in the order of their texts, so the expressions of
these contexts begin with `!^|`; the part `!^` never matches.
"""

from __future__ import annotations

from collections.abc import Sequence

from panel.rendering import expiry, handlers
from panel.rendering.apache.quoting import line as rewrite_line
from panel.rendering.exclusive import quote
from panel.rendering.locations import Place
from panel.rendering.openlitespeed import refusals
from panel.rendering.spec import Location, ServerBlock
from panel.rendering.tree import Directive, Lines, Node, block, directive

FOLDER = "PADDOCK_FOLDER"
MISSING = "PADDOCK_MISSING"
_LONGEST = 32
TO_FOLDER = (
    directive("RewriteCond", f"%{{ENV:{FOLDER}}}", "!^$"),
    directive("RewriteRule", "^", f"%{{ENV:{FOLDER}}}", "[R=301,NE,L]"),
)


def path(name: str) -> str:
    return f"/./paddock/{name}"


def lengthened(place: Place, inside: ServerBlock, pattern: str) -> str:
    """Return the pattern of a context, padded to the length of the paths that the context's rules lead to.

    OpenLiteSpeed checks access first only if the pattern is at least as long as the new path.
    """
    missing = _LONGEST - len(pattern) if rules_inside(place, inside) else 0
    return f"{pattern}(?#{'-' * missing})" if missing > 0 else pattern


def context(name: str, headers: Sequence[str], rules: Sequence[Directive] = ()) -> Node:
    """Return the context with the path of `name`. Without rules the context sends 404, because it has no files."""
    body: list[Node] = [directive("location", "$VH_ROOT/paddock-none"), directive("allowBrowse", 1)]
    if headers:
        body.append(Lines("extraHeaders", tuple(headers)))
    if rules:
        lines = Lines("rules", tuple(map(rewrite_line, rules)))
        body.append(block("rewrite", body=[directive("enable", 1), lines], gap=False))
    return block("context", f"exp:!^|^{quote(path(name))}$", body=body)


def has_own(source: Location, inside: ServerBlock) -> bool:
    """Return whether a location of files has separate contexts for its error responses.

    The location needs them if access control must come before the errors, or if the errors must not have the location's
    past expiry time.
    """
    if source.handler != "static" or (source.alias and source.match in ("~", "~*")):
        return False
    return (handlers.asks_access(source) or is_past(source)) and refusals.can_be_marked(inside)


def rules_inside(place: Place, inside: ServerBlock) -> list[Directive]:
    """Return rewrite rules that lead from the context of a location with access control to contexts of this module.

    Access control comes first: OpenLiteSpeed then chooses the context of the new path.
    """
    if not handlers.asks_access(place.location) or not has_own(place.location, inside):
        return []
    return [
        *_led(FOLDER, "!^$", f"folder-{place.number}"),
        *_led(refusals.MARK, "=1", f"refused-{place.number}"),
        *_led(MISSING, "=1", f"missing-{place.number}"),
    ]


def missing(place: Place) -> tuple[str, str]:
    """Return target and flags of the rewrite rule for a missing file of a location with its own error contexts."""
    if handlers.asks_access(place.location):
        return "-", f"[E={MISSING}:1,L]"
    return path(f"missing-{place.number}"), "[L]"


def _led(mark: str, test: str, name: str) -> list[Directive]:
    return [directive("RewriteCond", f"%{{ENV:{mark}}}", test), directive("RewriteRule", "^", path(name), "[L]")]


def is_past(source: Location) -> bool:
    """Return whether the location serves files with a past expiry time."""
    return source.handler == "static" and bool(source.expires) and expiry.parse(source.expires, "/expires").no_cache


def sends_headers(source: Location | None, inside: ServerBlock) -> bool:
    """Return whether redirects of the location to folders need headers, and contexts can send them."""
    everywhere = inside.headers or inside.hsts_max_age_s is not None
    own = source is not None and (source.headers or is_past(source))
    return bool(everywhere or own) and refusals.can_be_marked(inside)
