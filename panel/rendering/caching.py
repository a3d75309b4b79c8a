"""Checks and descriptions of a location's response caching, shared by all engines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from panel.rendering import checks, handlers, variables
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import Cache, Location, SiteSpec, WebServerSpec

USUAL = (200, 301, 302)  # the default of nginx's `proxy_cache_valid 10m`
COOKIE = re.compile(r"[A-Za-z0-9_.~-]+\*?\Z")  # subset of RFC 6265 section 4.1.1 that applications use
KINDS = ("proxy", "fastcgi", "uwsgi")  # directive prefixes of nginx's modules that cache
_OF_PROTOCOL = {"http": "proxy", "uwsgi": "uwsgi"}
MIN_KEPT_S = 86400  # responses not requested for this long are deleted, fresh or not


def caches(source: Location) -> bool:
    return source.cache is not None and bool(kind(source))


def kind(source: Location) -> str:
    """Return the prefix of nginx's caching directives for the location, for example "fastcgi"; "" if its handler's
    responses cannot be cached.
    """
    if source.handler == "php":
        return "fastcgi"
    return _OF_PROTOCOL.get(source.upstream_protocol, "") if source.handler == "proxy" else ""


def check(source: Location, at: str) -> Cache:
    """Return the location's cache settings; raise NotExpressible for a value that no web server can express.

    The module `capabilities` reports the limits of each engine.
    """
    found = source.cache
    assert found is not None
    if not found.valid:
        raise NotExpressible(f"{at}/valid", "response caching has no status code; use, for example, 200 301 302 = 10m")
    for number, item in enumerate(found.valid):
        checks.error_codes(item.codes, f"{at}/valid/{number}/codes", low=200)
        if not 1 <= item.seconds <= 31536000:
            raise NotExpressible(
                f"{at}/valid/{number}/seconds", f"{item.seconds} s is not a possible caching time; use 1 s to one year"
            )
    for number, name in enumerate(found.skip_cookies):
        checks.word(name, COOKIE, f"{at}/skip_cookies/{number}", "a cookie name, optionally with * at the end")
    checks.text(found.key, f"{at}/key")
    variables.parse(found.key, f"{at}/key", captures=handlers.captures(source))
    return found


def cookies(found: Cache) -> str:
    """Return a regular expression that finds any of the cookies in a Cookie header; "" without cookies."""
    if not found.skip_cookies:
        return ""
    names = [
        name.removesuffix("*").replace(".", r"\.") + ("[^=;]*" if name.endswith("*") else "")
        for name in found.skip_cookies
    ]
    return rf"(?:^|;\s*)(?:{'|'.join(names)})="


def sentence(source: Location) -> str:
    """Return a sentence for people about the responses that the location caches, and the exceptions."""
    assert source.cache is not None
    times = [f"{' '.join(map(str, item.codes))} for {item.seconds} s" for item in source.cache.valid]
    without = ["a password", *(f"the cookie {name}" for name in source.cache.skip_cookies)]
    without += ["a query"] if source.cache.skip_queries else []
    return f"the web server caches responses ({', '.join(times)}), except for requests with {', '.join(without)}"


def longest_s(spec: SiteSpec) -> int:
    """Return the time in seconds after which the web server deletes a response of the site that nobody requested: the
    longest cache time, at least a day.
    """
    found = [item.seconds for source in locations(spec) if source.cache for item in source.cache.valid]
    return max([MIN_KEPT_S, *found])


def locations(spec: SiteSpec) -> Iterator[Location]:
    """Yield the site's locations with response caching."""
    yield from (source for block in spec.blocks for source in block.locations if caches(source))


def can_be_cleared(engine: str) -> bool:
    """Return whether the agent can delete the server's cached responses. False for OpenLiteSpeed: the paths of its
    cache files are not known.
    """
    return engine in ("nginx", "native", "apache")


def folders(spec: SiteSpec, web_server: WebServerSpec) -> list[str]:
    """Return the folders that hold the site's cached responses; none on a server whose cache cannot be cleared.

    nginx and gallop have one folder for each of proxy, fastcgi and uwsgi, Apache has one for all sites.
    """
    if web_server.engine == "apache":
        return [web_server.cache_dir]
    if not can_be_cleared(web_server.engine):
        return []
    used = {kind(source) for source in locations(spec)}
    return [folder(spec.name, web_server, name) for name in KINDS if name in used]


def folder(site: str, web_server: WebServerSpec, kind: str) -> str:
    return f"{web_server.cache_dir.rstrip('/')}/paddock-{site}-{kind}"
