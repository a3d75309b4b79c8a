"""Separate contexts, which only rewrite rules can reach: they send redirects and error responses that the context of a
location would send too late or with other headers.

The paths of these contexts begin with `/./`. No request has such a path, because OpenLiteSpeed resolves `/./`
(GPath::clean in src/util). OpenLiteSpeed tries regular expressions in the order of their texts. Those of separate
contexts begin with `!^|` to come first; the part `!^` never matches.
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
STATUS = "PADDOCK_STATUS"
LONGEST = 32
TO_FOLDER = (
    directive("RewriteCond", f"%{{ENV:{FOLDER}}}", "!^$"),
    directive("RewriteRule", "^", f"%{{ENV:{FOLDER}}}", "[R=301,NE,L]"),
)


def path(name: str) -> str:
    return f"/./paddock/{name}"


def lengthened(place: Place, inside: ServerBlock, pattern: str) -> str:
    """Return the pattern of a location's context, padded with a comment if rules of the context lead to separate
    contexts.

    OpenLiteSpeed checks access before it changes the path only if the pattern is at least as long as the new path.
    """
    missing = LONGEST - len(pattern) if rules_inside(place, inside) else 0
    return f"{pattern}(?#{'-' * missing})" if missing > 0 else pattern


def context(name: str, headers: Sequence[str], rules: Sequence[Directive] = ()) -> Node:
    """Return the separate context `name`, whose responses have the header lines `headers`. Without `rules` it sends
    404, because it has no files.
    """
    body: list[Node] = [directive("location", "$VH_ROOT/paddock-none"), directive("allowBrowse", 1)]
    if headers:
        body.append(Lines("extraHeaders", tuple(headers)))
    if rules:
        lines = Lines("rules", tuple(map(rewrite_line, rules)))
        body.append(block("rewrite", body=[directive("enable", 1), lines], gap=False))
    return block("context", f"exp:!^|^{quote(path(name))}$", body=body)


def has_own(source: Location, inside: ServerBlock) -> bool:
    """Return whether a location of files has separate contexts for its error responses.

    The location needs such contexts if access control must come before the errors, or if the errors must not have the
    location's past expiry time.
    """
    if source.handler != "static" or not can_have_own(source):
        return False
    return (handlers.asks_access(source) or is_past(source)) and refusals.can_be_marked(inside)


def statuses(source: Location, inside: ServerBlock) -> tuple[int, ...]:
    """Return the statuses that separate contexts send for a location, in ascending order. Possible statuses are 404,
    403 for folders, and the status at the end of try_files.

    A location needs these contexts if it has access control, which must come before the responses. It also needs them
    if the responses need headers. The tuple is empty for other locations, and for those that cannot have such contexts.
    """
    if not can_have_own(source) or not refusals.can_be_marked(inside):
        return ()
    if not handlers.asks_access(source) and not sends_headers(source, inside):
        return ()
    found = {404} if has_own(source, inside) else set[int]()
    if source.try_files and source.try_files[-1].startswith("="):
        found.add(int(source.try_files[-1][1:]))
    if source.handler == "static" and shows_folders(source):
        found.add(403)
    return tuple(sorted(found))


def can_have_own(source: Location) -> bool:
    """Return whether rewrite rules can find the location's files, so that separate contexts can send its error
    responses.
    """
    return source.handler in ("static", "php") and not (source.alias and source.match in ("~", "~*"))


def shows_folders(source: Location) -> bool:
    """Return whether the location looks for index files in folders, as nginx does without try_files or with `$uri/`."""
    return not source.try_files or "$uri/" in source.try_files


def status_context(status: int, number: int) -> str:
    return f"missing-{number}" if status == 404 else f"status-{status}-{number}"


def rules_inside(place: Place, inside: ServerBlock) -> list[Directive]:
    """Return rewrite rules for the context of a location with access control; they lead to the separate contexts that
    send redirects and errors. [] for other locations.

    Access control comes first, because OpenLiteSpeed checks access before it chooses the context of the new path.
    """
    if not handlers.asks_access(place.location):
        return []
    found: list[Directive] = []
    if has_own(place.location, inside):
        found += _led(FOLDER, "!^$", f"folder-{place.number}")
        found += _led(refusals.MARK, "=1", f"refused-{place.number}")
    for status in statuses(place.location, inside):
        found += _led(STATUS, f"={status}", status_context(status, place.number))
    return found


def status(place: Place, inside: ServerBlock, code: int) -> tuple[str, str]:
    """Return (target, flags) of the virtual host's rewrite rule for requests of a location that get the status `code`.

    The rule sends the status itself, leads to a separate context that sends it, or, in a location with access control,
    only marks the request for a rule of the location's context.
    """
    if code not in statuses(place.location, inside):
        return "-", f"[R={code},L]"
    if handlers.asks_access(place.location):
        return "-", f"[E={STATUS}:{code},L]"
    return path(status_context(code, place.number)), "[L]"


def _led(mark: str, test: str, name: str) -> list[Directive]:
    return [directive("RewriteCond", f"%{{ENV:{mark}}}", test), directive("RewriteRule", "^", path(name), "[L]")]


def is_past(source: Location) -> bool:
    """Return whether the location serves files with an expiry time in the past, so that browsers do not cache them."""
    return source.handler == "static" and bool(source.expires) and expiry.parse(source.expires, "/expires").no_cache


def refuses_trace(inside: ServerBlock) -> bool:
    """Return whether a separate context refuses TRACE, because the response needs headers of the server block."""
    return bool(inside.headers or inside.hsts_max_age_s is not None) and refusals.can_have_contexts(inside)


def sends_headers(source: Location | None, inside: ServerBlock) -> bool:
    """Return whether redirects to the location's folders need headers, and contexts can send such redirects. `source`
    is None for paths without a location.
    """
    everywhere = inside.headers or inside.hsts_max_age_s is not None
    own = source is not None and (source.headers or is_past(source))
    return bool(everywhere or own) and refusals.can_be_marked(inside)
