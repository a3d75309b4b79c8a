"""Rewrites: in order, before a location is chosen and in it, with every last word, and what becomes of the query."""

from __future__ import annotations

from panel.rendering.spec import AccessRule, Header, Location, Rewrite, SiteSpec
from tests.suites.conformance.expected_responses import Expected, fixed, one
from tests.suites.conformance.world import World


def _where(world: World, path: str) -> dict[str, str]:
    return {"location": f"http://a.test:{world.port}{path}"}


OF_THE_BLOCK = (
    Rewrite("^/home$", "/"),
    Rewrite("^/secrets$", "/etc/passwd"),
    Rewrite("^/alias/(.*)$", "/aliased/$1"),
    Rewrite("^/ask/(.*)$", "/asked/$1"),
    Rewrite("^/asked/open/(.*)$", "/aliased/$1"),
    Rewrite("^/script/(.*)$", "/app/moved.php"),
    Rewrite("^/pass/(.*)$", "/passed/$1"),
    Rewrite("^/one/(.*)$", "/two/$1"),
    Rewrite("^/two/last/(.*)$", "/three/$1", "last"),
    Rewrite("^/two/break/(.*)$", "/four/$1", "break"),
    Rewrite("^/(?:three|four)/(.*)$", "/never/$1"),
    Rewrite(r"^/p/(?<id>\d+)/(\w+)$", "/item/$id?name=$2", "last"),
    Rewrite("^/drop$", "/two/drop?", "last"),
    Rewrite("^/set$", "/two/set?a=1?", "last"),
    Rewrite("^/old/(.*)$", "/two/$1", "redirect"),
    Rewrite("^/gone/(.*)$", "/two/$1", "permanent"),
    Rewrite("^/away/(.*)$", "https://b.test/$1"),
    Rewrite("^/bare$", "/two/bare?", "permanent"),
    Rewrite("^/e$", "/end"),
    Rewrite("^/f/(.*)$", "/files/$1"),
)
# What the location that the last path belongs to answers.
ANSWERED = (
    Expected("/x", 200, "other /x "),
    Expected("/one/a", 200, "two /two/a "),
    Expected("/one/a?q=1", 200, "two /two/a q=1"),
    Expected("/one/last/a", 200, "other /three/a "),
    Expected("/one/break/a", 200, "other /four/a "),
    Expected("/three/a", 200, "other /never/a "),
    Expected("/p/17/ann", 200, "item 17 name=ann"),
    Expected("/p/17/ann?q=1", 200, "item 17 name=ann&q=1"),
    Expected("/drop?q=1", 200, "two /two/drop "),
    Expected("/set?q=1", 200, "two /two/set a=1"),
    Expected("/e", 200, "end /end"),
    Expected("/f/a.txt", 200, "a file"),
    Expected("/f/none.txt", 404),
    Expected("/one/a%20b%25c", 200, "two /two/a b%c "),
    Expected("/home", 200, "other / "),
    Expected("/secrets", 404),
    Expected("/alias/a.txt", 200, "a file"),
    Expected("/alias/none.txt", 404),
    Expected("/ask/a.txt", 403),
    Expected("/asked/open/a.txt", 200, "a file"),
    Expected("/script/x", 200, "script /app/moved.php /script/x"),
    Expected("/pass/a%20b?q=1", 200, "GET /passed/a%20b?q=1 host=a.test ip=127.0.0.1 proto=http own=-"),
    Expected(
        "/pass/x",
        200,
        "POST /passed/x host=a.test ip=127.0.0.1 proto=http own=- body=3",
        method="POST",
        sent_body="abc",
    ),
)


def of_the_block(world: World) -> tuple[SiteSpec, list[Expected]]:
    """Each works on what the one before it made; `last` and `break` end the list; then a location is chosen."""
    spec = one(
        world,
        "rewrites",
        fixed("", "/", "other $uri $args"),
        fixed("", "/two/", "two $uri $args"),
        fixed("=", "/end", "end $uri"),
        fixed("~", r"^/item/(\d+)$", "item $1 $args"),
        Location("", "/files/", "static"),
        Location("^~", "/etc/", "static"),
        Location("", "/aliased/", "static", alias=f"{world.www}/files/"),
        Location("", "/asked/", "static", alias=f"{world.www}/files/", access_rules=(AccessRule("deny", "all"),)),
        Location("~", r"\.php$", "php", php_pool="php"),
        Location("", "/passed/", "proxy", upstream="app"),
        rewrites=OF_THE_BLOCK,
    )
    return spec, [*ANSWERED, *_elsewhere(world)]


def _elsewhere(world: World) -> list[Expected]:
    """By sending the visitor there."""
    return [
        Expected("/old/a?q=1", 302, headers=_where(world, "/two/a?q=1")),
        Expected("/gone/a", 301, headers=_where(world, "/two/a")),
        Expected("/away/a?q=1", 302, headers={"location": "https://b.test/a?q=1"}),
        Expected("/bare?q=1", 301, headers=_where(world, "/two/bare")),
    ]


REWRITING = (
    Location("", "/start/", "static", rewrites=(Rewrite("^/start/(.*)$", "/end/$1"),)),
    Location(
        "",
        "/steps/",
        "static",
        rewrites=(
            Rewrite("^/steps/a/(.*)$", "/steps/b/$1"),
            Rewrite("^/steps/b/(.*)$", "/start/$1", "last"),
            Rewrite("^/start/(.*)$", "/wrong/$1"),
            Rewrite("^/steps/r/(.*)$", "/end/$1", "permanent"),
            Rewrite("^/steps/q/(.*)$", "/end/x?from=$1"),
        ),
    ),
    Location("", "/shut/", "deny", rewrites=(Rewrite("^/shut/open/(.*)$", "/end/$1", "last"),)),
    Location("", "/round/", "static", rewrites=(Rewrite("^/round/(.*)$", "/round/$1", "last"),)),
    Location(
        "",
        "/api/",
        "proxy",
        upstream="app",
        headers=(Header("X-One", "api"),),
        rewrites=(Rewrite("^/api/(.*)$", "/$1", "break"),),
    ),
    Location("", "/app/", "proxy", upstream="app"),
    Location("", "/go/", "static", rewrites=(Rewrite("^/go/(.*)$", "/app/$1", "last"),)),
    Location("", "/front/", "static", try_files=("$uri", "/files/a.txt"), rewrites=(Rewrite("^/front/x$", "/end/y"),)),
)


def of_a_location(world: World) -> tuple[SiteSpec, list[Expected]]:
    """Without `break` the location is chosen anew; what was refused or asked for a password before it is not."""
    spec = one(
        world,
        "rewrites-inside",
        fixed("", "/", "other $uri"),
        fixed("", "/end/", "end $uri $args"),
        *REWRITING,
        Location("", "/files/", "static"),
        rewrites=(Rewrite("^/first/(.*)$", "/start/$1"),),
    )
    return spec, [
        Expected("/start/a?q=1", 200, "end /end/a q=1"),
        Expected("/first/a", 200, "end /end/a "),
        Expected("/steps/a/x", 200, "end /end/x "),
        Expected("/steps/b/x", 200, "end /end/x "),
        Expected("/steps/r/x?q=1", 301, headers=_where(world, "/end/x?q=1")),
        Expected("/steps/q/y?q=1", 200, "end /end/x from=y&q=1"),
        Expected("/shut/x", 403),
        Expected("/shut/open/x", 200, "end /end/x "),
        Expected("/round/x", 500),
        Expected("/api/x/y?q=1", 200, "GET /x/y?q=1 host=a.test ip=127.0.0.1 proto=http own=-", {"x-one": "api"}),
        Expected("/app/x", 200, "GET /app/x host=a.test ip=127.0.0.1 proto=http own=-"),
        Expected("/go/x?q=1", 200, "GET /app/x?q=1 host=a.test ip=127.0.0.1 proto=http own=-"),
        Expected("/front/x", 200, "end /end/y "),
        Expected("/front/z", 200, "a file"),
    ]


def of_redirects_only(world: World) -> tuple[SiteSpec, list[Expected]]:
    """No path changes on the server, so the site needs none of the rules that choose a location again."""
    moved = (Rewrite("^/shop/item/(.*)$", "/store/$1?from=shop", "permanent"),)
    spec = one(
        world,
        "rewrites-redirect",
        fixed("", "/", "other $uri $args"),
        Location("", "/files/", "static", index=("a.txt",)),
        Location("", "/shop/", "static", rewrites=moved),
        Location("~", r"^/shop/closed/", "deny", rewrites=(Rewrite("open$", "/store/", "redirect"),)),
        Location("", "/app/", "proxy", upstream="app", rewrites=(Rewrite("^/app/old/(.*)$", "/app/$1", "redirect"),)),
        rewrites=(
            Rewrite("^/old/(.*)$", "/new/$1", "permanent"),
            Rewrite("^/shop/sale$", "https://b.test/sale?"),
            Rewrite(r"^/files/index\.html$", "/files/", "permanent"),
            Rewrite(r"^/(?<page>[a-z]+)\.htm$", "/$page.html?", "redirect"),
        ),
    )
    return spec, [
        Expected("/old/a%20b?q=1", 301, headers=_where(world, "/new/a%20b?q=1")),
        Expected("/shop/sale?q=1", 302, headers={"location": "https://b.test/sale"}),
        Expected("/about.htm?q=1", 302, headers=_where(world, "/about.html")),
        Expected("/shop/item/7?q=1", 301, headers=_where(world, "/store/7?from=shop&q=1")),
        Expected("/shop/closed/x", 403),
        Expected("/shop/closed/open", 302, headers=_where(world, "/store/")),
        Expected("/app/old/x?q=1", 302, headers=_where(world, "/app/x?q=1")),
        Expected("/app/x", 200, "GET /app/x host=a.test ip=127.0.0.1 proto=http own=-"),
        Expected("/app", 301, headers=_where(world, "/app/")),
        Expected("/files/", 200, "a file"),
        Expected("/files/a.txt", 200, "a file"),
        Expected("/x?q=1", 200, "other /x q=1"),
        Expected("/old/x", 301, method="HEAD", headers=_where(world, "/new/x")),
    ]


def of_single_rules(world: World) -> tuple[SiteSpec, list[Expected]]:
    """Apache has a plain rule for each rewrite but that of /twice/, whose result belongs to another folder."""
    spec = one(
        world,
        "rewrites-plain",
        Location("~", r"/\.", "deny"),
        Location("~", r"\.php$", "php", php_pool="php", try_files=("$uri", "=404")),
        Location("", "/", "static", try_files=("$uri", "$uri/", "/app/moved.php?$args")),
        Location("", "/files/", "static", try_files=("$uri", "$uri/", "=404"), headers=(Header("X-Kind", "file"),)),
        Location("", "/find/", "static", rewrites=(Rewrite("^/find/(.*)$", "/app/moved.php?find=$1", "last"),)),
        Location("", "/shut/", "deny", rewrites=(Rewrite("^/shut/(a.*)$", "/files/$1"),)),
        Location("", "/tool/", "proxy", upstream="app", rewrites=(Rewrite("^/tool/(.*)$", "/$1", "break"),)),
        Location("", "/app/", "proxy", upstream="app", rewrites=(Rewrite("app/(.*)$", "/v2/$1?by=break", "break"),)),
        Location("", "/twice/", "static", rewrites=(Rewrite("^/twice/(.*)$", "/copied/$1", "last"),)),
        Location("", "/copied/", "static", alias=f"{world.www}/files/"),
        client_max_body_mb=1,
        rewrites=(
            Rewrite("^/old$", "/files/a.txt", "permanent"),
            Rewrite(r"^/map_index\.xml$", "/app/moved.php?map=1", "last"),
            Rewrite(r"^/([^/]+?)-map([0-9]+)?\.xml$", "/app/moved.php?map=$1&number=$2", "last"),
            Rewrite("^/docs/(.*)$", "/files/$1"),
        ),
    )
    passed = "host=a.test ip=127.0.0.1 proto=http own=-"
    return spec, [
        Expected("/old", 301, headers=_where(world, "/files/a.txt")),
        Expected("/map_index.xml?q=1", 200, "script /app/moved.php /map_index.xml?q=1"),
        Expected("/post-map2.xml", 200, "script /app/moved.php /post-map2.xml"),
        Expected("/post-map2.xml", 200, "script /app/moved.php /post-map2.xml", method="POST", sent_body="abc"),
        Expected("/docs/a.txt", 200, "a file", {"x-kind": "file"}),
        Expected("/docs/a.txt", 405, method="POST", sent_body="abc"),
        Expected("/docs/none.txt", 404),
        Expected("/docs/.hidden", 403),
        Expected("/find/a%20b%26c%25d", 200, "script /app/moved.php /find/a%20b%26c%25da b&c%d"),
        Expected("/find/.git", 403),
        Expected("/shut/a.txt", 200, "a file", {"x-kind": "file"}),
        Expected("/shut/b", 403),
        Expected("/tool/x/y?q=1", 200, f"GET /x/y?q=1 {passed}"),
        Expected("/tool/a%20b", 200, f"GET /a%20b {passed}"),
        Expected("/tool", 301, headers=_where(world, "/tool/")),
        Expected("/app/x?q=1", 200, f"GET /v2/x?by=break&q=1 {passed}"),
        Expected("/app/moved.php", 200, "script /app/moved.php /app/moved.php"),
        Expected("/twice/a.txt", 200, "a file"),
        Expected("/twice/none.txt", 404),
        Expected("/none", 200, "script /app/moved.php /none"),
    ]


FILES = {
    "files/a.txt": "a file",
    "app/moved.php": "<?php echo 'script ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['REQUEST_URI'],"
    " $_GET['find'] ?? '';",
}
SITES = (of_the_block, of_a_location, of_redirects_only, of_single_rules)
