"""Render response caching of a location in nginx's directives.

Each site has its own cache zone for each kind of backend (proxy, fastcgi, uwsgi), so the size and the purging of a zone
affect no other site.
"""

from __future__ import annotations

from panel.rendering import caching, handlers
from panel.rendering.locations import Place
from panel.rendering.nginx.quoting import no_variables
from panel.rendering.nginx.scope import Scope
from panel.rendering.spec import Cache
from panel.rendering.tree import Node, block, directive

STATUS = "X-Cache"
KEYS_MB = 10  # memory for the cache keys of about 80,000 responses
STALE = ("error", "timeout", "updating", "http_500", "http_503")
GATEWAYS = ("http_502", "http_504")  # only of HTTP upstreams
_KEY = "$scheme$host$request_uri"


def cached(scope: Scope, place: Place) -> list[Node]:
    source = place.location
    if not caching.caches(source):
        return []
    at, kind = f"{place.pointer}/cache", caching.kind(source)
    found = caching.check(source, at)
    lines: list[Node] = [
        directive(f"{kind}_cache", _zone(scope, kind), gap=True),
        directive(f"{kind}_cache_key", _key(scope, place, found, kind)),
    ]
    for item in found.valid:
        lines.append(directive(f"{kind}_cache_valid", *item.codes, f"{item.seconds}s"))
    if found.stale_on_error:
        lines.append(directive(f"{kind}_cache_use_stale", *STALE, *(GATEWAYS if kind == "proxy" else ())))
    if skipped := _skipped(scope, found, at):
        lines += [directive(f"{kind}_cache_bypass", *skipped), directive(f"{kind}_no_cache", *skipped)]
    return lines


def _zone(scope: Scope, kind: str) -> str:
    """Return the name of the site's cache zone for a kind of backend; the first call adds the directive of the zone to
    `scope`.
    """
    name = scope.name(kind)
    if name not in scope.caches:
        folder = no_variables(caching.folder(scope.spec.name, scope.web_server, kind), "/cache_dir")
        scope.caches[name] = directive(
            f"{kind}_cache_path",
            folder,
            "levels=1:2",
            f"keys_zone={name}:{KEYS_MB}m",
            f"max_size={scope.spec.cache_mb}m",
            f"inactive={caching.longest_s(scope.spec)}s",
            "use_temp_path=off",
        )
    return name


def _key(scope: Scope, place: Place, found: Cache, kind: str) -> str:
    """Return the cache key of a location.

    nginx turns HEAD into GET for HTTP upstreams only. For other backends the key contains the request method, so that
    the empty response to HEAD is never sent for GET.
    """
    field = f"{place.pointer}/cache/key"
    own = scope.dollars.complex(found.key, field, handlers.captures(place.location)) if found.key else _KEY
    return own if kind == "proxy" else f"$request_method{own}"


def _skipped(scope: Scope, found: Cache, at: str) -> list[str]:
    words = ["$http_authorization"]
    if found.skip_queries:
        words.append("$is_args")
    if pattern := caching.cookies(found):
        numbers = "_".join(part for part in at.split("/") if part.isdigit())
        variable = scope.variable(f"skip_{numbers}")
        body = [directive("default", 0), directive(f"~{pattern}", 1)]
        scope.maps.append(block("map", "$http_cookie", f"${variable}", body=body))
        words.append(f"${variable}")
    return words
