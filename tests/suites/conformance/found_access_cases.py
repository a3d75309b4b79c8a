"""Access control, methods and folders' redirects, as OpenLiteSpeed once answered them otherwise."""

from __future__ import annotations

from panel.rendering.spec import AccessRule, ErrorPage, Header, Location, Rewrite, SiteSpec
from tests.suites.conformance.expected_responses import Expected, one
from tests.suites.conformance.world import World

FILES = {
    "kept/a.txt": "kept a",
    "kept/below/index.html": "kept below",
    "kept/of us/index.html": "kept of us",
    "refused.html": "own refusal",
}
_NOBODY = (AccessRule("deny", "127.0.0.1"),)
_HERE = (AccessRule("allow", "127.0.0.1"), AccessRule("deny", "all"))
_PLACE = (Header("X-Place", "here"),)
_METHODS = ("POST", "PUT", "DELETE", "OPTIONS")


def folders_with_headers(world: World) -> tuple[SiteSpec, list[Expected]]:
    """The redirect to a folder has the block's headers, the listener's port, and an encoded path."""
    spec = one(world, "folders", Location("~", "^/kept/b", "static", expires="epoch"), headers=_PLACE)
    where = f"http://a.test:{world.port}"
    return spec, [
        Expected("/kept", 301, headers={"location": f"{where}/kept/", "x-place": "here"}),
        Expected("/kept?a=%20", 301, headers={"location": f"{where}/kept/?a=%20", "x-place": "here"}),
        Expected("/kept", 301, method="POST", sent_body="a=1", otherwise={"apache": 405}),
        Expected("/kept", 405, headers={"x-place": "here"}, method="PUT"),
        Expected("/kept/of%20us", 301, headers={"location": f"{where}/kept/of%20us/", "x-place": "here"}),
        Expected("/kept/below", 301, headers={"location": f"{where}/kept/below/", "x-place": "here"}),
        Expected("/./paddock/folder", 404),
    ]


def methods_after_access(world: World) -> tuple[SiteSpec, list[Expected]]:
    """Access control comes before methods, folders and missing files."""
    spec = one(
        world,
        "methods-after-access",
        Location("", "/", "static", access_rules=_HERE, headers=_PLACE),
        Location("^~", "/kept/", "static", access_rules=_NOBODY, headers=_PLACE),
    )
    place = {"x-place": "here"}
    return spec, [
        *(Expected("/about.html", 405, headers=place, method=method) for method in _METHODS),
        *(Expected("/kept/a.txt", 403, headers=place, method=method, otherwise={"apache": 405}) for method in _METHODS),
        Expected("/about.html", 200, "about", place),
        Expected("/kept", 301, headers={"location": f"http://a.test:{world.port}/kept/", "x-place": "here"}),
        Expected("/kept/below", 403, headers=place),
        Expected("/kept/a.txt%3Fb", 403, headers=place),
        Expected("/a.txt%3Fb", 404, headers=place),
    ]


def errors_without_expiry_times(world: World) -> tuple[SiteSpec, list[Expected]]:
    """A past expiry time is of files, and of no error."""
    spec = one(
        world,
        "errors-without-times",
        Location("", "/", "static", expires="epoch"),
        Location("~", r"\.txt$", "static", expires="-1", access_rules=_HERE, headers=_PLACE),
    )
    never, none = {"cache-control": "no-cache"}, {"expires": ""}
    return spec, [
        Expected("/about.html", 200, "about", never),
        Expected("/none.html", 404, headers=none),
        Expected("/about.html", 405, headers=none, method="POST", sent_body="a=1"),
        Expected("/kept/a.txt", 200, "kept a", never | {"x-place": "here"}),
        Expected("/kept/none.txt", 404, headers=none | {"x-place": "here"}),
        Expected("/kept/a.txt", 405, headers=none | {"x-place": "here"}, method="DELETE"),
    ]


def pages_of_applications(world: World) -> tuple[SiteSpec, list[Expected]]:
    """A refusal in front of an application has the site's page, once."""
    spec = one(
        world,
        "pages-of-applications",
        Location("", "/", "proxy", upstream="app", access_rules=_NOBODY),
        Location("=", "/refused.html", "static"),
        Location("", "/kept/", "static"),
        error_pages=(ErrorPage((403,), "/refused.html"),),
    )
    return spec, [
        Expected("/x", 403, "own refusal"),
        Expected("/kept/a.txt", 200, "kept a"),
        Expected("/about.html", 403, "own refusal", method="POST", sent_body="a=1"),
        Expected("/kept/a.txt", 200, "kept a"),
    ]


def fallback_to_the_same_location(world: World) -> tuple[SiteSpec, list[Expected]]:
    """The fallback of a protected location may be a file of the same location, as of an application of one page."""
    spec = one(
        world,
        "fallback-to-the-same-location",
        Location("", "/", "static", access_rules=_HERE, try_files=("$uri", "/about.html")),
        Location("^~", "/kept/", "static", access_rules=_NOBODY, try_files=("$uri", "/kept/a.txt")),
    )
    return spec, [
        Expected("/none.html", 200, "about"),
        Expected("/none/below?a=1", 200, "about"),
        Expected("/about.html", 200, "about"),
        Expected("/kept/none.txt", 403),
        Expected("/kept/a.txt", 403),
    ]


def folder_behind_an_alias_of_all(world: World) -> tuple[SiteSpec, list[Expected]]:
    """Paths below an alias of / are folders only where the alias has such folders."""
    spec = one(world, "alias-of-all", Location("", "/", "static", alias=f"{world.www}/kept/"))
    where = f"http://a.test:{world.port}"
    return spec, [
        Expected("/a.txt", 200, "kept a"),
        Expected("/none", 404),
        Expected("/none/below.txt", 404),
        Expected("/below", 301, headers={"location": f"{where}/below/"}),
        Expected("/below/", 200, "kept below"),
        Expected("/a.txt", 405, method="PUT"),
    ]


def protected_fallback_to_an_application(world: World) -> tuple[SiteSpec, list[Expected]]:
    """The fallback of a protected location reaches an application that serves all other paths, under its own path."""
    tries = ("$uri", "/app/index?from=kept&$args")
    spec = one(
        world,
        "protected-fallback-to-an-application",
        Location("", "/", "proxy", upstream="app"),
        Location("^~", "/kept/", "static", access_rules=_HERE, try_files=tries),
        Location("^~", "/asked/", "static", access_rules=_HERE, try_files=("$uri", "/app/index?q=$uri&$args")),
        Location("~", "[%?]", "static", access_rules=_HERE, try_files=("$uri", "/index.php")),
    )
    end = "host=a.test ip=127.0.0.1 proto=http own=-"
    return spec, [
        Expected("/kept/a.txt", 200, "kept a"),
        Expected("/kept/none.txt?a=1", 200, f"GET /app/index?from=kept&a=1 {end}"),
        Expected("/kept/b?c", 200, f"POST /app/index?from=kept&c {end} body=3", method="POST", sent_body="a=1"),
        Expected("/asked/none?a=1", 200, f"GET /app/index?q=/asked/none&a=1 {end}"),
        Expected("/none%25.txt", 200, f"GET /index.php {end}"),
        Expected("/none%3Fb.txt?a=1", 200, f"GET /index.php {end}"),
    ]


def fallback_with_the_path_after_a_rewrite(world: World) -> tuple[SiteSpec, list[Expected]]:
    """The path that a fallback copies into its query is the rewritten one."""
    spec = one(
        world,
        "fallback-with-the-path-after-a-rewrite",
        Location("", "/", "static", access_rules=_HERE, try_files=("$uri", "/app/index?q=$uri&$args")),
        Location("^~", "/app/", "proxy", upstream="app"),
        Location("^~", "/moved/", "return", return_code=302, return_value="https://x.test/m?u=$uri"),
        Location("^~", "/closed/", "return", return_code=302, return_value="/m?u=$uri", access_rules=_HERE),
        rewrites=(Rewrite("^/old/(.*)$", "/new/$1"), Rewrite("^/gone/(.*)$", "/$1/all")),
    )
    end = "host=a.test ip=127.0.0.1 proto=http own=-"
    return spec, [
        Expected("/kept/a.txt", 200, "kept a"),
        Expected("/none/x?a=1", 200, f"GET /app/index?q=/none/x&a=1 {end}"),
        Expected("/gone/moved?a=1", 302, headers={"location": "https://x.test/m?u=/moved/all"}),
        Expected("/gone/closed?a=1", 302, headers={"location": f"http://a.test:{world.port}/m?u=/closed/all"}),
        Expected("/old/x?a=1", 200, f"GET /app/index?q=/new/x&a=1 {end}"),
        Expected("/old/x/y?b=2", 200, f"POST /app/index?q=/new/x/y&b=2 {end} body=3", method="POST", sent_body="a=1"),
    ]


SITES = (
    folders_with_headers,
    methods_after_access,
    errors_without_expiry_times,
    pages_of_applications,
    fallback_to_the_same_location,
    folder_behind_an_alias_of_all,
    protected_fallback_to_an_application,
    fallback_with_the_path_after_a_rewrite,
)
