"""What a location keeps of its backend's answers, checked once for all engines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from panel.rendering import checks, handlers, variables
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import Cache, InstallSpec, Location, SiteSpec

USUAL = (200, 301, 302)  # what nginx's `proxy_cache_valid 10m` means
COOKIE = re.compile(r"[A-Za-z0-9_.~-]+\*?\Z")  # of RFC 6265 section 4.1.1 what applications use
KINDS = {"proxy": "proxy", "php": "fastcgi"}  # handler -> what nginx calls its cache
MIN_KEPT_S = 86400  # what nobody asks for in this time is dropped, fresh or not


def caches(source: Location) -> bool:
    return source.cache is not None and source.handler in KINDS


def check(source: Location, at: str) -> Cache:
    """The location's cache when every server could be told of it; engines say what they lack in capabilities."""
    found = source.cache
    assert found is not None
    if not found.valid:
        raise NotExpressible(f"{at}/valid", "sets no status code; use 200 301 302 = 10m")
    for number, item in enumerate(found.valid):
        checks.error_codes(item.codes, f"{at}/valid/{number}/codes", low=200)
        if not 1 <= item.seconds <= 31536000:
            raise NotExpressible(
                f"{at}/valid/{number}/seconds", f"{item.seconds} s is out of range; use 1 s to one year"
            )
    for number, name in enumerate(found.skip_cookies):
        checks.word(name, COOKIE, f"{at}/skip_cookies/{number}", "a cookie name, optionally with * at the end")
    checks.text(found.key, f"{at}/key")
    variables.parse(found.key, f"{at}/key", captures=handlers.captures(source))
    return found


def cookies(found: Cache) -> str:
    """An expression that finds any of the cookies in a Cookie header; "" when there are none."""
    if not found.skip_cookies:
        return ""
    names = [
        name.removesuffix("*").replace(".", r"\.") + ("[^=;]*" if name.endswith("*") else "")
        for name in found.skip_cookies
    ]
    return rf"(?:^|;\s*)(?:{'|'.join(names)})="


def sentence(source: Location) -> str:
    """What is kept and from whom it is kept back, for people."""
    assert source.cache is not None
    times = [f"{' '.join(map(str, item.codes))} for {item.seconds} s" for item in source.cache.valid]
    without = ["a password", *(f"the cookie {name}" for name in source.cache.skip_cookies)]
    without += ["a query"] if source.cache.skip_queries else []
    return f"responses are cached ({', '.join(times)}), except for requests with {', '.join(without)}"


def longest_s(spec: SiteSpec) -> int:
    """How long the site's answers may be kept at most without being asked for."""
    found = [item.seconds for source in locations(spec) if source.cache for item in source.cache.valid]
    return max([MIN_KEPT_S, *found])


def locations(spec: SiteSpec) -> Iterator[Location]:
    """Those that keep answers."""
    yield from (source for block in spec.blocks for source in block.locations if caches(source))


def folders(spec: SiteSpec, install: InstallSpec) -> list[str]:
    """Where nginx and gallop keep the site's answers: one folder for each kind of backend that it caches."""
    if install.engine not in ("nginx", "native"):
        return []
    used = {source.handler for source in locations(spec)}
    return [folder(spec.name, install, kind) for handler, kind in KINDS.items() if handler in used]


def folder(site: str, install: InstallSpec, kind: str) -> str:
    return f"{install.cache_dir.rstrip('/')}/paddock-{site}-{kind}"
