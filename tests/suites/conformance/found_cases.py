"""What the generator found once: each stays here as a case, so that it stays repaired."""

from __future__ import annotations

from dataclasses import replace

from panel.rendering.spec import AccessRule, ErrorPage, Header, Listen, Location, Rewrite, ServerBlock, SiteSpec
from tests.suites.conformance.expected_responses import Expected, fixed, one
from tests.suites.conformance.world import World

_SAYS = "echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['REQUEST_URI'];"
FILES = {
    "found/index.php": f"<?php {_SAYS}",
    "found/a.txt": "a",
    "found/own/index.html": "own index",
    "found/own/aliased/index.php": f"<?php echo 'aliased '; {_SAYS}",
    "own/index.php": "<?php echo 'never run';",
    "elsewhere/page.txt": "a page elsewhere",
    "elsewhere/own/page.txt": "its own page elsewhere",
    "elsewhere/elsewhere.php": "<?php echo 'script elsewhere ', $_SERVER['REQUEST_URI'];",
    "secret.php": "<?php echo 'never shown';",
}


def methods_of_files(world: World) -> tuple[SiteSpec, list[Expected]]:
    """Files take GET and HEAD; a folder whose index is a script takes POST."""
    spec = one(
        world,
        "methods",
        Location("", "/found/", "static", index=("index.php",)),
        Location("~", r"\.php$", "php", php_pool="php"),
    )
    refused = [Expected("/found/a.txt", 405, method=method) for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE")]
    return spec, [
        *refused,
        Expected("/found/a.txt", 200, "a"),
        Expected("/found/", 200, "POST /found/", method="POST", sent_body="a=1"),
        Expected("/found/index.php", 200, "PUT /found/index.php", method="PUT"),
    ]


def refused_once(world: World) -> tuple[SiteSpec, list[Expected]]:
    """A refusal with a page of its own, of a path that leads to no file, is one answer, not two."""
    rules = (AccessRule("allow", "10.0.0.0/8"), AccessRule("deny", "all"))
    spec = one(
        world,
        "refused-once",
        Location("", "/closed/", "static", access_rules=rules),
        Location("=", "/found/a.txt", "static"),
        error_pages=(ErrorPage((403, 404), "/found/a.txt"),),
    )
    return spec, [
        Expected("/closed/none", 403, "a"),
        Expected("/found/a.txt", 200, "a"),
        Expected("/closed/", 403, "a"),
        Expected("/none", 404, "a"),
        Expected("/found/a.txt", 200, "a"),
    ]


def fallback_to_an_upstream(world: World) -> tuple[SiteSpec, list[Expected]]:
    """What no file answers goes to the location of the fallback, also where that one proxies a file's path."""
    app = Location("~", r"\.php$", "proxy", upstream="app")
    tries = ("$uri", "/found/index.php?$args")
    spec = one(world, "fallback-proxy", app, Location("", "/found/", "static"), try_files=tries)
    end = "host=a.test ip=127.0.0.1 proto=http own=-"
    return spec, [
        Expected("/none?q=1", 200, f"GET /found/index.php?q=1 {end}", {"x-app": "echo"}),
        Expected("/none", 200, f"POST /found/index.php {end} body=3", method="POST", sent_body="a=1"),
        Expected("/none", 200, f"PUT /found/index.php {end} body=3", method="PUT", sent_body="a=1"),
        Expected("/found/a.txt", 200, "a"),
        Expected("/found/index.php", 200, f"GET /found/index.php {end}"),
    ]


def folder_without_an_index_file(world: World) -> tuple[SiteSpec, list[Expected]]:
    """It is there, so no fallback answers for it: applications of one page have theirs as a file."""
    spec = one(world, "folder-beside-fallback", try_files=("$uri", "$uri/", "/found/a.txt$is_args$args"))
    return spec, [
        Expected("/found/none?q=1", 200, "a"),
        Expected("/empty/", 403),
        Expected("/found/", 403),
        Expected("/found/own/", 200, "own index"),
    ]


def fixed_answers(world: World) -> tuple[SiteSpec, list[Expected]]:
    """No ranges of a fixed answer; times with those statuses that nginx gives them to."""

    def go(path: str, code: int, value: str, expires: str) -> Location:
        return Location("=", path, "return", return_code=code, return_value=value, expires=expires)

    spec = one(
        world,
        "answers",
        go("/text", 200, "some text", "epoch"),
        go("/away", 302, "https://x.test/", "1h"),
        go("/gone", 410, "gone", "max"),
    )
    return spec, [
        Expected("/text", 200, "some text", {"cache-control": "no-cache"}, sent={"Range": "bytes=0-1"}),
        Expected("/away", 302, headers={"cache-control": "max-age=3600", "location": "https://x.test/"}),
        Expected("/gone", 410, "gone", {"cache-control": "", "expires": ""}),
    ]


def headers_of_rules(world: World) -> tuple[SiteSpec, list[Expected]]:
    """Headers of answers that no file gives, with variables and what is an escape elsewhere."""

    def go(path: str, code: int, value: str, *headers: Header) -> Location:
        return Location("=", path, "return", return_code=code, return_value=value, headers=headers)

    asked = Header("X-One", "$host $scheme $request_method $request_uri $http_x_own")
    spec = one(
        world,
        "headers-of-rules",
        go("/away", 302, "$scheme://x.test$request_uri", asked, Header("X-Two", "100% of it")),
        go("/gone", 410, "", Header("X-Two", "\\")),
        go("/nothing", 204, "", Header("X-Two", "q\"uo'te")),
        Location("", "/found/", "static", try_files=("$uri", "/gone"), headers=(Header("X-One", "$args"),)),
        headers=(Header("X-Two", "the block's"),),
    )
    said = {"x-one": "a.test http GET /away?q=%20 mine", "x-two": "100% of it"}
    return spec, [
        Expected("/away?q=%20", 302, headers={**said, "location": "http://x.test/away?q=%20"}, sent={"X-Own": "mine"}),
        Expected("/gone", 410, headers={"x-two": "\\"}),
        Expected("/nothing", 204, headers={"x-two": "q\"uo'te"}),
        Expected("/found/none", 410, headers={"x-two": "\\", "x-one": ""}),
        Expected("/found/a.txt?a=1", 200, "a", {"x-two": "the block's", "x-one": "a=1"}),
    ]


def access_and_another_path(world: World) -> tuple[SiteSpec, list[Expected]]:
    """Access is asked, and headers are given, where an upstream is asked by another path too."""
    nobody = (AccessRule("deny", "127.0.0.1"),)
    app = Location("", "/open/", "proxy", upstream="app", proxy_uri="/v2/", headers=(Header("X-One", "ours"),))
    closed, short = replace(app, pattern="/closed/", access_rules=nobody), replace(app, pattern="/short", headers=())
    spec = one(world, "another-path", app, closed, short)
    return spec, [
        Expected("/open/a%20b?q=1", 200, headers={"x-one": "ours", "x-app": "echo"}),
        Expected("/closed/a", 403, headers={"x-one": "ours", "x-app": ""}),
        Expected("/short%0A", 200, headers={"x-one": "", "x-app": "echo"}),
    ]


def malformed_paths(world: World) -> tuple[SiteSpec, list[Expected]]:
    """No part of such a path is a file's name."""
    spec = one(world, "malformed", Location("", "/found/", "static"))
    return spec, [
        Expected("/found/a.txt%", 400),
        Expected("/found/a.txt%0", 400),
        Expected("/found/a.txt%zz", 400),
        Expected("/found/a.txt?%zz%00", 200, "a"),
        Expected("/found/a.txt%00.html", 400, otherwise={"apache": 404}),
    ]


def redirects_name_the_port(world: World) -> tuple[SiteSpec, list[Expected]]:
    spec = one(world, "ports", Location("=", "/go", "return", return_code=301, return_value="/there"))
    where = f"http://a.test:{world.port}"
    return spec, [
        Expected("/docs", 301, headers={"location": f"{where}/docs/"}),
        Expected("/go", 301, headers={"location": f"{where}/there"}),
    ]


def paths_for_applications(world: World) -> tuple[SiteSpec, list[Expected]]:
    """As the client wrote them; a target in absolute form never becomes part of the address that is asked."""
    spec = one(world, "paths", Location("", "/", "proxy", upstream="app"), Location("~", "b", "proxy", upstream="app"))
    told = "host=a.test ip=127.0.0.1 proto=http own=-"
    return spec, [
        Expected("/a%2Fc%3Fd?q=%2F", 200, f"GET /a%2Fc%3Fd?q=%2F {told}"),
        Expected("/scope/@x%2fy", 200, f"GET /scope/@x%2fy {told}"),
        Expected("http://a.test/ab", 200, f"GET /ab {told}"),
    ]


def fallbacks(world: World) -> tuple[SiteSpec, list[Expected]]:
    """Access is asked before a fallback is chosen, and a fallback may be a fixed answer."""
    nobody = (AccessRule("deny", "127.0.0.1"),)
    here = (AccessRule("allow", "127.0.0.1"), AccessRule("deny", "all"))
    spec = one(
        world,
        "fallbacks",
        Location("", "/docs/", "static", try_files=("$uri", "$uri/", "=404"), access_rules=nobody),
        Location("", "/other/", "static", try_files=("$uri", "/found/index.php?$args"), access_rules=nobody),
        Location("", "/inside/", "static", try_files=("$uri", "$uri/", "/found/index.php?$args"), access_rules=here),
        Location("", "/found/", "static", try_files=("$uri", "/found/index.php?$args")),
        Location("", "/media/", "static", try_files=("$uri", "/moved")),
        Location("", "/manual/", "static", try_files=("$uri", "/moved"), access_rules=nobody),
        Location("", "/photos/", "static", try_files=("$uri", "/stop")),
        Location("=", "/moved", "return", return_code=302, return_value="https://x.test$request_uri"),
        Location("=", "/stop", "return", return_code=503, return_value="stop"),
        Location("~", r"\.php$", "php", php_pool="php"),
    )
    return spec, [
        Expected("/docs/none.txt", 403),
        Expected("/other/none", 403),
        Expected("/manual/none", 403),
        Expected("/inside/none?q=1", 200, "GET /inside/none?q=1"),
        Expected("/inside/none?q=1", 200, "POST /inside/none?q=1", method="POST"),
        Expected("/found/none?q=1", 200, "GET /found/none?q=1"),
        Expected("/media/none?q=1", 302, headers={"location": "https://x.test/media/none?q=1"}),
        Expected("/photos/none", 503, "stop"),
        *(Expected("/photos/none", 503, "stop", method=method) for method in ("POST", "PUT", "OPTIONS")),
        Expected("/photos/1999-me.jpg", 200, "photo"),
    ]


def refusals(world: World) -> tuple[SiteSpec, list[Expected]]:
    """A folder without an index file is 403, below it 404, and both have the site's pages."""
    pages = (ErrorPage((403, 404), "/404.html"),)
    spec = one(world, "refusals", fixed("=", "/x", "x"), Location("", "/", "static"), error_pages=pages)
    return spec, [
        Expected("/empty/", 403, "my 404"),
        Expected("/empty/none", 404, "my 404"),
        Expected("/a%20b.txt/more", 404, "my 404"),
        Expected("/%zz", 400),
        Expected("/../x", 400),
    ]


def range_of_nothing(world: World) -> tuple[SiteSpec, list[Expected]]:
    """An empty file has no part that begins at its beginning: it is sent whole."""
    spec = one(world, "ranges", Location("", "/", "static"))
    return spec, [Expected("/empty/.keep", 200, "", sent={"Range": "bytes=0-1"})]


def slashes_that_are_added(world: World) -> tuple[SiteSpec, list[Expected]]:
    """A proxying location whose / the path lacks is redirected to, also an exact one; nothing takes its place."""
    spec = one(
        world,
        "slashes",
        Location("=", "/exact/", "proxy", upstream="app"),
        Location("", "/below/", "proxy", upstream="app", expires="1h"),
        Location("=", "/own/", "proxy", upstream="app"),
        fixed("=", "/own", "own"),
        Location("", "/", "static", expires="1h"),
    )
    where = f"http://a.test:{world.port}"
    return spec, [
        Expected("/exact", 301, headers={"location": f"{where}/exact/"}),
        Expected("/below?q=1", 301, headers={"location": f"{where}/below/?q=1", "cache-control": "max-age=3600"}),
        Expected("/own", 200, "own"),
    ]


def fallbacks_after_access(world: World) -> tuple[SiteSpec, list[Expected]]:
    """Where access is asked first, a folder and what follows a file's name fall back too, with any method.

    Methods that files do not take stay refused where nothing falls back.
    """
    here = (AccessRule("allow", "127.0.0.1"), AccessRule("deny", "all"))
    spec = one(
        world,
        "fallbacks-after-access",
        Location("", "/photos/", "static", try_files=("$uri", "$uri/", "=404"), access_rules=here),
        Location("", "/manual/", "static", try_files=("$uri", "=404"), access_rules=here),
        Location("", "/", "static", try_files=("$uri", "/found/index.php?$args"), access_rules=here),
        Location("", "/media/", "static", try_files=("$uri", "=410"), access_rules=here),
        Location("~", r"\.php$", "php", php_pool="php"),
    )
    return spec, [
        Expected("/docs", 200, "GET /docs"),
        Expected("/docs/?q=1", 200, "GET /docs/?q=1"),
        Expected("/about.html/", 200, "GET /about.html/"),
        Expected("/about.html//", 200, "DELETE /about.html//", method="DELETE"),
        Expected("/about.html", 200, "about"),
        Expected("/media/none", 410),
        Expected("/media/", 410),
        Expected("/photos/none", 404),
        Expected("/photos/1999-me.jpg", 405, method="OPTIONS"),
        Expected("/photos/none", 404, method="OPTIONS", otherwise={"apache": 405}),
        Expected("/manual/none", 404, method="OPTIONS", otherwise={"apache": 405}),
    ]


def paths_in_queries(world: World) -> tuple[SiteSpec, list[Expected]]:
    """A path with blanks reaches the application as a parameter."""
    spec = one(
        world,
        "paths-in-queries",
        Location("", "/", "static", try_files=("$uri", "/app/index.php?q=$uri&$args")),
        Location("~", r"\.php$", "php", php_pool="php"),
    )
    return spec, [
        Expected("/no%20such", 200, "front:/no%20such:/no such"),
        Expected("/no+such?a=%20", 200, "front:/no+such?a=%20:/no such"),
        Expected("/none", 200, "front:/none:/none"),
    ]


def one_name_redirects(world: World) -> tuple[SiteSpec, list[Expected]]:
    """The usual pair of blocks: NAME sends visitors to www.NAME, which answers."""
    away = Location("", "/", "return", return_code=301, return_value=f"http://www.a.test:{world.port}$request_uri")
    block = ServerBlock((Listen(world.port),), ("www.a.test",), locations=(fixed("", "/", "here"),))
    spec = SiteSpec("one-name", (ServerBlock((Listen(world.port),), ("a.test",), locations=(away,)), block))
    return spec, [
        Expected("/x?q=1", 301, headers={"location": f"http://www.a.test:{world.port}/x?q=1"}),
        Expected("/x?q=1", 200, "here", host="www.a.test"),
    ]


def index_files_elsewhere(world: World) -> tuple[SiteSpec, list[Expected]]:
    """A folder's index file is looked for among the folder's own files; who answers it is then chosen anew."""
    here = (AccessRule("allow", "127.0.0.1"), AccessRule("deny", "all"))

    def folder(path: str, name: str, **more: object) -> Location:
        return Location("", path, "static", index=(name, "index.html"), **more)  # type: ignore[arg-type]

    spec = one(
        world,
        "index-files",
        folder("/own/", "index.php", root=f"{world.www}/found"),
        folder("/aliased/", "index.php", alias=f"{world.www}/app/"),
        folder("/guarded/", "index.php", alias=f"{world.www}/app/", access_rules=here),
        folder("/found/", "a.txt"),
        folder("/docs/", "x.txt", access_rules=here),
        folder("/manual/", "page.txt"),
        folder("/media/", "pic.gif"),
        Location("~", r"\.php$", "php", php_pool="php", root=f"{world.www}/found/own", expires="1h"),
        Location("=", "/found/a.txt", "return", return_code=301, return_value="https://x.test$request_uri"),
        Location("=", "/docs/x.txt", "deny"),
        Location("=", "/manual/page.txt", "proxy", upstream="app"),
        Location("=", "/media/pic.gif", "static", access_rules=(AccessRule("deny", "all"),)),
    )
    return spec, [
        Expected("/own/", 200, "own index", {"cache-control": ""}),
        Expected("/own/", 405, method="POST"),
        Expected("/aliased/", 200, "aliased GET /aliased/", {"cache-control": "max-age=3600"}),
        Expected("/aliased/", 200, "aliased POST /aliased/", method="POST", sent_body="a=1"),
        Expected("/guarded/", 404),  # app/index.php is there, but the script's location has another root
        Expected("/found/", 301, headers={"location": "https://x.test/found/"}),
        Expected("/found/", 405, method="PUT"),
        Expected("/docs/", 403, otherwise={"apache": 200}),
        Expected("/docs/index.html", 200, "docs home"),
        Expected("/manual/?q=1", 200, "GET /manual/page.txt?q=1 host=a.test ip=127.0.0.1 proto=http own=-"),
        Expected("/media/", 403),
    ]


def posts_to_rewritten_folders(world: World) -> tuple[SiteSpec, list[Expected]]:
    """What is said of POST to a folder holds for one that a rewrite leads to as well."""
    spec = one(world, "posted", Location("", "/", "static"), rewrites=(Rewrite("^/to-docs$", "/docs/?own=1"),))
    return spec, [
        Expected("/to-docs", 200, "docs home"),
        Expected("/to-docs", 405, method="POST", sent_body="a=1", otherwise={"apache": 200}),
    ]


def fallbacks_in_other_folders(world: World) -> tuple[SiteSpec, list[Expected]]:
    """The location of a fallback has its own root or alias, and so may the location that falls back."""
    elsewhere = f"{world.www}/elsewhere"
    spec = one(
        world,
        "fallbacks-elsewhere",
        Location("", "/own/", "static", root=elsewhere, try_files=("$uri", "/docs/index.html")),
        Location("", "/aliased/", "static", alias=f"{elsewhere}/", try_files=("$uri", "/docs/index.html")),
        Location("", "/to-own/", "static", try_files=("$uri", "/own/page.txt")),
        Location("", "/to-alias/", "static", try_files=("$uri", "/aliased/page.txt?q=1")),
        Location("", "/to-script/", "static", try_files=("$uri", "/elsewhere.php?q=$args")),
        Location("", "/to-nothing/", "static", try_files=("$uri", "/secret.php")),
        Location("=", "/elsewhere.php", "php", php_pool="php", root=elsewhere),
        Location("=", "/secret.php", "static", root=elsewhere),
    )
    return spec, [
        Expected("/own/none", 200, "docs home"),
        Expected("/aliased/none", 200, "docs home"),
        Expected("/aliased/page.txt", 200, "a page elsewhere"),
        Expected("/to-own/x", 200, "its own page elsewhere"),
        Expected("/to-alias/x", 200, "a page elsewhere"),
        Expected("/to-script/x?a=1", 200, "script elsewhere /to-script/x?a=1"),
        Expected("/to-nothing/x", 404),  # secret.php of the site's folder is not what its location serves
    ]


def beside_an_upstream(world: World) -> tuple[SiteSpec, list[Expected]]:
    """What an upstream is asked for everything else leaves files and scripts alone, and keeps its own headers."""
    spec = one(
        world,
        "beside",
        Location("", "/", "proxy", upstream="app", headers=(Header("X-Place", "app"),)),
        Location("", "/found/", "static"),
        Location("~", r"\.php$", "php", php_pool="php"),
    )
    return spec, [
        Expected("/x", 200, headers={"x-app": "echo", "x-place": "app"}),
        Expected("/found/a.txt", 200, "a", {"x-app": "", "x-place": ""}),
        Expected("/found/index.php", 200, "GET /found/index.php", {"x-place": ""}),
    ]


def folders_below(world: World) -> tuple[SiteSpec, list[Expected]]:
    """A location's own headers and rules hold for no other location below it."""
    closed = (AccessRule("deny", "all"),)
    spec = one(
        world,
        "below",
        Location("", "/", "static", headers=(Header("X-Place", "root"),), access_rules=closed),
        Location("", "/found/", "static"),
    )
    return spec, [Expected("/docs/", 403), Expected("/found/a.txt", 200, "a", {"x-place": ""})]


def statuses_alone(world: World) -> tuple[SiteSpec, list[Expected]]:
    spec = one(
        world,
        "alone",
        Location("=", "/none", "return", return_code=204),
        Location("=", "/nothing", "return", return_code=200),
    )
    return spec, [
        Expected("/none", 204, ""),
        Expected("/none", 204, "", method="PUT"),
        Expected("/nothing", 200),
        Expected("/nothing", 200, method="POST", sent_body="a=1"),
    ]


SITES = (
    fallbacks_in_other_folders,
    beside_an_upstream,
    folders_below,
    statuses_alone,
    refused_once,
    index_files_elsewhere,
    posts_to_rewritten_folders,
    methods_of_files,
    fallback_to_an_upstream,
    folder_without_an_index_file,
    fixed_answers,
    headers_of_rules,
    access_and_another_path,
    malformed_paths,
    redirects_name_the_port,
    paths_for_applications,
    fallbacks,
    refusals,
    range_of_nothing,
    slashes_that_are_added,
    fallbacks_after_access,
    paths_in_queries,
    one_name_redirects,
)
