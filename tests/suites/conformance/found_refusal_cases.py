"""Refused methods, statuses of try_files, and folders without an index: OpenLiteSpeed once answered otherwise."""

from __future__ import annotations

from panel.rendering.spec import AccessRule, BasicAuth, ErrorPage, Header, Location, SiteSpec
from tests.suites.conformance.expected_responses import Expected, one
from tests.suites.conformance.sites import PASSWORD
from tests.suites.conformance.world import World

FILES = {
    "shut/a.txt": "shut a",
    "shut/bare/none.txt": "in a folder without an index",
    "shut/source.php": "<?php echo 'run';",
    "shut/nothing.html": "own nothing",
}
_NOBODY = (AccessRule("deny", "127.0.0.1"),)
_HERE = (AccessRule("allow", "127.0.0.1"), AccessRule("deny", "all"))
_PLACE, _BLOCK = (Header("X-Place", "here"),), (Header("X-Place", "block"),)
_OTHERS = ("PUT", "DELETE", "OPTIONS")


def traced_locations(world: World) -> tuple[SiteSpec, list[Expected]]:
    """TRACE is refused with the headers of the block, whatever location the path has."""
    spec = one(
        world,
        "traced-locations",
        Location("^~", "/own/", "static", headers=_PLACE, expires="epoch", access_rules=_NOBODY),
        Location("^~", "/app/", "proxy", upstream="app", headers=_PLACE),
        headers=_BLOCK,
    )
    block = {"x-place": "block", "location": "", "expires": ""}
    paths = ("/shut", "/shut/a.txt", "/own/none", "/none")
    return spec, [
        *(Expected(path, 405, headers=block, method="TRACE") for path in paths),
        Expected("/app/x", 405, headers={"location": "", "expires": ""}, method="TRACE"),
    ]


def traced_folders(world: World) -> tuple[SiteSpec, list[Expected]]:
    """TRACE is refused for a folder too, and not answered with the redirect to its final /."""
    spec = one(world, "traced-folders", Location("^~", "/about", "static", headers=_PLACE))
    return spec, [
        Expected("/shut", 405, headers={"x-place": "", "location": ""}, method="TRACE"),
        Expected("/shut/a.txt", 405, headers={"x-place": ""}, method="TRACE"),
        Expected("/about.html", 405, headers={"location": ""}, method="TRACE"),
        Expected("/shut", 301, headers={"location": f"http://a.test:{world.port}/shut/"}),
    ]


def methods_of_a_protected_fallback(world: World) -> tuple[SiteSpec, list[Expected]]:
    """A fallback that is a file takes GET and HEAD only, also where its request passed access control."""
    spec = one(
        world,
        "methods-of-a-protected-fallback",
        Location("^~", "/plain/", "static", access_rules=_HERE, try_files=("$uri", "/about.html")),
        Location("^~", "/kept/", "static", access_rules=_HERE, try_files=("$uri", "/shut/a.txt"), expires="epoch"),
        Location("^~", "/closed/", "static", access_rules=_NOBODY, try_files=("$uri", "/shut/a.txt")),
        Location("^~", "/text/", "static", access_rules=_HERE, try_files=("$uri", "/shut/source.php?$args")),
        Location("^~", "/locked/", "static", access_rules=_HERE, try_files=("$uri", "/guarded/a.txt")),
        Location("^~", "/guarded/", "static", access_rules=_NOBODY, headers=_PLACE),
        Location("^~", "/shut/", "static", headers=_PLACE),
        Location("~", r"^/run/.*\.php$", "php", php_pool="php"),
    )
    place, none = {"x-place": "here"}, {"x-place": "", "expires": ""}
    return spec, [
        Expected("/plain/none", 200, "about"),
        *(Expected("/plain/none", 405, headers=none, method=method) for method in ("POST", *_OTHERS)),
        Expected("/kept/none", 200, "shut a", place),
        *(Expected("/kept/none", 405, headers=place, method=method) for method in ("POST", *_OTHERS)),
        Expected("/text/none", 200, FILES["shut/source.php"], place),
        *(Expected("/text/none", 405, headers=place, method=method) for method in ("POST", *_OTHERS)),
        Expected("/closed/none", 403, method="PUT"),
        Expected("/locked/none", 403, method="PUT", otherwise={"apache": 405}),
    ]


def methods_of_a_fallback_with_headers(world: World) -> tuple[SiteSpec, list[Expected]]:
    """A refused method has the headers of the fallback's location; POST of a missing file is 404."""
    spec = one(
        world,
        "methods-of-a-fallback-with-headers",
        Location("^~", "/gone/", "static", try_files=("$uri", "/shut/none.txt")),
        Location("^~", "/shut/", "static", headers=_PLACE),
        headers=_BLOCK,
        try_files=("$uri", "/shut/a.txt"),
    )
    place, block = {"x-place": "here"}, {"x-place": "block"}
    return spec, [
        Expected("/none", 200, "shut a", place),
        *(Expected("/none", 405, headers=place, method=method) for method in ("POST", *_OTHERS)),
        *(Expected("/about.html", 405, headers=block, method=method) for method in ("POST", *_OTHERS)),
        Expected("/gone/none", 404, headers=place, method="POST", sent_body="a=1", otherwise={"apache": 405}),
        Expected("/gone/none", 405, headers=place, method="PUT"),
    ]


def statuses_after_access(world: World) -> tuple[SiteSpec, list[Expected]]:
    """A status of try_files comes after access control, and has the location's headers."""
    asked = BasicAuth("Staff", (("ann", PASSWORD),), f"{world.www.removesuffix('/www')}/htpasswd-statuses")
    tries = ("$uri", "=410")
    spec = one(
        world,
        "statuses-after-access",
        Location("", "/", "static", access_rules=_HERE, headers=_PLACE, try_files=("$uri", "$uri/", "=410")),
        Location("^~", "/closed/", "static", access_rules=_NOBODY, try_files=("$uri", "=404")),
        Location("^~", "/asked/", "static", basic_auth=asked, try_files=tries),
        Location("^~", "/sent/", "static", headers=_PLACE, try_files=tries),
        Location("~", r"^/run/.*\.php$", "php", php_pool="php", access_rules=_NOBODY, try_files=("$uri", "=404")),
        Location("~", "^/aliased/(.+)$", "static", alias=f"{world.www}/shut/$1", access_rules=_NOBODY, try_files=tries),
        Location("~", r"\.php$", "php", php_pool="php", headers=_PLACE, try_files=tries),
    )
    place = {"x-place": "here", "location": ""}
    return spec, [
        Expected("/about.html", 200, "about", place),
        Expected("/none", 410, headers=place),
        Expected("/none/.", 410, headers=place, method="DELETE"),
        Expected("/closed/none", 403),
        Expected("/asked/none", 401, headers={"www-authenticate": 'Basic realm="Staff"'}),
        Expected("/sent/none", 410, headers=place),
        Expected("/run/none.php", 403),
        Expected("/aliased/none", 403, otherwise={"apache": 410}),
        Expected("/none.php", 410, headers=place),
    ]


def folders_without_an_index(world: World) -> tuple[SiteSpec, list[Expected]]:
    """A folder without an index file is forbidden, and has the headers of its location but no expiry time."""
    spec = one(
        world,
        "folders-without-an-index",
        Location("^~", "/shut/bare/", "static", headers=_PLACE, expires="epoch"),
        Location("^~", "/docs/", "static", autoindex=True),
        Location("^~", "/closed/", "static", alias=f"{world.www}/shut/", access_rules=_HERE, headers=_PLACE),
        Location("=", "/shut/nothing.html", "static"),
        error_pages=(ErrorPage((404,), "/shut/nothing.html"),),
    )
    none = {"expires": "", "x-place": "here"}
    return spec, [
        Expected("/shut/", 403, headers={"x-place": ""}),
        Expected("/shut/bare/", 403, headers=none),
        Expected("/shut/bare/", 405, headers=none, method="PUT"),
        Expected("/closed/", 403, headers={"x-place": "here"}),
        Expected("/closed/bare/", 403, headers={"x-place": "here"}),
        Expected("/none/", 404, "own nothing"),
        Expected("/shut/none/", 404, "own nothing"),
    ]


SITES = (
    traced_locations,
    traced_folders,
    methods_of_a_protected_fallback,
    methods_of_a_fallback_with_headers,
    statuses_after_access,
    folders_without_an_index,
)
