"""What a location keeps of its backend's answers, as mod_cache keeps it on the disk.

Seen on 2.4.71: the quick handler knows no locations and asks nobody for a password, so it is off; CacheEnable and
CacheDisable cannot stand in <If>, but a request that says no-store is neither answered from what is kept nor kept. The
key is made of the path as rewriting left it, so only a path that is still as it came may use it. mod_cache_socache
keeps nothing that comes in chunks, which is all of PHP's. The folder is the distribution's own, which httpd may
write to.
"""

from __future__ import annotations

from panel.rendering import caching, checks
from panel.rendering.apache.quoting import plain
from panel.rendering.locations import Place
from panel.rendering.spec import Cache, InstallSpec, ServerBlock, SiteSpec
from panel.rendering.tree import Directive, Node, block, directive

PATH = "PADDOCK_PATH"  # an environment variable that rewrite rules set: the path as it came, without its query
DAY_S = 86400
PATH_RULES = (
    directive(
        "RewriteCond", "%{THE_REQUEST}", r"^\S+ (?:https?://[^/?]*)?([^?\s]*)", comment="The path before rewriting"
    ),
    directive("RewriteRule", "^", "-", f"[E={PATH}:%1]"),
)


def of_host(install: InstallSpec, source: ServerBlock) -> list[Node]:
    """What the virtual host says once."""
    if not any(map(caching.caches, source.locations)):
        return []
    root = plain(checks.path(install.cache_dir, "/cache_dir"), "/cache_dir")
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
        directive("CacheMinExpire", seconds),  # of what says nothing itself, also where it has a Last-Modified
        directive("CacheLastModifiedFactor", 0),
        directive("CacheIgnoreNoLastMod", "On"),
        directive("CacheMaxFileSize", spec.cache_mb * 1024 * 1024),
        *([directive("CacheMaxExpire", seconds)] if seconds > DAY_S else []),
        directive("CacheStaleOnError", "On" if found.stale_on_error else "Off"),
        *([directive("CacheHeader", "On")] if found.status_header else []),
        # nginx keeps no answer that sets a cookie, and a visitor does not empty the cache by asking for it.
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
