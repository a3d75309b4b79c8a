"""Generated sites in which every location answers with its own id, and requests that probe their edges."""

from __future__ import annotations

from hypothesis import strategies as st

from panel.rendering.spec import Listen, Location, ServerBlock, SiteSpec, Upstream, UpstreamServer

SEGMENTS = ["a", "b", "ab", "A", "x.gif", "img", "a b", "é"]
REGEXES = [
    r"\.gif$", r"^/a", r"b", r"/a/(b|c)$", r"^/(a|b)/x", r"[ab]b$", r"a{1,2}/", r"^/A", r"(?<t>[a-z]+)\.gif$", r"^/$",
    r"/$", r"^/img/|b$", r" ", r"/(?!a)[^/]+$",
]  # fmt: skip
NAMES = [
    "a.test", "b.test", "www.a.test", "*.a.test", "*.test", ".b.test", "www.*", "www.a.*", r"~^(?<sub>\w+)\.c\.test$",
    r"~^b", r"~\.test$",
]  # fmt: skip
HOSTS = [
    "a.test",
    "b.test",
    "www.a.test",
    "x.a.test",
    "x.b.test",
    "www.b.org",
    "www.a.org",
    "q.c.test",
    "none.org",
    "A.TEST",
]

paths = st.lists(st.sampled_from(SEGMENTS), max_size=3).map(lambda parts: "/" + "/".join(parts))
prefixes = st.tuples(paths, st.sampled_from(["", "/"])).map(lambda pair: pair[0] + pair[1] if pair[0] != "/" else "/")
matches = st.one_of(
    st.tuples(st.sampled_from(["", "", "^~", "="]), prefixes),
    st.tuples(st.sampled_from(["~", "~*"]), st.sampled_from(REGEXES)),
)


def _unique(item: tuple[str, str]) -> tuple[str, str]:
    return ("" if item[0] == "^~" else item[0], item[1])


locations = st.lists(matches, min_size=1, max_size=8, unique_by=_unique)
encoded = st.sampled_from(["{}", "{}/", "{}?q=1", "/%61{}", "/.{}", "/img/..{}", "/{}", "{}%2Fb"])
requests = st.lists(
    st.tuples(paths, encoded).map(lambda pair: pair[1].format(_spelled(pair[0]))), min_size=12, max_size=12
)


def _spelled(path: str) -> str:
    return path.replace(" ", "%20").replace("é", "%C3%A9")


def answering(match: str, pattern: str, text: str) -> Location:
    return Location(match, pattern, "return", return_code=200, return_value=text)  # type: ignore[arg-type]


def site(found: list[tuple[str, str]], port: int, root: str) -> SiteSpec:
    items = tuple(answering(match, pattern, f"location {n}") for n, (match, pattern) in enumerate(found))
    return SiteSpec("generated", (ServerBlock((Listen(port),), ("a.test",), root=root, locations=items),))


def named(blocks: list[list[str]], port: int) -> SiteSpec:
    found = tuple(
        ServerBlock((Listen(port),), tuple(names), locations=(answering("", "/", f"block {number}"),))
        for number, names in enumerate(blocks)
    )
    return SiteSpec("generated", found)


def proxied(port: int) -> SiteSpec:
    upstream = Upstream("up", (UpstreamServer("127.0.0.1:1"),))
    items = (Location("", "/api/", "proxy", upstream="up"), answering("~", "p", "regex"), answering("", "/", "root"))
    return SiteSpec("generated", (ServerBlock((Listen(port),), ("a.test",), locations=items),), upstreams=(upstream,))
