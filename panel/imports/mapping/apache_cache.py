"""Map the response caching of an Apache virtual host: mod_cache's directives, completely or not at all.

With CacheIgnoreNoLastMod on, mod_cache stores responses without an expiry time for CacheDefaultExpire; otherwise it
does not store such responses. A site always stores such responses, so only configurations with CacheIgnoreNoLastMod on
are mapped.
"""

from __future__ import annotations

from panel.imports.mapping.apache_made import Host
from panel.imports.mapping.common import fits
from panel.imports.reading import Node
from panel.rendering.caching import USUAL
from panel.websites import shapes
from panel.websites.definitions import CacheTimeData, LocationData

DEFAULT_S, LONGEST_S = 3600, 86400  # defaults of CacheDefaultExpire and CacheMaxExpire
OWN = "Paddock chooses the cache folder"
NOTES = {
    "cacheenable": "the web server does not cache responses that set a cookie or belong to a request with a password",
    "cachedefaultexpire": "this caching time also applies to responses that only have a modification date",
    "cacheroot": OWN,
    "cachedirlevels": OWN,
    "cachedirlength": OWN,
    "cachequickhandler": "the web server checks access rules before the cache",
    "cachelock": "the web server does not combine concurrent requests for an uncached response",
    "cachelockpath": "",
    "cachelockmaxage": "",
    "cachelastmodifiedfactor": "",
    "cachemaxexpire": "",
    "cacheminexpire": "",
    "cacheignorenolastmod": "",
    "cachestaleonerror": "",
    "cacheheader": "",
}
# Directives that change which responses are stored, without an equivalent in the model.
OTHERS = (
    "cachedisable", "cachestoreprivate", "cachestorenostore", "cachestoreexpired", "cacheignorecachecontrol",
    "cacheignorequerystring", "cacheignoreheaders", "cacheignoreurlsessionidentifiers", "cachedetailheader",
    "cachekeybaseurl", "cachemaxfilesize", "cacheminfilesize", "cachereadsize", "cachereadtime",
)  # fmt: skip
WORDS = frozenset((*NOTES, *OTHERS))
MISFIT = "sites support only fixed caching times, not the rules of these directives"


def taken(made: Host, node: Node) -> str | None:
    """Map one caching directive of a virtual host. Return "" if mapped, "!note" if the site caches slightly
    differently, or the reason to keep the directive as a raw directive. The first call for a virtual host maps all of
    its caching directives.
    """
    if made.caching is None:
        made.caching = _whole(made)
    if made.caching:
        return made.caching
    note = NOTES[node.low]
    return f"!{note}" if note else ""


def _whole(made: Host) -> str:
    """Set the response caching of all locations of a virtual host. Return "", or the reason if sites cannot express the
    caching directives.
    """
    said = {node.low: node for node in made.own if node.low in WORDS}
    enabled = [node for node in made.own if node.low == "cacheenable"]
    seconds = _seconds(said)
    if set(said) & set(OTHERS) or len(enabled) != 1 or len(enabled[0].args) != 2 or seconds is None:
        return MISFIT
    kind, path = enabled[0].args
    rows = [row for row in made.block["locations"] if row["handler"] in ("proxy", "php")]
    if kind not in ("disk", "socache") or not rows or not all(_is_within(row, path) for row in rows):
        return "sites support caching only for whole locations that pass requests on"
    times: list[CacheTimeData] = [{"codes": list(USUAL), "seconds": seconds}]
    if why := fits(shapes.validate_cache_times, times):
        return why
    for row in rows:
        row |= {"cache_times": times, "cache_stale": _is_on(said, "cachestaleonerror", default=True)}
        row["cache_header"] = _is_on(said, "cacheheader", default=False)
    return ""


def _seconds(said: dict[str, Node]) -> int | None:
    """Return CacheDefaultExpire: the time in seconds for which responses without an expiry time are cached. None if
    CacheIgnoreNoLastMod is off, so that no such responses are cached, or if the time is not between CacheMinExpire and
    CacheMaxExpire.
    """
    numbers: dict[str, int] = {}
    for name, usual in (("cachedefaultexpire", DEFAULT_S), ("cachemaxexpire", LONGEST_S), ("cacheminexpire", 0)):
        value = said[name].value if name in said else str(usual)
        if not value.isdigit():
            return None
        numbers[name] = int(value)
    seconds = numbers["cachedefaultexpire"]
    fitting = numbers["cacheminexpire"] <= seconds <= numbers["cachemaxexpire"]
    return seconds if fitting and _is_on(said, "cacheignorenolastmod", default=False) else None


def _is_on(said: dict[str, Node], name: str, *, default: bool) -> bool:
    return said[name].value.lower() == "on" if name in said else default


def _is_within(row: LocationData, path: str) -> bool:
    """Return whether all paths of the location begin with `path`. Regular expressions are not analyzed: for such a
    location, True only if `path` is /.
    """
    return path == "/" or (row["match"] in ("", "=", "^~") and str(row["pattern"]).startswith(path))
