"""Render response caching of a location with mod_cache on disk.

Observed on 2.4.71: The quick handler ignores locations and passwords, so it is off. CacheEnable and CacheDisable are
not allowed in <If>. So requests that must bypass the cache get the request header `Cache-Control: no-store`, with which
mod_cache neither serves nor stores a response. The cache key uses the rewritten path, so requests whose path a rule has
rewritten bypass the cache. mod_cache_socache stores no chunked responses, which includes all PHP responses, so the
cache is on disk. Its folder is the distribution's own, because httpd can write to this folder.
"""

from __future__ import annotations

from panel.rendering import caching, checks
from panel.rendering.apache.quoting import plain
from panel.rendering.locations import Place
from panel.rendering.spec import Cache, ServerBlock, SiteSpec, WebServerSpec
from panel.rendering.tree import Directive, Node, block, directive

PATH = "PADDOCK_PATH"  # environment variable set by rewrite rules: the original path without its query
DAY_S = 86400
PATH_RULES = (
    directive(
        "RewriteCond", "%{THE_REQUEST}", r"^\S+ (?:https?://[^/?]*)?([^?\s]*)", comment="The path before rewriting"
    ),
    directive("RewriteRule", "^", "-", f"[E={PATH}:%1]"),
)


def of_host(web_server: WebServerSpec, source: ServerBlock) -> list[Node]:
    """Return the cache directives for a whole virtual host; an empty list if no location has response caching."""
    if not any(map(caching.caches, source.locations)):
        return []
    root = plain(checks.path(web_server.cache_dir, "/cache_dir"), "/cache_dir")
    return [directive("CacheQuickHandler", "Off", gap=True), directive("CacheRoot", root)]


def path_rules(source: ServerBlock) -> tuple[Directive, ...]:
    return PATH_RULES if any(map(caching.caches, source.locations)) else ()


def of_place(spec: SiteSpec, place: Place) -> list[Node]:
    source = place.location
    if not caching.caches(source):
        return []
    found = caching.check(source, f"{place.pointer}/cache")
    seconds = found.valid[0].seconds
    lines: list[Node] = [
        directive("CacheEnable", "disk"),
        directive("CacheDefaultExpire", seconds),
        directive("CacheMinExpire", seconds),  # for responses without an expiry time, even with Last-Modified
        directive("CacheLastModifiedFactor", 0),
        directive("CacheIgnoreNoLastMod", "On"),
        directive("CacheMaxFileSize", spec.cache_mb * 1024 * 1024),
        *([directive("CacheMaxExpire", seconds)] if seconds > DAY_S else []),
        directive("CacheStaleOnError", "On" if found.stale_on_error else "Off"),
        *([directive("CacheHeader", "On")] if found.status_header else []),
        # As in nginx, responses that set a cookie are not cached, and a visitor's request cannot bypass the cache.
        directive("Header", "onsuccess", "merge", "Cache-Control", "private", "expr=-n resp('Set-Cookie')"),
        directive("RequestHeader", "unset", "Cache-Control"),
        directive("RequestHeader", "unset", "Pragma"),
    ]
    skip = [directive("RequestHeader", "set", "Cache-Control", "no-cache, no-store")]
    return [*lines, block("If", _skipped(found), body=skip, gap=False)]


def _skipped(found: Cache) -> str:
    tests = [f"reqenv('{PATH}') != %{{REQUEST_URI}}", "-n req_novary('Authorization')"]
    if found.skip_queries:
        tests.append("-n %{QUERY_STRING}")
    if pattern := caching.cookies(found):
        tests.append(f"req_novary('Cookie') =~ /{pattern}/")
    return " || ".join(tests)
