"""Methods that are refused with the location's headers, and paths that are resolved before a location is chosen."""

from __future__ import annotations

from panel.rendering.spec import ErrorPage, Header, Location, SiteSpec
from tests.suites.conformance.expected_responses import Expected, one
from tests.suites.conformance.world import World

FILES = {
    "refused/a.txt": "a text",
    "refused/page.html": "a page",
    "refused/index.html": "the index",
    "refused/script.php": "<?php echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['REQUEST_URI'];",
}
_END = "host=a.test ip=127.0.0.1 proto=http own=-"


def refused_with_headers(world: World) -> tuple[SiteSpec, list[Expected]]:
    """Only files refuse a method; applications get it."""
    spec = one(
        world,
        "refused-headers",
        Location("~", r"\.txt$", "static", headers=(Header("X-Place", "text"),)),
        Location("", "/app/", "proxy", upstream="app"),
        Location("~", r"\.php$", "php", php_pool="php"),
        headers=(Header("X-One", "block"),),
    )
    block = {"x-one": "block"}
    changing = ("PUT", "DELETE", "PATCH", "OPTIONS")
    return spec, [
        *[Expected("/refused/page.html", 405, headers=block, method=method) for method in (*changing, "POST")],
        *[Expected("/refused/a.txt", 405, headers={**block, "x-place": "text"}, method=m) for m in (*changing, "POST")],
        *[Expected("/app/x", 200, f"{method} /app/x {_END}", method=method) for method in changing],
        *[Expected("/refused/script.php", 200, f"{method} /refused/script.php", method=method) for method in changing],
        *[Expected(path, 405, method="TRACE") for path in ("/app/x", "/refused/script.php", "/refused/a.txt", "/none")],
        Expected("/refused/a.txt", 200, "a text", {**block, "x-place": "text"}),
    ]


def refused_with_a_page(world: World) -> tuple[SiteSpec, list[Expected]]:
    """The page of the refusal is one response and is not refused itself."""
    pages = (ErrorPage((405,), "/refused/page.html"),)
    spec = one(world, "refused-page", headers=(Header("X-One", "block"),), error_pages=pages)
    return spec, [
        Expected("/refused/a.txt", 405, "a page", {"x-one": "block"}, method="PUT"),
        Expected("/refused/a.txt", 200, "a text", {"x-one": "block"}),
        Expected("/refused/a.txt", 405, "a page", {"x-one": "block"}, method="DELETE"),
        Expected("/refused/page.html", 200, "a page"),
    ]


def resolved_paths(world: World) -> tuple[SiteSpec, list[Expected]]:
    """Final dots and fragments; an application gets the path as it came."""
    spec = one(
        world,
        "resolved",
        Location("", "/closed/", "deny"),
        Location("", "/app/", "proxy", upstream="app"),
    )
    return spec, [
        Expected("/refused/.", 200, "the index"),
        Expected("/refused/none/..", 200, "the index"),
        Expected("/refused//none/..?q=1", 200, "the index"),
        Expected("/none/../refused/b/c/../..", 200, "the index"),
        Expected("/closed/a/..", 403),
        Expected("/closed/.", 403),
        Expected("/refused/a.txt/.", 404),
        Expected("/refused/../..", 400),
        Expected("/refused/a.txt#b", 200, otherwise={"apache": 400}),
        Expected("/refused/#b", 200, otherwise={"apache": 400}),
        Expected("/closed/#a", 403, otherwise={"apache": 400}),
        Expected("/app/b/c/..", 200, otherwise={"openlitespeed": 403}),
    ]


SITES = (refused_with_headers, refused_with_a_page, resolved_paths)
