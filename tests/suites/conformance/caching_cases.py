"""What is kept of a backend's answers, for how long, and from whom: the backend counts how often it is asked."""

from __future__ import annotations

from panel.rendering.spec import Cache, CacheTime, Header, Location, SiteSpec
from tests.suites.conformance.expected_responses import Expected, one
from tests.suites.conformance.world import World

HOUR = (CacheTime((200, 301), 3600),)


def kept(path: str, times: int, **more: object) -> Expected:
    """`times`: how often the backend had been asked when it gave this answer."""
    return Expected(path, 200, f"{path} {times}", **more)  # type: ignore[arg-type]


def proxied(world: World) -> tuple[SiteSpec, list[Expected]]:
    """A second visitor gets what the first one's request left, unless one of them or the application says otherwise."""
    cache = Cache(HOUR, skip_cookies=("session", "logged_in_*"))
    spec = one(
        world,
        "kept",
        Location("", "/", "proxy", upstream="app", cache=cache),
        Location("", "/open/", "proxy", upstream="app"),
        Location("", "/plain/", "proxy", upstream="app", cache=Cache(HOUR, skip_queries=True, status_header=True)),
    )
    return spec, [
        *(kept("/counted/a", 1) for _ in range(3)),
        kept("/counted/a", 1, sent={"Cookie": "other=1; sessions=2"}),
        kept("/counted/a", 1, sent={"Cache-Control": "no-cache", "Pragma": "no-cache"}),
        kept("/counted/a", 2, sent={"Cookie": "other=1; session=2"}),
        kept("/counted/a", 3, sent={"Cookie": "logged_in_af31=x"}),
        kept("/counted/a", 4, sent={"Authorization": "Basic eDp5"}),
        kept("/counted/a", 1),
        Expected("/counted/a", 200, "", method="HEAD"),
        kept("/counted/a", 1),
        *(kept("/counted/fresh?q=1", 1) for _ in range(2)),
        kept("/counted/fresh?q=2", 1),
        *(kept("/counted/cookie", times) for times in (1, 2)),
        *(kept("/counted/no-store", times) for times in (1, 2)),
        *(kept("/counted/private", times) for times in (1, 2)),
        *(kept("/open/counted/b", times) for times in (1, 2)),
        *(kept("/plain/counted?q=1", times) for times in (1, 2)),
        *(kept("/plain/counted", 1) for _ in range(2)),
    ]


def expired(world: World) -> tuple[SiteSpec, list[Expected]]:
    """What is too old is asked for again; where the application then fails, the old answer is better than none."""
    short = (CacheTime((200, 301), 1),)
    spec = one(
        world,
        "expired",
        Location("", "/", "proxy", upstream="app", cache=Cache(short)),
        Location("", "/strict/", "proxy", upstream="app", cache=Cache(short, stale_on_error=False)),
        Location("", "/pause", "proxy", upstream="app"),
    )
    return spec, [
        kept("/counted/old", 1),
        kept("/counted/old/fresh", 1),
        kept("/counted/old/fails", 1),
        kept("/strict/counted/fails", 1),
        Expected("/pause", 200),
        kept("/counted/old", 2),
        kept("/counted/old/fresh", 1),
        kept("/counted/old/fails", 1),
        Expected("/strict/counted/fails", 503),
    ]


def of_php(world: World) -> tuple[SiteSpec, list[Expected]]:
    """A script's answers, for which it asks the counting backend; what HEAD leaves does not answer GET."""
    cache, path = Cache(HOUR, skip_cookies=("session",), key="$host$request_uri"), "/counting/index.php"
    ask = (Header("X-Ask", world.backend),)
    spec = one(world, "kept-php", Location("~", r"\.php$", "php", php_pool="php", cache=cache, request_headers=ask))
    return spec, [
        Expected(path, 200, "", method="HEAD"),
        *(Expected(path, 200, "/counted/php 2") for _ in range(2)),
        Expected(path, 200, "/counted/php 3", sent={"Cookie": "session=1"}),
        Expected(path, 200, "/counted/php 2"),
    ]


FILES = {"counting/index.php": "<?php echo file_get_contents('http://' . $_SERVER['HTTP_X_ASK'] . '/counted/php');"}
SITES = (proxied, expired, of_php)
