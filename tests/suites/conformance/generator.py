"""Generated sites within what every engine can say, and requests that probe their edges.

A site is made with names below `site.test`; `numbered` gives it names of its own, so that many of them can live in one
server. Every location is recognisable by its answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

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
    Upstream,
    UpstreamServer,
    from_json,
    to_json,
)
from tests.suites.conformance import generated_rewrites
from tests.suites.conformance.wire import Request
from tests.suites.conformance.world import World

PHP_SAYS = (
    "<?php header('X-App: php'); echo 'php ', $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['SCRIPT_NAME'], ' info=',"
    " $_SERVER['PATH_INFO'] ?? '', ' uri=', $_SERVER['REQUEST_URI'], ' query=', $_SERVER['QUERY_STRING'] ?? '',"
    " ' file=', basename($_SERVER['SCRIPT_FILENAME']),"
    " ' own=', $_SERVER['HTTP_X_OWN'] ?? '', ' body=', strlen(file_get_contents('php://input'));"
)
FILES = {
    "index.html": "root index", "b.txt": "b", "x.gif": "GIF root", "a/index.html": "a index", "a/x.gif": "GIF a",
    "a/b/index.html": "a/b index", "a/b/c.txt": "c", "img/x.gif": "GIF img", "img/index.html": "img index",
    "a b/c d.txt": "blanks", "é/ü.html": "umlauts", "plus+sign.txt": "plus", "per%cent.txt": "percent",
    "q?mark.txt": "question mark", ".hidden": "hidden", "semi;colon.txt": "semicolon", "x.gif.txt": "not a GIF",
    "empty/none.txt": "in a folder without an index", "empty.txt": "", "big.txt": "0123456789abcdef" * 2500,
    "404.html": "own 404 page", "50x.html": "own 50x page", "info.php": PHP_SAYS, "a/index.php": PHP_SAYS,
    "index.php": PHP_SAYS, "other/a/x.gif": "GIF other", "other/img/x.gif": "GIF other img", "other/b.txt": "other b",
    "other/index.html": "other index", "AB/index.html": "upper case", "style.css": "p { margin: 0 }" * 20,
}  # fmt: skip

SEGMENTS = ["a", "b", "ab", "A", "x.gif", "img", "a b", "é", "AB", "b.txt", "info.php", "empty", "c.txt", "index.html"]
REGEXES = [
    r"\.gif$", r"^/a", r"b", r"/a/(b|c)$", r"^/(a|b)/x", r"[ab]b$", r"a{1,2}/", r"^/A", r"(?<t>[a-z]+)\.gif$", r"^/$",
    r"/$", r"^/img/|b$", r" ", r"/(?!a)[^/]+$", r"\.(gif|jpg|txt)$", r"^/(?:a|img)/(.+)$", r"é", r"\d", r"index",
    r"^/.{2}$", r"[^/]{3,}$", r"\.html?$", r"^/a b/", r"\+", r";", r"[%?]",
]  # fmt: skip
SCRIPTS = [r"\.php$", r"[^/]\.php(/|$)", r"^/a/[^/]+\.php$"]
HOST = "site.test"
PASSWORD = "$2y$05$aPEPaqOSr./rOPtGVeuICuuxFbxf3aW.gVp75hjfUyg3UYVgWTTCG"  # bcrypt of "password"
RIGHT, WRONG = "Basic YW5uOnBhc3N3b3Jk", "Basic YW5uOndyb25n"  # ann:password, ann:wrong

paths = st.lists(st.sampled_from(SEGMENTS), max_size=3).map(lambda parts: "/" + "/".join(parts))
prefixes = st.tuples(paths, st.sampled_from(["", "/"])).map(lambda pair: pair[0] + pair[1] if pair[0] != "/" else "/")
matches = st.one_of(
    st.tuples(st.sampled_from(["", "", "", "^~", "="]), prefixes),
    st.tuples(st.sampled_from(["~", "~*"]), st.sampled_from(REGEXES)),
    st.tuples(st.just("~"), st.sampled_from(SCRIPTS)),
)
VALUES = ["A", "two words", "q\"uo'te", "100%", "a;b", "$host $scheme", "\\", "$http_range"]
values = st.sampled_from(VALUES)
texts = st.sampled_from([*VALUES, "$request_method $uri", "$args", "$request_uri", "two\nlines", "/path", "http://url"])
headers = st.lists(
    st.tuples(st.sampled_from(["X-One", "X-Two"]), values).map(lambda item: Header(*item)),
    max_size=2,
    unique_by=lambda header: header.name,
).map(tuple)
tries = st.sampled_from([
    ("$uri", "=404"), ("$uri", "$uri/", "=404"), ("$uri", "$uri/", "/index.html"), ("$uri", "/index.php?$args"),
    ("$uri", "/a/index.html"), ("$uri", "$uri/", "=403"), ("$uri", "/index.php?q=$uri&$args"),
])  # fmt: skip
expires = st.sampled_from(["", "", "1h", "30d", "max", "epoch", "-1", "off"])
rules = st.sampled_from([
    (), (), (), (AccessRule("deny", "127.0.0.1"),), (AccessRule("allow", "127.0.0.0/8"), AccessRule("deny", "all")),
    (AccessRule("deny", "10.0.0.0/8"),), (AccessRule("allow", "10.0.0.0/8"), AccessRule("deny", "all")),
    (AccessRule("deny", "10.0.0.1"), AccessRule("allow", "127.0.0.1"), AccessRule("deny", "all")),
])  # fmt: skip


@dataclass(frozen=True)
class Generated:
    """A site and what is asked of it."""

    spec: SiteSpec
    requests: tuple[Request, ...]


@st.composite
def _location(draw: st.DrawFn, where: tuple[str, str], world: World) -> Location:
    match, pattern = where
    kinds = ["static"] * 4 + ["return"] * 3 + ["proxy", "proxy", "deny"]
    handler = "php" if pattern in SCRIPTS else draw(st.sampled_from(kinds))
    location = Location(match, pattern, handler)  # type: ignore[arg-type]
    if handler == "deny":
        return location
    location = replace(location, headers=draw(headers), expires=draw(expires))
    if handler == "return":
        return _returning(draw, location)
    location = replace(location, access_rules=draw(rules))
    if draw(st.integers(0, 9)) == 0:
        auth = BasicAuth("Staff", (("ann", PASSWORD),), f"{world.www.removesuffix('/www')}/htpasswd-generated")
        location = replace(location, basic_auth=auth)
    if handler == "proxy":
        return _proxied(draw, location)
    if handler == "php":
        return generated_rewrites.kept(draw, replace(location, php_pool="php", split_path_info="(/|$)" in pattern))
    return _static(draw, location, world)


def _returning(draw: st.DrawFn, location: Location) -> Location:
    code = draw(st.sampled_from([200, 200, 200, 301, 302, 308, 403, 404, 410, 503, 204]))
    if code in (301, 302, 308):
        targets = ["https://x.test/", "/b.txt", "https://x.test$request_uri", "/a?$args", "https://$host/?u=$uri"]
        return replace(location, return_code=code, return_value=draw(st.sampled_from(targets)))
    value = "" if code == 204 else draw(texts.map(lambda text: text.replace("$$", "$")) | st.just(""))
    return replace(location, return_code=code, return_value=value)


def _proxied(draw: st.DrawFn, location: Location) -> Location:
    own = draw(st.sampled_from([(), (), (Header("X-Own", "$host"),), (Header("X-Own", 'a "b" 100%'),)]))
    uri = "" if location.match in ("~", "~*") else draw(st.sampled_from(["", "", "/", "/v2/", "/v2"]))
    return generated_rewrites.kept(draw, replace(location, upstream="app", proxy_uri=uri, request_headers=own))


def _static(draw: st.DrawFn, location: Location, world: World) -> Location:
    kind = draw(st.sampled_from(["plain", "plain", "try", "try", "root", "alias", "index"]))
    if kind == "try":
        return replace(location, try_files=draw(tries))
    if kind == "root":
        return replace(location, root=f"{world.www}/other")
    if kind == "index":
        return replace(location, index=draw(st.sampled_from([("b.txt", "index.html"), ("none.html",), ("index.php",)])))
    if kind == "alias" and location.match == "":
        end = "/" if location.pattern.endswith("/") else ""
        return replace(location, alias=f"{world.www}/a{end}")
    return location


@st.composite
def _site(draw: st.DrawFn, world: World) -> SiteSpec:
    places = draw(st.lists(matches, max_size=7, unique_by=lambda item: ("" if item[0] == "^~" else item[0], item[1])))
    pages = st.sampled_from([(), (), (ErrorPage((404,), "/404.html"),), (ErrorPage((403, 404, 503), "/50x.html"),)])
    locations = tuple(draw(_location(where, world)) for where in places)
    shown = draw(pages)
    # An error page is a file, as the server's documentation has it; a location that answers it otherwise would loop.
    locations += tuple(Location("=", page.uri, "static") for page in shown)
    block = ServerBlock(
        (Listen(world.port),),
        (HOST, f"*.w.{HOST}"),
        root=world.www,
        index=draw(st.sampled_from([(), ("index.html",), ("index.php", "index.html")])),
        try_files=draw(st.sampled_from([(), (), ("$uri", "$uri/", "=404"), ("$uri", "/index.php?$args")])),
        error_pages=shown,
        headers=draw(headers),
        locations=locations,
    )
    upstream = Upstream("app", (UpstreamServer(world.backend),))
    block = generated_rewrites.moved(draw, block)
    return SiteSpec("generated", (block,), upstreams=(upstream,), php_pools=(PhpPool("php", world.php),))


Spell = Callable[[str], str]
FORMS: list[Spell] = [
    *[lambda path: path] * 8, lambda path: path + "/", lambda path: path + "?q=1", lambda path: path + "?",
    lambda path: path + "?a=%20&b=/x/../y", lambda path: "/" + path, lambda path: "/." + path,
    lambda path: "/img/.." + path, lambda path: path + "/..", lambda path: path + "/.", lambda path: path + "//",
    lambda path: path.replace("a", "%61"), lambda path: path + "%2Fb", lambda path: path + ".gif",
    lambda path: path + "/x.php/info", lambda path: path + "/info.php", lambda path: path + "%00",
    lambda path: path + "%",
    lambda path: path + "%zz", lambda path: "/.." + path, lambda path: path + ";p=1", lambda path: path + "#f",
    lambda path: path + "%3Fx", lambda path: path + "%23", lambda path: path + "%25", lambda path: path + "%5C",
    lambda path: path + "/%2e%2e/b.txt", lambda path: path.upper(), lambda path: path + "%0A",
    lambda path: path + "\xff",
    lambda path: "http://" + HOST + path, lambda path: path + "+", lambda path: path + '"', lambda path: path + "%E9",
]  # fmt: skip
KNOWN = [f"/{name}" for name in FILES]
VERBS = ["GET"] * 24 + ["HEAD"] * 3 + ["POST", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "FOO"]
SENT: list[tuple[tuple[str, str], ...]] = [
    *[()] * 12, (("Range", "bytes=0-1"),), (("Range", "bytes=2-"),),
    (("If-Modified-Since", "Wed, 01 Jan 2020 00:00:00 GMT"),),
    (("If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT"),), (("Authorization", RIGHT),), (("Authorization", WRONG),),
    (("Accept-Encoding", "gzip"),), (("X-Own", "client"),), (("X-Forwarded-For", "192.0.2.1"),),
    (("Connection", "close"),), (("Cookie", "session=1"), ("X-Own", "client")),
    (("Cookie", "other=1; logged_in_x=2"), ("X-Own", "client")), (("X-Own", "client"),),
    (("Cache-Control", "no-cache"),),
]  # fmt: skip


def spelled(path: str) -> str:
    """As a client writes it: what may not stand in a target is encoded."""
    plain = {chr(code) for code in range(33, 127)} - set('%?#"')
    return "".join(chr(byte) if chr(byte) in plain else f"%{byte:02X}" for byte in path.encode())


@st.composite
def _request(draw: st.DrawFn) -> Request:
    path = spelled(draw(paths | st.sampled_from(KNOWN)))
    method = draw(st.sampled_from(VERBS))
    host = draw(st.sampled_from([HOST] * 10 + [HOST.upper(), f"q.w.{HOST}", f"{HOST}."]))
    return Request(
        draw(st.sampled_from(FORMS))(path),
        method,
        host,
        draw(st.sampled_from(["1.1"] * 12 + ["1.0"])),
        draw(st.sampled_from(SENT)),
        draw(st.sampled_from(["", "a=1", "x" * 300])) if method in ("POST", "PUT", "PATCH") else "",
    )


def numbered(spec: SiteSpec, requests: tuple[Request, ...], number: int) -> Generated:
    """The site with names that no other has."""
    name = f"s{number}.test"
    text = json.dumps(to_json(spec)).replace(HOST, name)
    own = replace(from_json(SiteSpec, json.loads(text)), name=f"generated-{number}")
    asked = tuple(
        replace(
            item,
            host=None if item.host is None else item.host.replace(HOST, name).replace(HOST.upper(), name.upper()),
            target=item.target.replace(HOST, name),
        )
        for item in requests
    )
    return Generated(own, asked)


def generate(world: World, *, sites: int, requests: int, chance: int) -> list[Generated]:
    """`sites` sites with `requests` requests each; the same `chance` makes the same ones."""
    specs = _collected(_site(world), sites, chance)
    several = st.lists(_request(), min_size=requests, max_size=requests).map(tuple)
    asked = _collected(several, sites, chance + 1)
    return [numbered(*pair, number) for number, pair in enumerate(zip(specs, asked, strict=True))]


def _collected(strategy: st.SearchStrategy[Any], count: int, chance: int) -> list[Any]:
    """`count` different examples."""
    found: dict[Any, None] = {}
    for turn in range(50):  # Hypothesis repeats some
        if len(found) >= count:
            break

        @seed(chance + turn * 1000)
        @settings(
            max_examples=max(count - len(found), 20),  # the first is always the simplest
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(strategy)
        def collect(example: Any) -> None:
            found[example] = None

        collect()
    assert len(found) >= count, f"only {len(found)} of {count} different examples came out"
    return list(found)[:count]
