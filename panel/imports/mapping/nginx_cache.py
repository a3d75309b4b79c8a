"""Map the response caching of an nginx location: proxy_cache, fastcgi_cache and uwsgi_cache with related directives.
Either all of these directives are mapped, or all are kept as raw directives.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from panel.imports.mapping.common import fits, megabytes, whole_seconds
from panel.imports.reading import Node
from panel.rendering.caching import USUAL
from panel.websites import shapes
from panel.websites.definitions import CacheTimeData, LocationData

if TYPE_CHECKING:
    from panel.imports.mapping.nginx_location import Location

WORDS = ("cache", "cache_valid", "cache_key", "cache_use_stale", "cache_bypass", "no_cache")
QUERIES = ("$is_args", "$args", "$query_string")
USUAL_STALE = {"error", "timeout", "updating", "http_500", "http_503"}
_COOKIE = re.compile(r"\$cookie_(\w+)\Z")


def cached(place: Location, kind: str) -> frozenset[str]:
    """Map the cache directives of a location; return their names, or an empty set if sites cannot express them. `kind`
    is proxy, fastcgi or uwsgi.
    """
    own = [node for node in place.own if node.name in {f"{kind}_{word}" for word in WORDS}]
    if not any(node.name == f"{kind}_cache" and node.value != "off" for node in own):
        return frozenset()
    found, notes = _mapped(place, kind)
    if not found:
        return frozenset()
    place.row |= found
    for node in own:
        note = notes.get(node.name.removeprefix(f"{kind}_"), "")
        place.took(node, "changed" if note else "mapped", note)
    _size(place, kind)
    return frozenset(node.name for node in own)


def _mapped(place: Location, kind: str) -> tuple[LocationData, dict[str, str]]:
    """Return (the location's fields for its caching, notes about differences). The notes are a dict by name of the
    directive, without a prefix such as `proxy_`. Both are empty if sites have no equivalent.
    """
    times = _times(place.chain.effective(f"{kind}_cache_valid"))
    skipped = _skipped(place, kind)
    key = _key(place, kind)
    if not times or skipped is None or key is None:
        return {}, {}
    cookies, queries, keeps_passwords = skipped
    stale = {word for node in place.chain.effective(f"{kind}_cache_use_stale") for word in node.args} - {"off"}
    notes: dict[str, str] = {}
    if keeps_passwords:
        notes["cache"] = "requests with a password bypass the cache"
    if not place.chain.effective(f"{kind}_cache_key"):
        notes["cache"] = "Paddock's cache key also contains the requested host"
    if stale and not stale >= USUAL_STALE:
        notes["cache_use_stale"] = "the web server also serves expired responses for other failures of the application"
    if cookies:
        note = "requests bypass the cache if they have the cookie, even with the value 0"
        notes |= {"cache_bypass": note, "no_cache": note}
    row: LocationData = {"cache_times": times, "cache_skip_cookies": cookies, "cache_skip_queries": queries}
    row |= {"cache_stale": bool(stale), "cache_key": key}
    return row, notes


def _times(nodes: list[Node]) -> list[CacheTimeData]:
    """Return the cache times with their statuses for directives such as proxy_cache_valid. [] if there are no
    directives, or if a time or a status is not supported, such as the status `any`.
    """
    found: list[CacheTimeData] = []
    for node in nodes:
        *codes, time = node.args
        seconds = whole_seconds(time)
        if seconds is None or not all(code.isdigit() for code in codes):
            return []
        found.append({"codes": [int(code) for code in codes] or list(USUAL), "seconds": seconds})
    return [] if fits(shapes.validate_cache_times, found) else found


def _skipped(place: Location, kind: str) -> tuple[list[str], bool, bool] | None:
    """Return the conditions under which requests bypass the cache, as (names of cookies, whether query strings cause a
    bypass, whether requests with a password are cached). None for other conditions, or if cache_bypass and no_cache
    differ.
    """
    lists = [
        {word for node in place.chain.effective(f"{kind}_{name}") for word in node.args}
        for name in ("cache_bypass", "no_cache")
    ]
    if lists[0] != lists[1]:
        return None
    cookies, queries = [], False
    for word in sorted(lists[0] - {"$http_authorization"}):
        if match := _COOKIE.match(word):
            cookies.append(match[1])
        elif word in QUERIES:
            queries = True
        else:
            return None
    return None if fits(shapes.validate_cookies, cookies) else (cookies, queries, "$http_authorization" not in lists[0])


def _key(place: Location, kind: str) -> str | None:
    """Return the cache key of a location; "" for the panel's default, None for an unsupported key."""
    nodes = place.chain.effective(f"{kind}_cache_key")
    key = nodes[-1].value if nodes else ""
    if kind != "proxy":  # the panel's key always begins with the method
        key = key.removeprefix("$request_method")
    if key in ("", "$scheme$host$request_uri"):
        return ""
    return key if place.known([key]) else None


def _size(place: Location, kind: str) -> None:
    """Raise the site's cache size to the maximum size (max_size) of the location's cache zone, unless it is larger."""
    zone = place.chain.one(f"{kind}_cache")
    for node in place.chain.effective(f"{kind}_cache_path"):
        named = [word.partition("=")[2].partition(":")[0] for word in node.args if word.startswith("keys_zone=")]
        sizes = [megabytes(word.partition("=")[2]) for word in node.args if word.startswith("max_size=")]
        if named == [zone] and sizes and sizes[0]:
            place.draft.cache_mb = max(place.draft.cache_mb or 0, sizes[0])
