"""Find the suffixes of a virtual host's scripts. OpenLiteSpeed runs scripts by suffix, so contexts cannot choose
whether scripts run.
"""

from __future__ import annotations

import re

from panel.rendering import exclusive
from panel.rendering.apache import rewrites
from panel.rendering.choice import choose
from panel.rendering.errors import NotExpressible
from panel.rendering.locations import Place, locations_of
from panel.rendering.nginx.types import MIME_TYPES
from panel.rendering.openlitespeed import refusals
from panel.rendering.openlitespeed.paths import refer_back
from panel.rendering.spec import ErrorPage, Location, ServerBlock

_ENDS = re.compile(r"\\\.(?:\((?:\?:)?([A-Za-z0-9|]+)\)|([A-Za-z0-9]+))(?:\$|\(|$)")
_SUFFIX = re.compile(r"\.([A-Za-z0-9]+)$")
USUAL = ("php",)
_OTHER = "application/octet-stream"
_TYPES = {suffix: name for name, suffixes in MIME_TYPES.items() for suffix in suffixes}


def suffixes(source: Location) -> tuple[str, ...]:
    """Return the suffixes of the scripts in a PHP location, from the end of its pattern; ("php",) for a prefix or a
    pattern without suffixes.
    """
    if source.match in ("~", "~*"):
        found = _ENDS.search(source.pattern)
        return tuple((found[1] or found[2]).split("|")) if found else USUAL
    plain = _SUFFIX.search(source.pattern) if source.match == "=" else None
    return (plain[1],) if plain else USUAL


def are_known(source: Location) -> bool:
    """Return whether the suffixes of a PHP location's scripts are known. They are unknown only for a regular expression
    that does not end in suffixes.
    """
    return source.match not in ("~", "~*") or _ENDS.search(source.pattern) is not None


def can_be_sent(block: ServerBlock) -> bool:
    """Return whether rewrite rules can make OpenLiteSpeed send scripts outside of PHP locations as files, without
    affecting scripts that must run.
    """
    snippets = [block.snippet, *(place.snippet for place in block.locations)]
    if any(refusals.says_itself(text, name) for text in snippets for name in ("context", "rewrite", "errorpage")):
        return False
    if refer_back(Place(place, "", 0) for place in block.locations):
        return False
    if block.error_pages and rewrites.are_used(block):
        return False
    return all(_is_plain_page(block, page) for page in block.error_pages)


def _is_plain_page(block: ServerBlock, page: ErrorPage) -> bool:
    """Return whether the error page is a plain file in every case, never a script."""
    path = page.uri.partition("?")[0]
    try:
        place = choose(locations_of(block, ""), path).place
    except NotExpressible:
        return False
    if not path.startswith("/") or path.endswith("/") or re.search(rf"\.(?i:{all_suffixes(block)})(?:/|$)", path):
        return False
    return place is None or (place.location.handler == "static" and not place.location.try_files)


def runs(block: ServerBlock, location: Location | None, path: str) -> bool:
    """Return whether an application handles the path: the location is not for plain files, or OpenLiteSpeed runs the
    path as a script.
    """
    if location is not None and location.handler != "static":
        return True
    return re.search(rf"\.(?i:{all_suffixes(block)})$", path) is not None and not can_be_sent(block)


def type_of(suffix: str) -> str:
    """Return the MIME type that nginx sends for files with the suffix."""
    return _TYPES.get(suffix.lower(), _OTHER)


def all_suffixes(block: ServerBlock) -> str:
    """Return all file suffixes that run as scripts, as alternatives of a regular expression, such as `php|phtml`."""
    return "|".join(names for _kind, names in by_type(block))


def by_type(block: ServerBlock) -> list[tuple[str, str]]:
    """Return (MIME type that nginx sends, suffixes of that type that run as scripts) pairs.

    The suffixes are joined as alternatives of a regular expression.
    """
    found: dict[str, dict[str, None]] = {}
    for place in block.locations:
        if place.handler == "php":
            for suffix in suffixes(place):
                found.setdefault(type_of(suffix), {})[exclusive.quote(suffix)] = None
    return [(kind, "|".join(names)) for kind, names in found.items()]
