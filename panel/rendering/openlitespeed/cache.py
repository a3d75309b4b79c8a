"""Render response caching of a location: rewrite rules tell the cache module what to cache, and for how long.

Source: LiteSpeed's developer guide of LSCache (rewrite rules: E=Cache-Control) and src/modules/cache.
"""

from __future__ import annotations

from panel.rendering import caching
from panel.rendering.apache import rewriting
from panel.rendering.exclusive import Condition
from panel.rendering.locations import Locations, Place
from panel.rendering.spec import SiteSpec
from panel.rendering.tree import Directive, Node, block, directive

ASIDE = "PADDOCK_ASIDE"


def module(spec: SiteSpec, found: Locations) -> list[Node]:
    """Return the block of the virtual host for the cache module, which caches only what a rewrite rule selects; []
    without caching.
    """
    if not any(caching.caches(place.location) for place in found.places):
        return []
    stale = any(source.cache.stale_on_error for source in caching.locations(spec) if source.cache)
    body = [
        directive("ls_enabled", 1),
        directive("enableCache", 0),
        directive("checkPublicCache", 1),
        directive("checkPrivateCache", 0),
        directive("enablePrivateCache", 0),
        directive("qsCache", 1),
        directive("reqCookieCache", 1),
        directive("respCookieCache", 0, comment="responses that set a cookie are not cached"),
        directive("ignoreReqCacheCtrl", 1),
        directive("ignoreRespCacheCtrl", 0),
        directive("maxStaleAge", 200 if stale else 0),
    ]
    return [block("module", "cache", body=body)]


def cached(place: Place, condition: Condition) -> list[Directive]:
    """Return rewrite rules that set the variable Cache-Control for cacheable requests of a location; [] without
    caching. Rules after them still run.
    """
    source = place.location
    if not caching.caches(source):
        return []
    found = caching.check(source, f"{place.pointer}/cache")
    aside = [("%{HTTP:Authorization}", "!^$")]
    if found.skip_queries:
        aside.append(("%{QUERY_STRING}", "!^$"))
    if pattern := caching.cookies(found):
        aside.append(("%{HTTP_COOKIE}", pattern))
    # These rules look for responses of a kind that is never stored. Otherwise such requests could get a cached response
    # of another kind, whatever other rules specify (checkAssignHandler in cache.cpp).
    rules: list[Directive] = []
    for test in aside:
        rules += rewriting.rule(condition, [test], "-", f"[E=Cache-Control:vary=aside,E={ASIDE}:1]", place.pointer)
    keeps = [("%{REQUEST_METHOD}", "^(?:GET|HEAD)$"), (f"%{{ENV:{ASIDE}}}", "!^1$")]
    flags = f"[E=Cache-Control:max-age={found.valid[0].seconds}]"
    return [*rules, *rewriting.rule(condition, keeps, "-", flags, place.pointer)]
