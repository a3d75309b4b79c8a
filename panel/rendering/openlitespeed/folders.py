"""Render redirects to a folder's final `/`, with the port of the listener and an encoded path, as in nginx.

OpenLiteSpeed would redirect by itself, to the port of the Host header (HttpSession::addLocationHeader in src/http). So
a rule redirects first. Where the response has headers, the rule only records the URL, and a context's rule redirects. A
prefix context would redirect before its own rules run (HttpReq::processContext), so a separate context sends its
redirects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from panel.rendering import handlers, reach
from panel.rendering.apache import rewrites
from panel.rendering.apache.quoting import rewrite_regex, target
from panel.rendering.exclusive import Condition
from panel.rendering.locations import Locations, Place
from panel.rendering.openlitespeed import asides, methods, refusals
from panel.rendering.openlitespeed.context import by_prefix, prefixes_suffice
from panel.rendering.openlitespeed.formats import origin
from panel.rendering.openlitespeed.paths import is_all, refer_back
from panel.rendering.spec import Location, ServerBlock
from panel.rendering.tree import Directive, Node, directive

_ASKED = directive("RewriteCond", "%{REQUEST_METHOD}", "^(?:GET|HEAD|POST)$")
_NOT_ASKED = directive("RewriteCond", "%{REQUEST_METHOD}", "!^(?:GET|HEAD|POST)$")
# Letters that neither nginx nor a client encodes in a path.
_PLAIN = r"[A-Za-z0-9._~!$&'()*+,;=:@\[\]-]"
# Letters that nginx encodes in the redirect, and a client in the path: control characters, space, "<>\^`{|}, non-ASCII.
_ENCODED = r"%(?:[01][0-9A-Fa-f]|2[02]|3[CEce]|5[CEce]|60|7[B-DFb-df]|[89A-Fa-f][0-9A-Fa-f])"
_AS_IT_CAME = rf"^\S+ /*((?:/(?!\.\.?(?:/|[ ?]))(?:{_PLAIN}|{_ENCODED})+)+)[ ?]"


def rules(block: ServerBlock, found: Locations, chosen: dict[Place, Condition], root: str) -> list[Directive]:
    """Return rewrite rules that redirect requests for folders to the path with a final /. They come last, for paths
    that no earlier rule handled.
    """
    start = origin(block)
    if not start or refer_back(chosen):
        return []
    lines: list[Directive] = []
    for one in methods.by_file(block, chosen, root, lambda place: _aside(block, found, place)):
        is_folder = [_ASKED, directive("RewriteCond", one.name, "-d")]
        aside = _aside(block, found, one.places[0])
        plain = f"^(?=(?:{_PLAIN}|/)+(?<!/)$){one.pattern[1:]}"
        lines += [*is_folder, *_redirect(f"{start}$0/", plain, aside)]
        if not rewrites.are_used(block):  # the path is the request's
            encoded = f"^(?!(?:{_PLAIN}|/)+$){one.pattern[1:]}"
            came = directive("RewriteCond", "%{THE_REQUEST}", _AS_IT_CAME)
            lines += [*is_folder, came, *_redirect(f"{start}%1/", encoded, aside)]
    if lines:
        lines[0] = replace(lines[0], comment="The final / of a folder")
    return lines


def refused(block: ServerBlock, found: Locations, chosen: dict[Place, Condition], root: str) -> list[Directive]:
    """Return rewrite rules that refuse methods other than GET, HEAD and POST for folders without a final / in the path.

    The rules are for folders whose redirect does not come from the location's own context. A rule of the context `/`
    would come too late for these folders.
    """
    if not refusals.are_marked(block) or refer_back(chosen) or not origin(block):
        return []
    lines: list[Directive] = []
    for one in methods.by_file(block, chosen, root, lambda place: _aside(block, found, place)):
        if (aside := _aside(block, found, one.places[0])) == "":
            continue
        answer = ("-", "[R=405,L]") if aside is None else (aside.replace("/folder", "/refused"), "[L]")
        lines += [_NOT_ASKED, directive("RewriteCond", one.name, "-d")]
        lines.append(directive("RewriteRule", rewrite_regex(f"^(?!(?s:.*)/$){one.pattern[1:]}", "/locations"), *answer))
    return lines


def _aside(block: ServerBlock, found: Locations, place: Place | None) -> str | None:
    """Return the path of the separate context (asides.py) that redirects requests for the location's folders.

    None: a rewrite rule of the virtual host redirects. "": the location's own context redirects.
    """
    if place is not None and asides.rules_inside(place, block):
        return ""
    if not asides.sends_headers(place.location if place else None, block):
        return None
    if place is None:
        return asides.path("folder")
    is_prefix = prefixes_suffice(found) and by_prefix(place)
    return asides.path(f"folder-{place.number}") if is_prefix else ""


def _redirect(url: str, pattern: str, aside: str | None) -> list[Directive]:
    word = rewrite_regex(pattern, "/locations")
    if aside is None:
        return [directive("RewriteRule", word, url, "[R=301,NE,L]")]
    said = directive("RewriteCond", url, "(?s)^(.*)$")
    return [said, directive("RewriteRule", word, aside or "-", f"[E={asides.FOLDER}:%1,L]")]


def missing(block: ServerBlock, chosen: dict[Place, Condition], root: str) -> list[Directive]:
    """Return rewrite rules that send 404 for missing files in locations with a past expiry time.

    Without these rules, OpenLiteSpeed would send the 404 with the location's expiry time.
    """
    if refer_back(chosen):
        return []

    def own(place: Place | None) -> Place | None:
        past = place is not None and asides.is_past(place.location) and asides.has_own(place.location, block)
        return place if past else None

    lines: list[Directive] = []
    for one in methods.by_file(block, chosen, root, own):
        if (place := own(one.places[0])) is not None:
            lines += [directive("RewriteCond", one.name, "!-f"), directive("RewriteCond", one.name, "!-d")]
            word = rewrite_regex(one.pattern, "/locations")
            lines.append(directive("RewriteRule", word, *asides.status(place, block, 404)))
    return lines


def forbidden(block: ServerBlock, chosen: dict[Place, Condition], root: str) -> list[Directive]:
    """Return rewrite rules that send 403 for folders without an index file; OpenLiteSpeed would send 404."""
    if refer_back(chosen):
        return []
    lines: list[Directive] = []
    for one in methods.by_file(block, chosen, root, lambda place: _indexed(block, place)):
        found = _indexed(block, one.places[0])
        files = [f"{one.name}{target(name)}" for name in found.indexes] if found else []
        if found is None or not all(map(methods.fits, files)):
            continue
        answer = ("-", "[R=403,L]")
        if found.apart is not None:
            answer = asides.status(found.apart, block, 403)
        elif found.has_headers:
            answer = (asides.path("status-403"), "[L]")
        lines += [_ASKED, directive("RewriteCond", one.name, "-d")]
        lines += [directive("RewriteCond", file, "!-f") for file in files]
        lines.append(directive("RewriteRule", rewrite_regex(f"^(?=(?s:.*)/$){one.pattern[1:]}", "/locations"), *answer))
    if lines:
        lines[0] = replace(lines[0], comment="Folders without an index file")
    return lines


@dataclass(frozen=True)
class _Indexed:
    """Index files of a location's folders.

    `apart`: the location, if a separate context (asides.py) sends its 403 responses. `has_headers`: 403 responses need
    headers.
    """

    apart: Place | None
    has_headers: bool
    indexes: tuple[str, ...]


def _indexed(block: ServerBlock, place: Place | None) -> _Indexed | None:
    """Return the index files of the location's folders. None if rules must not send 403 for folders without an index
    file, for example because OpenLiteSpeed lists such folders.
    """
    source = place.location if place else Location("", "/", "static")
    lists = source.autoindex if source.autoindex is not None else block.autoindex
    if lists or not asides.shows_folders(source) or not (block.root or source.root or source.alias):
        return None
    apart = place if place and 403 in asides.statuses(source, block) else None
    if apart is None and handlers.asks_access(source):
        return None
    return _Indexed(apart, asides.sends_headers(source, block), reach.index_names(block, place))


def contexts(
    block: ServerBlock, found: Locations, headers: Callable[[Place | None, bool], tuple[str, ...]]
) -> Iterator[Node]:
    """Yield the separate contexts that send redirects, refusals and errors for locations.

    A separate context has a path that only rewrite rules can reach (see asides.py). `headers(place, times)` returns the
    header lines of the location `place`, or of paths without a location if `place` is None. If `times` is True, the
    lines include the expiry times of the location.
    """
    if asides.refuses_trace(block):
        yield asides.context("refused", headers(None, False), refusals.REFUSED)
    if not any(map(is_all, found.places)) and _aside(block, found, None):
        if origin(block):
            yield asides.context("folder", headers(None, True), asides.TO_FOLDER)
        yield asides.context("status-403", headers(None, False), refusals.with_status(403))
    for place in found.places:
        for status in asides.statuses(place.location, block):
            rule = refusals.with_status(status) if status != 404 else ()
            yield asides.context(asides.status_context(status, place.number), headers(place, False), rule)
        if place.location.handler != "static":
            continue
        inside = asides.rules_inside(place, block)
        if origin(block) and (inside or _aside(block, found, place)):
            yield asides.context(f"folder-{place.number}", headers(place, True), asides.TO_FOLDER)
        if asides.has_own(place.location, block) or _aside(block, found, place):
            yield asides.context(f"refused-{place.number}", headers(place, False), refusals.REFUSED)
