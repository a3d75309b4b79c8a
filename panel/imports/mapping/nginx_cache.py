"""What a location keeps of its backend's answers: proxy_cache and fastcgi_cache with all that belongs to them. Whole,
or not at all: what the model cannot say stays raw together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from panel.imports.mapping.common import fits, megabytes, whole_seconds
from panel.imports.reading import Node
from panel.rendering.caching import USUAL
from panel.websites import shapes

if TYPE_CHECKING:
    from panel.imports.mapping.nginx_location import Location

WORDS = ("cache", "cache_valid", "cache_key", "cache_use_stale", "cache_bypass", "no_cache")
QUERIES = ("$is_args", "$args", "$query_string")
USUAL_STALE = {"error", "timeout", "updating", "http_500", "http_503"}
_COOKIE = re.compile(r"\$cookie_(\w+)\Z")


def cached(place: Location, kind: str) -> frozenset[str]:
    """`kind` is proxy or fastcgi. The directives that were taken; none where the model cannot say them."""
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


def _mapped(place: Location, kind: str) -> tuple[dict[str, Any], dict[str, str]]:
    """What the model says of it, and what it says otherwise, by directive; nothing where it has no words."""
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
        notes["cache_use_stale"] = "expired responses are also served for other failures of the application"
    if cookies:
        note = "a cookie counts if it exists, even with the value 0"
        notes |= {"cache_bypass": note, "no_cache": note}
    row = {"cache_times": times, "cache_skip_cookies": cookies, "cache_skip_queries": queries}
    return row | {"cache_stale": bool(stale), "cache_key": key}, notes


def _times(nodes: list[Node]) -> list[dict[str, Any]]:
    """Each with its statuses; [] where one names `any`, or nothing says how long."""
    found: list[dict[str, Any]] = []
    for node in nodes:
        *codes, time = node.args
        seconds = whole_seconds(time)
        if seconds is None or not all(code.isdigit() for code in codes):
            return []
        found.append({"codes": [int(code) for code in codes] or list(USUAL), "seconds": seconds})
    return [] if fits(shapes.validate_cache_times, found) else found


def _skipped(place: Location, kind: str) -> tuple[list[str], bool, bool] | None:
    """(cookies, whether queries count, whether a password does not); None for other conditions, or two lists that are
    not alike."""
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
    """ "" for the panel's own; None for what the model does not know."""
    nodes = place.chain.effective(f"{kind}_cache_key")
    key = nodes[-1].value if nodes else ""
    if kind == "fastcgi":  # the panel's begins with the method in any case
        key = key.removeprefix("$request_method")
    if key in ("", "$scheme$host$request_uri"):
        return ""
    return key if place.known([key]) else None


def _size(place: Location, kind: str) -> None:
    """The largest zone that the site's locations name is the site's size."""
    zone = place.chain.one(f"{kind}_cache")
    for node in place.chain.effective(f"{kind}_cache_path"):
        named = [word.partition("=")[2].partition(":")[0] for word in node.args if word.startswith("keys_zone=")]
        sizes = [megabytes(word.partition("=")[2]) for word in node.args if word.startswith("max_size=")]
        if named == [zone] and sizes and sizes[0]:
            place.draft.cache_mb = max(place.draft.cache_mb or 0, sizes[0])
