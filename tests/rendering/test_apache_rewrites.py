"""Rewrites on Apache: one rule each where that is exact, the general rules elsewhere, and nginx's responses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from panel.rendering import render
from panel.rendering.spec import (
    Header,
    Listen,
    Location,
    PhpPool,
    Rewrite,
    ServerBlock,
    SiteSpec,
    Upstream,
    UpstreamServer,
    WebServerSpec,
)
from tests.rendering.cases import WEB_SERVERS
from tests.rendering.live_server import Live
from tests.support.http_client import ask

PHP = Location("~", r"\.php$", "php", php_pool="php", try_files=("$uri", "=404"))
HIDDEN = Location("~", r"/\.", "deny")
NEWS = Location("", "/news/", "static", headers=(Header("X-Kind", "news"),))
FRONT = Location("", "/", "static", try_files=("$uri", "$uri/", "/index.php?$args"))
SITEMAP = Rewrite(r"^/([^/]+?)-sitemap([0-9]+)?\.xml$", "/index.php?sitemap=$1&number=$2", "last")


def inside(pattern: str, *rewrites: Rewrite, handler: str = "static", **more: object) -> Location:
    upstream = "app" if handler == "proxy" else ""
    return Location("", pattern, handler, rewrites=rewrites, upstream=upstream, **more)  # type: ignore[arg-type]


def site(*locations: Location, rewrites: tuple[Rewrite, ...] = (), **more: object) -> SiteSpec:
    block = ServerBlock((Listen(80),), ("a.test",), root="/srv/a", locations=locations, rewrites=rewrites, **more)  # type: ignore[arg-type]
    upstream = Upstream("app", (UpstreamServer("127.0.0.1:3000"),))
    return SiteSpec("shop", (block,), upstreams=(upstream,), php_pools=(PhpPool("php", "unix:/run/php.sock"),))


def rendered(spec: SiteSpec, web_server: WebServerSpec = WEB_SERVERS["apache"]) -> str:
    return next(file.text for file in render(spec, web_server) if not file.link_target)


def rules(spec: SiteSpec) -> list[str]:
    """Rules of the site without those that protect captures from line breaks."""
    lines = [line.strip() for line in rendered(spec).splitlines()]
    return [line for line in lines if line.startswith(("RewriteCond", "RewriteRule")) and "x0a" not in line]


PASSED_ON = {
    "of a server block": (
        site(NEWS, rewrites=(Rewrite("^/blog/(.*)$", "/news/$1"),)),
        ["RewriteRule ^/blog/(.*)$ /news/$1 [PT,NS,L]"],
    ),
    "to a script": (
        site(HIDDEN, PHP, inside("/app/", handler="proxy", upstream_tls=True), rewrites=(SITEMAP,)),
        [
            'RewriteRule "^/([^/]+?)-sitemap([0-9]+)?\\.xml$" /index.php?sitemap=$1&number=$2 '
            '"[B=#%&+;<>?,BCTLS,BNP,QSA,PT,NS,L]"',
        ],
    ),
    "of a location": (
        site(inside("/old/", Rewrite("^/old/(.*)$", "/news/$1", "last")), NEWS),
        ["RewriteRule ^/old/(.*)$ /news/$1 [PT,NS,L]"],
    ),
    "of a location that its pattern does not imply": (
        site(inside("/old/", Rewrite("b(.*)$", "/news/$1", "last")), NEWS),
        ['RewriteCond "%{REQUEST_URI}" ^/old/', "RewriteRule b(.*)$ /news/$1 [PT,NS,L]"],
    ),
    "of a denied location": (
        site(inside("/shut/", Rewrite("^/shut/open$", "/news/x"), handler="deny"), NEWS),
        ["RewriteRule ^/shut/open$ /news/x [PT,NS,L]"],
    ),
    "to an upstream": (
        site(inside("/tool/", Rewrite("^/tool/(.*)$", "/$1", "break"), handler="proxy")),
        ["RewriteRule ^/tool$ /tool/ [R=301,L]", "RewriteRule ^/tool/(.*)$ http://127.0.0.1:3000/$1 [P]"],
    ),
    "after the limit of request bodies": (
        site(PHP, rewrites=(Rewrite("^/map$", "/index.php", "last"),), client_max_body_mb=1),
        [
            'RewriteCond "%{HTTP:Content-Length}" "-gt 1048576"',
            "RewriteRule ^ - [R=413,L]",
            "RewriteRule ^/map$ /index.php [PT,NS,L]",
        ],
    ),
}


@pytest.mark.parametrize("name", PASSED_ON)
def test_rewrite_is_one_rule_where_exact(name: str) -> None:
    spec, expected = PASSED_ON[name]
    assert rules(spec)[: len(expected)] == expected  # those of try_files follow
    assert "PADDOCK" not in rendered(spec)


BLOG = (Rewrite("^/blog/(.*)$", "/news/$1"),)
LEADS_TO = "the new path can belong to a location with"
COMES_FROM = "the original path can belong to a location with"
GENERAL = [
    (f"{LEADS_TO} another folder", site(Location("", "/news/", "static", root="/srv/b"), rewrites=BLOG)),
    (f"{LEADS_TO} another folder", site(Location("", "/news/", "static", alias="/srv/b/"), rewrites=BLOG)),
    (f"{LEADS_TO} an upstream", site(inside("/news/", handler="proxy"), rewrites=BLOG)),
    (f"{LEADS_TO} try_files", site(FRONT, PHP, rewrites=BLOG)),
    (f"{LEADS_TO} a fixed response", site(Location("=", "/news/x", "return", return_code=410), rewrites=BLOG)),
    (f"{LEADS_TO} rewrites", site(inside("/news/", Rewrite("x", "/y", "last")), rewrites=BLOG)),
    (f"{COMES_FROM} an upstream", site(NEWS, inside("/blog/", handler="proxy"), rewrites=BLOG)),
    (f"{COMES_FROM} another folder", site(Location("", "/blog/", "static", alias="/srv/b/"), rewrites=BLOG)),
    ("a later rewrite can match the new path", site(rewrites=(*BLOG, Rewrite("^/news/x$", "/y")))),
    (
        "nginx sends a later redirect before it limits request bodies",
        site(PHP, rewrites=(*BLOG, Rewrite("^/x$", "/y", "permanent")), client_max_body_mb=1),
    ),
    (
        "a location has its own limit for request bodies",
        site(Location("~", "p$", "php", php_pool="php", client_max_body_mb=1), rewrites=BLOG),
    ),
]


@pytest.mark.parametrize("why, spec", GENERAL)
def test_rewrite_without_plain_form_requests_the_new_path_and_says_why(why: str, spec: SiteSpec) -> None:
    text = rendered(spec)
    assert f"# Paddock writes several rules for each rewrite of the server block, because {why}\n" in text
    assert "/.paddock-moved [E=PADDOCK_TO:$0,L]" in text


def test_general_rules_cover_only_the_location_that_needs_them() -> None:
    copied = Location("", "/copied/", "static", alias="/srv/b/")
    text = rendered(
        site(
            NEWS,
            copied,
            inside("/old/", Rewrite("^/old/(.*)$", "/news/$1", "last")),
            inside("/twice/", Rewrite("^/twice/(.*)$", "/copied/$1", "last")),
        )
    )
    assert "RewriteRule ^/old/(.*)$ /news/$1 [PT,NS,L]" in text
    assert (
        f"# Paddock writes several rules for each rewrite of location /twice/, because {LEADS_TO} another folder\n"
        in text
    )
    assert text.count("E=PADDOCK_AT:") == 2  # none, and /twice/


def test_location_that_general_rules_lead_to_has_general_rules() -> None:
    text = rendered(
        site(
            NEWS,
            inside("/old/", Rewrite("^/old/(.*)$", "/news/$1", "last")),
            inside("/twice/", Rewrite("^/twice/(.*)$", "/old/$1", "last")),
        )
    )
    assert f"location /twice/, because {LEADS_TO} rewrites; " in text
    assert "; location /old/, because another rewrite can redirect to paths of the location\n" in text
    assert "[PT" not in text


@pytest.fixture(params=["nginx", "apache"])
def live(request: pytest.FixtureRequest, server_root: Path) -> Iterator[Live]:
    found = Live(request.param, server_root)
    yield found
    if found.generation:
        found.stop()


def test_rewritten_paths_are_answered_alike(live: Live) -> None:
    for name in ("news/a.txt", "news/index.html", "y", "other/a.txt"):
        path = live.root / "www" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"file {name}")
    block = ServerBlock(
        (Listen(live.port),),
        ("a.test",),
        root=str(live.root / "www"),
        locations=(
            HIDDEN,
            Location("", "/news/", "static"),
            Location("", "/copied/", "static", alias=f"{live.root}/www/other/"),
            Location("", "/fixed/", "return", return_code=200, return_value="fixed $uri"),
            inside("/old/", Rewrite("^/old/(.*)$", "/news/$1", "last")),
            inside("/shut/", Rewrite("^/shut/open$", "/y"), handler="deny"),
            inside("/twice/", Rewrite("^/twice/(.*)$", "/copied/$1", "last")),
            inside("/told/", Rewrite("^/told/(.*)$", "/fixed/$1", "last")),
        ),
        rewrites=(Rewrite("^/blog/(.*)$", "/news/$1"),),
    )
    live.take(SiteSpec("shop", (block,)))
    answers = {
        path: live.answer(path)
        for path in (
            *("/blog/a.txt", "/blog/", "/blog/none", "/blog/.git", "/old/a.txt", "/old/", "/old/.git"),
            *("/shut/open", "/shut/x", "/twice/a.txt", "/twice/none", "/told/a%20b"),
        )
    }
    assert answers == {
        "/blog/a.txt": "file news/a.txt",
        "/blog/": "file news/index.html",
        "/blog/none": "404",
        "/blog/.git": "403",
        "/old/a.txt": "file news/a.txt",
        "/old/": "file news/index.html",
        "/old/.git": "403",
        "/shut/open": "file y",
        "/shut/x": "403",
        "/twice/a.txt": "file other/a.txt",
        "/twice/none": "404",
        "/told/a%20b": "fixed /fixed/a b",
    }


def test_captures_in_a_query_are_encoded_alike(live: Live) -> None:
    (live.root / "www" / "news").mkdir(parents=True)
    (live.root / "www" / "news" / "a.txt").write_text("a")
    block = ServerBlock(
        (Listen(live.port),),
        ("a.test",),
        root=str(live.root / "www"),
        locations=(Location("", "/news/", "static", headers=(Header("X-Args", "$args"),)),),
        rewrites=(Rewrite("^/asked/(.*)$", "/news/a.txt?x=$1&y=1", "last"),),
    )
    # The flags that encode need the version of the server.
    live.web_server = replace(live.web_server, version=WEB_SERVERS[live.web_server.engine].version)
    live.take(SiteSpec("shop", (block,)))
    response = ask(live.port, "/asked/%23%25%26%2B%3B%3C%3E%3F%20=,z", host="a.test")
    # Apache writes hexadecimal digits in lowercase.
    assert response.headers["x-args"].lower() == "x=%23%25%26%2b%3b%3c%3e%3f%20=,z&y=1"
