"""Reject malformed paths, and methods that files do not support (405), as nginx does.

OpenLiteSpeed would send a file for POST and OPTIONS. nginx rejects TRACE everywhere, and other methods once the
location and the fallback of its try_files are known. Locations with access control are left out: rules run before
access control, and nginx's 401 or 403 precedes the 405.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from panel.rendering import exclusive, handlers, reach
from panel.rendering.apache import rewriting
from panel.rendering.apache.quoting import one_quote, rewrite_regex, target
from panel.rendering.exclusive import Condition
from panel.rendering.locations import Locations, Place
from panel.rendering.openlitespeed import asides, refusals, ruled, scripts
from panel.rendering.openlitespeed.context import by_prefix, prefixes_suffice
from panel.rendering.openlitespeed.paths import is_all, refer_back
from panel.rendering.spec import Location, ServerBlock
from panel.rendering.tree import Directive, directive

_OTHERS = directive("RewriteCond", "%{REQUEST_METHOD}", "!^(?:GET|HEAD)$", comment="Files accept GET and HEAD")
_NOT_POST = directive("RewriteCond", "%{REQUEST_METHOD}", "!=POST", "[OR]")
_NO_DOTS = r"(?!(?s:.*)/\.\.?$)"  # the target is no file of this name, and the parent folder has index files


@dataclass(frozen=True)
class _Files:
    """Key for grouping locations whose files one rewrite rule can find.

    `name`: the requested file in a rule's notation. `indexes`: index files for POST to a folder. `must_be` is set if
    missing paths get 404: "folder" for `$uri $uri/ =404`, "file" for `$uri =404`, with which folders get 404 too.
    `alone`: a location with an alias, which shares no rule.
    """

    name: str
    indexes: tuple[str, ...]
    must_be: str = ""
    alone: Place | None = None
    own: Place | None = None  # location whose own contexts refuse methods


def refused(block: ServerBlock) -> list[Directive]:
    """Return rewrite rules that reject TRACE in every location, and malformed paths, which nginx rejects too.

    OpenLiteSpeed would cut a path at %00.
    """
    return [
        directive("RewriteCond", "%{THE_REQUEST}", r"^\S+ [^ ?#]*%(?:00|(?![0-9A-Fa-f]{2}))"),
        directive("RewriteRule", f"^{_no_pages(block)}", "-", "[R=400,L]"),
        # above the root; OpenLiteSpeed does not resolve a final /..
        directive("RewriteRule", r"^/+\.\.$", "-", "[R=400,L]"),
        *_refused_trace(block),
    ]


def _refused_trace(block: ServerBlock) -> list[Directive]:
    """Return a rewrite rule that rejects TRACE everywhere, with the headers of the server block, as nginx does."""
    answer = (asides.path("refused"), "[L]") if asides.refuses_trace(block) else ("-", "[R=405,L]")
    asked = directive("RewriteCond", "%{REQUEST_METHOD}", "=TRACE")
    return [asked, directive("RewriteRule", f"^{_no_pages(block)}", *answer)]


def rules(block: ServerBlock, found: Locations, chosen: dict[Place, Condition], root: str) -> list[Directive]:
    """Return rewrite rules that refuse methods for files, on paths that no earlier rule handled or redirected.

    Locations whose files are found in the same way share one rule.
    """
    if refer_back(found.regexes):
        return []
    groups: dict[_Files, list[Place | None]] = {}  # None: paths without a location
    for place in chosen:
        refuses = _refuses(place.location) or asides.has_own(place.location, block)
        if refuses and not is_captured(place) and not _is_page(block, place):
            groups.setdefault(_files(block, found, place, root), []).append(place)
    if not any(map(is_all, chosen)):
        groups.setdefault(_files(block, found, None, root), []).append(None)
    lines: list[Directive] = []
    for files, places in groups.items():
        if any(not fits(word) for word in (files.name, *files.indexes)):
            continue  # no rule can express the name
        rest = any(place is None or is_all(place) for place in places)
        others = {place: chosen[place] for place in chosen if not _is_page(block, place)}
        pattern = outside(block, others, places) if rest else these(chosen, places)
        lines += _rule(files, f"^{_no_pages(block)}{pattern[1:]}", _answer(block, files.own))
    return lines


def _answer(block: ServerBlock, own: Place | None) -> tuple[str, str]:
    """Return target and flags of a rewrite rule that refuses methods for files.

    `own`: a location whose separate context (asides.py) sends the refusal; None without such a context.
    """
    if own is None:
        return "-", refusals.flags(block)
    if handlers.asks_access(own.location):
        return "-", f"[E={refusals.MARK}:1,L]"
    return asides.path(f"refused-{own.number}"), "[L]"


def before_fallback(
    block: ServerBlock, place: Place, condition: Condition, root: str, fallback: Place | None
) -> list[Directive]:
    """Return rewrite rules that refuse methods if a request falls back to a file by the try_files of its location.

    Rules run only once, so the rules for the location of the fallback would not run. If contexts send the refusal, the
    rule only marks the request, and the next rule leads to the context of the fallback. POST for a missing file gets
    404.
    """
    if fallback is None or not (_refuses(place.location) and _refuses(fallback.location)) or place.location.alias:
        return []
    field = f"{place.pointer}/try_files"
    name = one_quote(f"{target((place.location.root or root).rstrip('/'))}$0", field)
    lines = [_OTHERS]
    if not fallback.location.alias:
        last = rewriting.without_args(place.location.try_files[-1]).partition("?")[0]
        file = one_quote(f"{target((fallback.location.root or root).rstrip('/'))}{target(last)}", field)
        lines += [_NOT_POST, directive("RewriteCond", file, "-f")]
    lines.append(directive("RewriteCond", name, "!-f"))
    if "$uri/" in place.location.try_files:
        lines.append(directive("RewriteCond", name, "!-d"))
    pattern = f"^{_no_pages(block)}{these({place: condition}, [place])[1:]}"
    answer = _answer(block, fallback if asides.has_own(fallback.location, block) else None)
    answer = ("-", f"[E={refusals.MARK}:1]") if answer[0] == "-" and refusals.are_marked(block) else answer
    return [*lines, directive("RewriteRule", rewrite_regex(pattern, f"{place.pointer}/pattern"), *answer)]


def _is_page(block: ServerBlock, place: Place) -> bool:
    return place.location.match == "=" and any(page.uri == place.pattern for page in block.error_pages)


def _no_pages(block: ServerBlock) -> str:
    """Return look-aheads that exclude the server block's error pages, for the pattern of a rewrite rule.

    Error pages keep the method of the request, so a second rejection would send a second response.
    """
    pages = dict.fromkeys(page.uri.partition("?")[0] for page in block.error_pages if page.uri.startswith("/"))
    return "".join(f"(?!{exclusive.quote(page)}$)" for page in pages)


def fits(name: str) -> bool:
    return not ('"' in name and "'" in name) and "${" not in name and "\n" not in name


def _refuses(source: Location) -> bool:
    return source.handler == "static" and not handlers.asks_access(source)


def is_captured(place: Place) -> bool:
    """Return whether the location has a regular expression and an alias, so that its folder can contain captures."""
    return bool(place.location.alias) and place.is_regex


def name_of(place: Place | None, root: str) -> str:
    """Return the path of the requested file in the notation of rewrite rules. The place None stands for paths without a
    location.
    """
    if place is not None and place.location.alias.endswith("/") and is_all(place):
        return f"{target(place.location.alias.rstrip('/'))}$0"  # patterns of such a location capture nothing
    if place is not None and place.location.alias:
        return target(place.location.alias) + ("$1" if place.is_prefix else "")
    return f"{target(((place.location.root if place else '') or root).rstrip('/'))}$0"


@dataclass(frozen=True)
class Lookup:
    """Locations whose files rewrite rules find in the same way.

    `name`: the requested file in a rule's notation. `pattern`: regular expression for the paths of all these locations.
    `places` contains None for paths without a location.
    """

    name: str
    pattern: str
    places: tuple[Place | None, ...]


def by_file(
    block: ServerBlock,
    chosen: dict[Place, Condition],
    root: str,
    apart: Callable[[Place | None], object] = lambda place: None,
) -> list[Lookup]:
    """Group the server block's locations of plain files by the way in which rewrite rules find the requested file;
    return one Lookup per group.

    Locations for which `apart` returns different values are in different groups.
    """
    groups: dict[tuple[str, Place | None, object], list[Place | None]] = {}
    for place in chosen:
        if place.location.handler == "static" and not is_captured(place):
            alone = place if place.location.alias else None
            groups.setdefault((name_of(place, root), alone, apart(place)), []).append(place)
    if not any(map(is_all, chosen)):
        groups.setdefault((name_of(None, root), None, apart(None)), []).append(None)
    lookups: list[Lookup] = []
    for (name, *_), places in groups.items():
        if fits(name):
            rest = any(place is None or is_all(place) for place in places)
            pattern = outside(block, chosen, places) if rest else these(chosen, places)
            lookups.append(Lookup(name, pattern, tuple(places)))
    return lookups


def _files(block: ServerBlock, found: Locations, place: Place | None, root: str) -> _Files:
    indexes, name = _indexes(block, found, place), name_of(place, root)
    if place is None:
        return _Files(name, indexes)
    source = place.location
    tries = source.try_files
    missing = tries and tries[-1] == "=404" and {item.rstrip("/") for item in tries[:-1]} == {"$uri"}
    must_be = ("folder" if "$uri/" in tries else "file") if missing else ""
    own = place if asides.has_own(source, block) else None
    return _Files(name, indexes, must_be, alone=place if source.alias else None, own=own)


def _indexes(block: ServerBlock, found: Locations, place: Place | None) -> tuple[str, ...]:
    """Return the names of a location's index files before the first script.

    The tuple is empty if another location handles an index file with access control, from another folder, or not as a
    file.
    """
    others = reach.by_index(block, found).get(place, frozenset())
    root = place.location.root if place else ""
    if any(
        not _refuses(other.location) or (other.location.root, other.location.alias) != (root, "")
        for other in others
        if other
    ):
        return ()
    suffixes = {
        suffix for item in found.places if item.location.handler == "php" for suffix in scripts.suffixes(item.location)
    }
    names: list[str] = []
    for name in reach.index_names(block, place):
        if name.rpartition(".")[2] in suffixes:
            break
        names.append(name)
    return tuple(names)


def these(chosen: dict[Place, Condition], group: list[Place | None]) -> str:
    """Return a regular expression for the paths of the locations in `group`. In a rule, $0 is then the whole path, and
    $1 the path after the prefix of an alias.
    """
    places = [place for place in group if place is not None]
    if len(places) == 1 and places[0].location.alias:
        return rewriting.with_rest(places[0], chosen[places[0]]).as_pattern()
    return f"^(?={'|'.join(_bare(chosen[place]).as_pattern()[1:] for place in places)})(?s:.*)$"


def outside(block: ServerBlock, chosen: dict[Place, Condition], places: list[Place | None]) -> str:
    """Return a regular expression for the paths that no location except `places` handles.

    The expression can also match paths of locations that only redirect or send an error, because earlier rewrite rules
    handle these paths.
    """
    left = [place for place in chosen if place not in places and not _is_answered(block, place.location)]
    return f"^{''.join(f'(?!{_bare(chosen[place]).as_pattern()[1:]})' for place in left)}(?s:.*)$"


def _is_answered(block: ServerBlock, source: Location) -> bool:
    return source.handler == "return" and (source.return_code or 0) >= 300 and not ruled.is_here(source, block)


def _bare(condition: Condition) -> Condition:
    """Return the condition without capturing groups, so that a regular expression can combine several conditions."""
    return replace(condition, own=replace(condition.own, text=exclusive.uncaptured(condition.own.text)))


def _rule(files: _Files, pattern: str, answer: tuple[str, str]) -> list[Directive]:
    name = files.name
    tests = [_OTHERS, _NOT_POST]
    last = [directive("RewriteCond", name, "-f")]
    last += [directive("RewriteCond", f"{name}./{target(index)}", "-f") for index in files.indexes]
    tests += [replace(test, args=(*test.args, "[OR]")) for test in last[:-1]] + last[-1:]
    if files.must_be == "folder":
        tests += [directive("RewriteCond", name, "-f", "[OR]"), directive("RewriteCond", name, "-d")]
    elif files.must_be:
        tests.append(directive("RewriteCond", name, "-f"))
    pattern = f"^{_NO_DOTS}{pattern[1:]}"
    return [*tests, directive("RewriteRule", rewrite_regex(pattern, "/locations"), *answer)]


def marks(block: ServerBlock, chosen: dict[Place, Condition], found: Locations) -> list[Directive]:
    """Return rewrite rules that send 404 for paths of files with a literal ? (%3F).

    A regular-expression context would look for the part before the ? in any folder (HttpReq::processMatchList).
    """
    if prefixes_suffice(found):
        chosen = {place: condition for place, condition in chosen.items() if not by_prefix(place)}
    lines: list[Directive] = []
    for place, condition in chosen.items():
        if place.location.handler in ("static", "php"):
            pattern = rf"^(?=[^?]*\?)(?={condition.as_pattern().removeprefix('^')})(?s:.*)$"
            word = rewrite_regex(pattern, f"{place.pointer}/pattern")
            lines.append(directive("RewriteRule", word, *asides.status(place, block, 404)))
    if lines:
        lines[0] = replace(lines[0], comment="Paths with ? never match a file")
    return lines
