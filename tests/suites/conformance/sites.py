"""Sites and what they must answer, whatever server they run on."""

from __future__ import annotations

from panel.rendering.spec import (
    AccessRule,
    BasicAuth,
    ErrorPage,
    Header,
    Listen,
    Location,
    PhpPool,
    ServerBlock,
    SiteSpec,
)
from tests.suites.conformance.expected_responses import Expected, fixed, one
from tests.suites.conformance.world import World

PASSWORD = "$2y$05$aPEPaqOSr./rOPtGVeuICuuxFbxf3aW.gVp75hjfUyg3UYVgWTTCG"  # bcrypt of "password"


FILES = {
    "index.html": "home",
    "about.html": "about",
    "a b.txt": "blank",
    "docs/index.html": "docs home",
    "docs/x.txt": "docs x",
    "empty/.keep": "",
    "404.html": "my 404",
    "manual/page.txt": "manual page",
    "other/media/pic.gif": "gif in other",
    "media/pic.gif": "gif in root",
    "app/index.php": "<?php echo 'front:', $_SERVER['REQUEST_URI'], ':', $_GET['q'] ?? '';",
    "app/info.php": "<?php echo $_SERVER['SCRIPT_NAME'], '|', $_SERVER['PATH_INFO'] ?? '', '|', ini_get('precision');",
    "app/static.txt": "app static",
    "app/upload/evil.php": "<?php echo 'evil';",
    "photos/1999-me.jpg": "photo",
}


def static(world: World) -> tuple[SiteSpec, list[Expected]]:
    spec = one(
        world,
        "static",
        Location("", "/", "static", try_files=("$uri", "$uri/", "=404")),
        Location("", "/manuals/", "static", alias=f"{world.www}/manual/"),
        Location("^~", "/media/", "static", root=f"{world.www}/other"),
        Location("~", r"^/p/(?<year>\d{4})/(.+\.jpg)$", "static", alias=f"{world.www}/photos/$year-$2"),
        Location("~*", r"\.gif$", "deny"),
        error_pages=(ErrorPage((404,), "/404.html"),),
        index=("index.html",),
    )
    return spec, [
        Expected("/", 200, "home"),
        Expected("/about.html", 200, "about"),
        Expected("/a%20b.txt", 200, "blank"),
        Expected("/docs", 301, headers={"location": f"http://a.test:{world.port}/docs/"}, host=f"a.test:{world.port}"),
        Expected("/docs/", 200, "docs home"),
        Expected("/docs/x.txt?y=1", 200, "docs x"),
        Expected("//docs///x.txt", 200, "docs x"),
        Expected("/docs/../about.html", 200, "about"),
        Expected("/docs/%78.txt", 200, "docs x"),
        Expected("/empty/", 403),
        Expected("/missing", 404, "my 404"),
        Expected("/manuals/page.txt", 200, "manual page"),
        Expected("/manuals/none.txt", 404),
        Expected("/media/pic.gif", 200, "gif in other"),
        Expected("/other/media/PIC.GIF", 403),
        Expected("/p/1999/me.jpg", 200, "photo"),
        Expected("/p/2000/me.jpg", 404),
    ]


def locations(world: World) -> tuple[SiteSpec, list[Expected]]:
    """The order of nginx's documentation: exact, ^~, regular expressions in order, longest prefix."""
    spec = one(
        world,
        "locations",
        fixed("=", "/", "A"),
        fixed("", "/", "B"),
        fixed("", "/documents/", "C"),
        fixed("^~", "/images/", "D"),
        fixed("~*", r"\.(gif|jpg|jpeg)$", "E"),
        fixed("~", r"^/BlogPlanet(/|/index\.php)$", "F"),
        fixed("", "/images/raw/", "G"),
        fixed("~", r"\.gif\.txt$|^/either", "H"),
        fixed("=", "/documents/exact.jpg", "I"),
        fixed("", "/doc", "J"),
    )
    paths = {
        "/": "A", "/index.html": "B", "/documents/document.html": "C", "/images/1.gif": "D", "/documents/1.jpg": "E",
        "/documents/1.JPG": "E", "/BlogPlanet/": "F", "/BlogPlanet/index.php": "F", "/BlogPlanet/x": "B",
        "/images/raw/x.txt": "G", "/images/raw/x.gif": "E", "/x.gif.txt": "H", "/x/either": "B", "/either/x": "H",
        "/documents/exact.jpg": "I", "/documents": "J", "/doc": "J", "/do": "B", "/Documents/": "B",
        "/images/../documents/x": "C", "/%69mages/x.jpg": "D", "//documents//x": "C",
    }  # fmt: skip
    return spec, [Expected(path, 200, letter, {"content-type": "text/plain"}) for path, letter in paths.items()]


def redirects(world: World) -> tuple[SiteSpec, list[Expected]]:
    def go(match: str, pattern: str, code: int, value: str) -> Location:
        return Location(match, pattern, "return", return_code=code, return_value=value)  # type: ignore[arg-type]

    spec = one(
        world,
        "redirects",
        go("=", "/old", 301, "https://b.test/new"),
        go("", "/moved/", 302, "https://b.test$request_uri"),
        go("~", r"^/user/(\d+)/(?<tab>\w+)$", 308, "/people/$1?tab=$tab"),
        go("=", "/args", 307, "https://b.test/?was=$args"),
        Location("=", "/gone", "return", return_code=410),
        Location("=", "/none", "return", return_code=204),
        Location("=", "/text", "return", return_code=200, return_value="a \"b\" 'c' $$d %{e} <f>\n\tg\\n"),
        Location("=", "/who", "return", return_code=200, return_value="$host $scheme $request_method"),
        Location("=", "/slash", "return", return_code=200, return_value="/x is a path"),
        Location("=", "/stop", "return", return_code=503, return_value="back soon"),
    )
    host = f"a.test:{world.port}"
    return spec, [
        Expected("/old?x=1", 301, headers={"location": "https://b.test/new"}),
        Expected(
            "/moved/a%20b/c%2Fd?q=1&r=%3f", 302, headers={"location": "https://b.test/moved/a%20b/c%2Fd?q=1&r=%3f"}
        ),
        Expected("/user/12/posts?x", 308, headers={"location": f"http://{host}/people/12?tab=posts"}, host=host),
        Expected("/args?a=1&b=2", 307, headers={"location": "https://b.test/?was=a=1&b=2"}),
        Expected("/gone", 410),
        Expected("/none", 204, ""),
        Expected("/text", 200, "a \"b\" 'c' $d %{e} <f>\n\tg\\n", {"content-type": "text/plain"}),
        Expected("/who", 200, "a.test http GET"),
        Expected("/slash", 200, "/x is a path"),
        Expected("/stop", 503, "back soon"),
    ]


def php(world: World) -> tuple[SiteSpec, list[Expected]]:
    block = ServerBlock(
        (Listen(world.port),),
        ("a.test",),
        root=f"{world.www}/app",
        index=("index.php",),
        locations=(
            Location("", "/", "static", try_files=("$uri", "$uri/", "/index.php?$args")),
            Location("^~", "/upload/", "static"),
            Location("~", r"[^/]\.php(/|$)", "php", php_pool="php", split_path_info=True),
        ),
    )
    pool = PhpPool("php", world.php, (("precision", "9"),))
    return SiteSpec("php", (block,), php_pools=(pool,)), [
        Expected("/", 200, "front:/:"),
        Expected("/post/1?q=2", 200, "front:/post/1?q=2:2"),
        Expected("/static.txt", 200, "app static"),
        Expected("/info.php", 200, "/info.php||9"),
        Expected("/info.php/extra/path", 200, "/info.php|/extra/path|9"),
        Expected("/none.php", 404),
        Expected("/static.txt/x.php", 404),
        Expected("/upload/evil.php", 200, "<?php echo 'evil';"),
    ]


def proxy(world: World) -> tuple[SiteSpec, list[Expected]]:
    spec = one(
        world,
        "proxy",
        Location("", "/", "proxy", upstream="app"),
        Location("", "/api/", "proxy", upstream="app", proxy_uri="/v2/", request_headers=(Header("X-Own", "$host"),)),
        Location("=", "/one", "proxy", upstream="app", proxy_uri="/uno"),
        Location("~", r"\.cgi$", "proxy", upstream="app", request_headers=(Header("X-Real-IP", "10.9.8.7"),)),
    )
    host = f"a.test:{world.port}"
    return spec, [
        Expected("/x%20y?q=1", 200, f"GET /x%20y?q=1 host={host} ip=127.0.0.1 proto=http own=-", host=host),
        Expected("/api/list?q=1", 200, f"GET /v2/list?q=1 host={host} ip=127.0.0.1 proto=http own=a.test", host=host),
        Expected("/one?q", 200, f"GET /uno?q host={host} ip=127.0.0.1 proto=http own=-", host=host),
        Expected("/a.cgi", 200, f"GET /a.cgi host={host} ip=10.9.8.7 proto=http own=-", host=host),
        Expected("/x", 200, f"DELETE /x host={host} ip=127.0.0.1 proto=http own=-", host=host, method="DELETE"),
    ]


def headers(world: World) -> tuple[SiteSpec, list[Expected]]:
    spec = one(
        world,
        "headers",
        Location("", "/", "static"),
        Location("", "/docs/", "static", headers=(Header("X-A", 'docs %d; "q" \\ $$5'),), expires="1h"),
        Location("", "/manual/", "static", headers=(Header("X-C", "$host"),), expires="-1"),
        Location("", "/media/", "static", expires="max"),
        headers=(Header("X-A", "block"), Header("X-B", "ok only", always=False)),
        index=("index.html",),
    )
    return spec, [
        Expected("/", 200, "home", {"x-a": "block", "x-b": "ok only"}),
        Expected("/missing", 404, headers={"x-a": "block", "x-b": ""}),
        Expected(
            "/docs/x.txt",
            200,
            headers={"x-a": 'docs %d; "q" \\ $5', "x-b": "ok only", "cache-control": "max-age=3600"},
        ),
        Expected("/manual/page.txt", 200, headers={"x-a": "block", "x-c": "a.test", "cache-control": "no-cache"}),
        Expected(
            "/media/pic.gif",
            200,
            headers={"cache-control": "max-age=315360000", "expires": "Thu, 31 Dec 2037 23:55:55 GMT"},
        ),
    ]


def access(world: World) -> tuple[SiteSpec, list[Expected]]:
    realm = 'Staff "only" \\ %{x}'
    auth = BasicAuth(realm, (("ann", PASSWORD),), f"{world.www.removesuffix('/www')}/htpasswd")
    spec = one(
        world,
        "access",
        Location("", "/docs/", "static", basic_auth=auth),
        Location("", "/manual/", "static", access_rules=(AccessRule("deny", "127.0.0.1"),)),
        Location("", "/media/", "static", access_rules=(AccessRule("allow", "127.0.0.0/8"), AccessRule("deny", "all"))),
        Location("", "/other/", "static", access_rules=(AccessRule("allow", "10.0.0.0/8"), AccessRule("deny", "all"))),
        Location("", "/photos/", "static", basic_auth=auth, access_rules=(AccessRule("deny", "all"),)),
    )
    asks = {"www-authenticate": 'Basic realm="Staff \\"only\\" \\\\ %{x}"'}
    return spec, [
        Expected("/docs/x.txt", 401, headers=asks),
        Expected("/docs/x.txt", 401, sent={"Authorization": "Basic YW5uOndyb25n"}),  # ann:wrong
        Expected("/docs/x.txt", 200, "docs x", sent={"Authorization": "Basic YW5uOnBhc3N3b3Jk"}),  # ann:password
        Expected("/manual/page.txt", 403),
        Expected("/media/pic.gif", 200),
        Expected("/other/media/pic.gif", 403),
        Expected("/photos/1999-me.jpg", 403),
    ]


def names(world: World) -> tuple[SiteSpec, list[Expected]]:
    def block(text: str, *names: str, default: bool = False) -> ServerBlock:
        listen = (Listen(world.port, default_server=default),)
        return ServerBlock(listen, names, locations=(fixed("", "/", text),))

    spec = SiteSpec(
        "names",
        (
            block("trailing", "mail.*"),
            block("leading", "*.b.test"),
            block("longer", "*.deep.b.test"),
            block("dot", ".c.test"),
            block("exact", "x.b.test", "A.test"),
            block("default", default=True),
        ),
    )
    answers = {
        "a.test": "exact", "x.b.test": "exact", "y.b.test": "leading", "z.y.b.test": "leading",
        "q.deep.b.test": "longer", "b.test": "default", "c.test": "dot", "www.c.test": "dot",
        "mail.anything": "trailing",
        "mail.b.test": "leading", "unknown.example": "default", f"a.test:{world.port}": "exact",
    }  # fmt: skip
    return spec, [Expected("/", 200, text, host=host) for host, text in answers.items()]


SITES = (static, locations, redirects, php, proxy, headers, access, names)
