"""Scripts, fixed responses and index files, as OpenLiteSpeed once answered them otherwise."""

from __future__ import annotations

from panel.rendering.spec import AccessRule, ErrorPage, Header, Location, SiteSpec
from tests.suites.conformance.expected_responses import Expected, one
from tests.suites.conformance.world import World

_SCRIPT = "<?php echo 'ran ', basename(__FILE__);"
FILES = {
    "stored/x.php": _SCRIPT,
    "stored/folder.php/a.txt": "in a folder",
    "stored/folder.php/index.php": _SCRIPT,
    "stored/index.php": _SCRIPT,
    "missing.html": "own page",
    "missing.php": "<?php http_response_code(404); echo 'own script';",
}
_PHP = Location("~", r"\.php$", "php", php_pool="php")
_PLACE = (Header("X-Place", "here"),)


def scripts_as_files(world: World) -> tuple[SiteSpec, list[Expected]]:
    """A script outside of PHP's locations is a file; the index file of a folder and a fallback still run."""
    spec = one(
        world,
        "scripts-as-files",
        Location("^~", "/stored/", "static", headers=_PLACE, try_files=("$uri", "$uri/", "=404")),
        Location("", "/", "static", index=("index.php",), try_files=("$uri", "$uri/", "/stored/x.php?$args")),
        Location("=", "/missing.html", "static"),
        Location("~", r"^/found/.*\.php$", "php", php_pool="php"),
        error_pages=(ErrorPage((404,), "/missing.html"),),
    )
    plain = {"content-type": "application/octet-stream", "x-place": "here"}
    return spec, [
        Expected("/stored/x.php", 200, _SCRIPT, plain),
        Expected("/stored/x.php", 405, method="POST", sent_body="a=1"),
        Expected("/stored/x.php/info", 404, "own page", {"content-type": "text/html"}),
        Expected("/stored/none.php", 404, "own page", {"content-type": "text/html"}),
        Expected("/stored/folder.php/a.txt", 200, "in a folder", {"content-type": "text/plain"}),
        Expected("/nothing", 200, _SCRIPT, plain),
        Expected("/found/index.php", 200, "GET /found/index.php"),
    ]


def scripts_of_error_pages(world: World) -> tuple[SiteSpec, list[Expected]]:
    """An error page that is a script runs, whatever was asked for."""
    spec = one(
        world,
        "scripts-of-error-pages",
        Location("^~", "/stored/", "static"),
        _PHP,
        error_pages=(ErrorPage((404,), "/missing.php"),),
    )
    return spec, [Expected("/stored/none.txt", 404, "own script"), Expected("/none", 404, "own script")]


def index_files_with_access_rules(world: World) -> tuple[SiteSpec, list[Expected]]:
    """The access rules of a script's own location hold for the folder whose index file the script is."""
    closed = (AccessRule("deny", "all"),)
    spec = one(
        world,
        "index-access",
        Location("", "/", "static", index=("index.php",)),
        Location("~", r"\.php$", "php", php_pool="php", access_rules=closed),
    )
    return spec, [Expected("/stored/index.php", 403), Expected("/stored/", 403), Expected("/stored/?q=1", 403)]


def fixed_texts(world: World) -> tuple[SiteSpec, list[Expected]]:
    """An error response has its text and its headers; a redirect with a capture has its headers."""
    spec = one(
        world,
        "fixed-texts",
        Location("=", "/gone", "return", return_code=410, return_value="It's gone.", headers=_PLACE),
        Location("=", "/closed", "return", return_code=403, return_value="closed"),
        Location("~", "^/old/(.*)$", "return", return_code=301, return_value="/new/$1", headers=_PLACE),
        Location("", "/moved/", "return", return_code=302, return_value="https://x.test/?u=$uri", headers=_PLACE),
    )
    text, port = {"content-type": "text/plain"}, world.port
    return spec, [
        Expected("/gone", 410, "It's gone.", text | {"x-place": "here"}),
        Expected("/closed", 403, "closed", text),
        Expected("/closed", 403, "closed", text, method="POST", sent_body="a=1"),
        Expected("/old/a/b", 301, headers={"location": f"http://a.test:{port}/new/a/b", "x-place": "here"}),
        Expected("/moved/./a", 302, headers={"location": "https://x.test/?u=/moved/a", "x-place": "here"}),
    ]


SITES = (scripts_as_files, scripts_of_error_pages, index_files_with_access_rules, fixed_texts)
