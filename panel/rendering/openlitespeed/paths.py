"""Resolve request paths as nginx does: remove a fragment, and a final `/.` or `/..`.

OpenLiteSpeed resolves dots only before a slash (HttpUtil::unescapeInPlace, GPath::clean in src/util).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from panel.rendering import handlers
from panel.rendering.apache.quoting import rewrite_regex
from panel.rendering.exclusive import Condition, uncaptured
from panel.rendering.locations import Place
from panel.rendering.openlitespeed import answers, refusals
from panel.rendering.spec import ServerBlock
from panel.rendering.tree import Directive, directive

# A rewritten path is sent to an upstream decoded (HttpReq::encodeReqLine), so a line break would start another request,
# and the server takes % and ? of a rewritten path for an encoded letter and a query.
_OF_FILES = r"[^/?%#]"
_OF_UPSTREAMS = r"[!$&-.0-9:;=@-~]"
_REFER_BACK = re.compile(r"\\[1-9]|\\g\{?-?\d|\(\?[&R\d]")


def refer_back(places: Iterable[Place]) -> bool:
    r"""Return whether the regular expression of one of the locations refers to its own groups (such as `\1`), so that
    it cannot be combined with others.
    """
    return any(_REFER_BACK.search(place.pattern) for place in places if place.is_regex)


def resolved(block: ServerBlock, chosen: dict[Place, Condition]) -> list[Directive]:
    """Return rewrite rules that replace the path by the path as nginx resolves it, for all later rules.

    Paths of upstreams and scripts are not replaced, because nginx passes on the path as the client sent it. Paths of
    locations that refuse requests are not replaced either: OpenLiteSpeed would send the new path as the header
    Location.
    """
    places = [place for place in chosen if _has_files(place)]
    covered = any(map(is_all, chosen))
    alone = covered and len(chosen) == 1 and places and places[0].location.handler != "static"
    if refer_back(chosen) or alone or (covered and not places):
        return []
    letter = letters(block)
    path = f"(?:{letter}*/)*"
    kept = [*_of_files(block), *_kept(chosen)]
    return [
        directive(
            "RewriteCond",
            "%{THE_REQUEST}",
            r"^\S+ (?:[^ ?#%]|%(?!23))*#",
            comment="Paths as nginx resolves them: /a#b is /a; /a/. and /a/b/.. are /a/",
        ),
        *kept,
        directive("RewriteRule", f"^({path}{letter}*)#", "$1?"),
        *kept,
        directive("RewriteRule", rf"^({path})(?:\.|(?!\.\.?/){letter}+/+\.\.)$", "$1"),
    ]


def is_all(place: Place) -> bool:
    """Return whether the location has the prefix /, and so handles every path that no other location handles."""
    return place.is_prefix and place.pattern == "/"


def _has_files(place: Place) -> bool:
    if place.location.handler == "return":
        return place.location.return_code in handlers.REDIRECTS or not answers.is_rule(place.location)
    return place.location.handler not in ("proxy", "php")


def letters(block: ServerBlock) -> str:
    """Return a regular expression for one character of the paths that rewrite rules can replace without harm."""
    return _OF_UPSTREAMS if any(place.handler == "proxy" for place in block.locations) else _OF_FILES


def _of_files(block: ServerBlock) -> list[Directive]:
    """Return a rewrite condition that only GET and HEAD meet; [] if contexts refuse other methods
    (refusals.are_marked).

    If a rule refuses other methods, OpenLiteSpeed would send a replaced path as the header Location.
    """
    if refusals.are_marked(block):
        return []
    return [directive("RewriteCond", "%{REQUEST_METHOD}", "^(?:GET|HEAD)$")]


def _kept(chosen: dict[Place, Condition]) -> list[Directive]:
    """Return a rewrite condition on the new path: it must not belong to an upstream, to scripts, or to a location that
    refuses requests.
    """
    texts = [
        uncaptured(condition.as_pattern()).removeprefix("^")
        for place, condition in chosen.items()
        if not _has_files(place)
    ]
    if not texts:
        return []
    return [directive("RewriteCond", "$1", "!" + rewrite_regex(f"^(?={'|'.join(texts)})", "/locations"))]


def led_up(source: ServerBlock) -> list[Directive]:
    """Return a rewrite rule that rejects paths with a `..` segment; [] without applications. Applications can send such
    a path in the header X-LiteSpeed-Location, which OpenLiteSpeed follows without a check.
    """
    if not any(location.handler in ("php", "proxy") for location in source.locations):
        return []
    return [directive("RewriteRule", r"(?:^|/)\.\.(?:/|$)", "-", "[F,L]")]
