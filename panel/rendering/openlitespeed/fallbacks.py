"""Render fallbacks of try_files in locations with access control, which come after access control, as in nginx.

A rule of the virtual host runs before access control. So it only marks a request whose files are missing, and a rule of
the location's context replaces the path. OpenLiteSpeed then checks the access to this context before it chooses a
context for the new path (HttpSession::processContextRewrite, HttpReq::postRewriteProcess in src/http). This check
requires that the context's regular expression is at least as long as the new path, so a short expression is padded with
a comment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from panel.rendering import handlers, variables
from panel.rendering.apache import rewriting
from panel.rendering.choice import choose
from panel.rendering.errors import NotExpressible
from panel.rendering.locations import Place, locations_of
from panel.rendering.openlitespeed import answers, asides, refusals, ruled, scripts
from panel.rendering.openlitespeed.formats import server_name
from panel.rendering.spec import Location, ServerBlock, SiteSpec
from panel.rendering.tree import Directive, directive

MARK = "PADDOCK_FALLBACK"
_PATH = "PADDOCK_FALLBACK_URI"  # decoded path of the marked request, without a query
_NAMES = {"uri", "args", "query_string", "is_args"}  # variables that a context's rule has


def is_here(source: Location, inside: ServerBlock) -> bool:
    """Return whether a rewrite rule of the location's own context replaces the path by the fallback of try_files.

    True if the location has access control and its context can have such a rule.
    """
    if source.handler not in ("static", "php") or not source.try_files or not handlers.asks_access(source):
        return False
    *files, last = source.try_files
    if {item.rstrip("/") for item in files} != {"$uri"} or refusals.says_itself(source.snippet, "rewrite"):
        return False
    if any(refusals.says_itself(inside.snippet, name) for name in ("context", "rewrite")):
        return False
    if not variables.names(last, handlers.captures(source)) <= _NAMES:
        return False
    return "$" not in (path := _path(last)) and path.startswith("/") and _is_chosen_again(inside, path)


def _path(last: str) -> str:
    return rewriting.without_args(last).partition("?")[0]


def _is_chosen_again(inside: ServerBlock, path: str) -> bool:
    """Return whether a context handles the path of a fallback, and not a rewrite rule of the virtual host."""
    try:
        place = choose(locations_of(inside, ""), path).place
    except NotExpressible:
        return False
    if place is None or place.location.handler != "return" or answers.is_file(place.location):
        return True
    return ruled.is_here(place.location, inside) and not ruled.names_path(place.location)


def marked(source: ServerBlock, place: Place, lines: Sequence[Directive]) -> list[Directive]:
    """Return `lines`, the virtual host's rewrite rules for the try_files of a location, with a changed last rule if
    necessary.

    If a rule of the location's context replaces the path by the fallback, the last rule only marks the request, by
    setting a variable. If try_files ends in a status, the last rule is the one that `asides.status` describes.
    """
    if not lines:
        return []
    pattern, _target, flags = lines[-1].args
    if place.location.try_files[-1:] and place.location.try_files[-1].startswith("="):
        answer, ends = asides.status(place, source, int(place.location.try_files[-1][1:]))
        ends = f"[NC,{ends[1:]}" if "NC" in flags[1:-1].split(",") else ends
        return [*lines[:-1], replace(lines[-1], args=(pattern, answer, ends))]
    if not is_here(place.location, source):
        return [*lines]
    kept = [flag for flag in flags[1:-1].split(",") if flag == "NC" or flag.startswith("T=")]
    # OpenLiteSpeed takes the text after a ? in a decoded path for the query, and writes %3F for it in a condition.
    condition = [directive("RewriteCond", "$0", "^((?:(?!%3F)[^?])*)")] if _copies_path(place) else []
    copy = [f"E={_PATH}:%1"] if condition else []
    marks = f"[{','.join([*kept, *copy, f'E={MARK}:{place.number}', 'L'])}]"
    return [*lines[:-1], *condition, replace(lines[-1], args=(pattern, "-", marks))]


def _copies_path(place: Place) -> bool:
    return "uri" in variables.names(place.location.try_files[-1], handlers.captures(place.location))


def rules(spec: SiteSpec, place: Place) -> list[Directive]:
    """Return rewrite rules of a location's context: they replace the path by the fallback for requests that a rule of
    the virtual host marked.
    """
    number = int(place.pointer.split("/")[2])
    if not is_here(place.location, spec.blocks[number]):
        return []
    words = rewriting.interpolator(place, server_name(spec, number))
    field = f"{place.pointer}/try_files/{len(place.location.try_files) - 1}"
    path, flags = rewriting.split_fallback(place.location.try_files[-1], words, field)
    # In a context, OpenLiteSpeed takes %{REQUEST_URI} from the request line, or from freed memory after a rewrite.
    path = path.replace("%{REQUEST_URI}", f"%{{ENV:{_PATH}}}")
    # The new path may have the same context, whose rules then run once more.
    return [
        *_refused(spec.blocks[number], place),
        directive("RewriteCond", f"%{{ENV:{MARK}}}", f"={place.number}"),
        directive("RewriteRule", "^", path, f"[E={MARK}:done,{flags[1:]}"),
    ]


def _refused(inside: ServerBlock, place: Place) -> list[Directive]:
    """Return a context's rewrite rule that refuses methods other than GET and HEAD for the file to which try_files
    falls back; [] if the fallback is not a file.

    The response has the headers of the file's location. If the location of the file must check access first, or sends
    headers, the rule only marks the request.
    """
    chosen = choose(locations_of(inside, ""), _path(place.location.try_files[-1])).place
    if scripts.runs(inside, chosen.location if chosen else None, _path(place.location.try_files[-1])):
        return []
    own = chosen if chosen is not None and asides.has_own(chosen.location, inside) else None
    asks = own is not None and handlers.asks_access(own.location)
    if asks or (own is None and refusals.are_marked(inside)):
        answer = ("-", f"[E={refusals.MARK}:1]")
    elif own is not None or asides.has_own(place.location, inside):
        answer = (asides.path(f"refused-{(own or place).number}"), "[L]")
    else:
        answer = ("-", "[R=405,L]")
    return [
        directive("RewriteCond", f"%{{ENV:{MARK}}}", f"={place.number}"),
        directive("RewriteCond", "%{REQUEST_METHOD}", "!^(?:GET|HEAD)$"),
        directive("RewriteRule", "^", *answer),
    ]


def lengthened(place: Place, inside: ServerBlock, pattern: str) -> str:
    """Return the pattern of the location's context, padded to at least the length of the fallback's path.

    Otherwise OpenLiteSpeed would not check access before it chooses the context of the fallback.
    """
    if not is_here(place.location, inside):
        return pattern
    missing = max(len(_path(place.location.try_files[-1]).encode()), asides.LONGEST) - len(pattern)
    return f"{pattern}(?#{'-' * missing})" if missing > 0 else pattern
