"""The explanation of a request's location agrees with real servers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panel.rendering.explain import Explanation, Request, explain
from panel.rendering.normalise import BadPath, normalise
from panel.rendering.spec import Listen, Location, Rewrite, ServerBlock, SiteSpec, TlsFiles
from tests.rendering.cases import nested, proxy, redirects, tls, wordpress
from tests.rendering.generated_sites import HOSTS, NAMES, locations, named, proxied, requests, site
from tests.rendering.live_server import Live
from tests.support.apache import ApacheInstance


@pytest.fixture(scope="module", params=["nginx", "apache"])
def live(request: pytest.FixtureRequest) -> Iterator[Live]:
    with tempfile.TemporaryDirectory(prefix="pd-") as folder:
        Path(folder).chmod(0o755)
        server = Live(request.param, Path(folder))
        yield server
        server.stop()


def said(explanation: Explanation) -> str:
    """The answer in the words of a generated site, whose root is there and empty."""
    if explanation.outcome.kind == "files":
        return "403" if explanation.steps[2].text == "/" else "404"
    return explanation.outcome.text or str(explanation.outcome.status)


@settings(max_examples=25, deadline=None)
@given(found=locations, asked=requests)
def test_explained_location_matches_real_server(live: Live, found: list[tuple[str, str]], asked: list[str]) -> None:
    spec = site(found, live.port, str(live.root / "www"))
    live.take(spec)
    for path in asked:
        explanation = explain([spec], Request("http", "a.test", live.port, path))
        assert live.answer(path) == said(explanation), (path, explanation.steps)


@settings(max_examples=15, deadline=None)
@given(names=st.lists(st.lists(st.sampled_from(NAMES), max_size=3, unique=True), min_size=1, max_size=4))
def test_explained_server_block_matches_real_server(live: Live, names: list[list[str]]) -> None:
    taken: set[str] = set()
    blocks = [
        [name for name in block if name.lstrip(".") not in taken and not taken.add(name.lstrip("."))] for block in names
    ]  # type: ignore[func-returns-value]
    if isinstance(live.server, ApacheInstance):
        return _apache_names(live, blocks)
    spec = named(blocks, live.port)
    live.take(spec)
    for host in HOSTS:
        explanation = explain([spec], Request("http", host, live.port))
        assert live.answer("/", host) == said(explanation), (host, explanation.steps[1])
    return None


def _apache_names(live: Live, blocks: list[list[str]]) -> None:
    """One name a block: what Apache's order of virtual hosts can say exactly. It has no regular expressions."""
    single = [[name] for block in blocks for name in block if not name.startswith("~")]
    if not single:
        return
    spec = named(single, live.port)
    live.take(spec)
    for host in HOSTS:
        explanation = explain([spec], Request("http", host, live.port))
        if "no server name matches" not in explanation.steps[1].reasons[0]:
            assert live.answer("/", host) == said(explanation), (host, explanation.steps[1])


@pytest.mark.parametrize("turned", [False, True])
def test_explain_ranks_name_kinds_in_any_order(live: Live, turned: bool) -> None:
    """Each host matches several server names. Apache takes the first match, so the order must put the best first."""
    names = ["www.*", "*.test", "www.a.*", ".b.test", "*.a.test", "www.a.test", "a.test"]
    spec = named([[name] for name in (names[::-1] if turned else names)], live.port)
    live.take(spec)
    for host in [host for host in HOSTS if host != "none.org"]:
        explanation = explain([spec], Request("http", host, live.port))
        assert live.answer("/", host) == said(explanation), (host, explanation.steps[1])


def test_explain_handles_name_beside_dotted_wildcard(live: Live) -> None:
    spec = named([["*.test"], ["b.test", ".b.test"]], live.port)
    live.take(spec)
    assert [live.answer("/", host) for host in ("b.test", "x.b.test", "c.test")] == ["block 1", "block 1", "block 0"]


def test_explain_reports_redirect_of_proxied_prefix_without_slash(live: Live) -> None:
    spec = proxied(live.port)
    live.take(spec)
    for path in ("/api", "/apix", "/p", "/"):
        explanation = explain([spec], Request("http", "a.test", live.port, path))
        expected = str(explanation.outcome.status) if explanation.outcome.status == 301 else said(explanation)
        assert live.answer(path) == expected, path


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/", "/"), ("/a//b", "/a/b"), ("/a/./b/../c", "/a/c"), ("/a/..", "/"), ("/a/b/..", "/a/"),
        ("/%61%2fb", "/a/b"),
        ("/a/.", "/a/"), ("/...", "/..."), ("/a%20b", "/a b"), ("/%C3%A9", "/é"), ("/%ff", "/\udcff"),
    ],
)  # fmt: skip
def test_explain_normalizes_paths(target: str, path: str) -> None:
    assert normalise(target) == path


@pytest.mark.parametrize("target", ["a", "/..", "/a/../..", "/%2e%2e/", "/%", "/%zz", "/%00", ""])
def test_explain_reports_rejected_paths(target: str) -> None:
    with pytest.raises(BadPath):
        normalise(target)


def test_explain_steps_name_every_decision() -> None:
    explanation = explain([nested()], Request("http", "nested.example", 80, "/docs/old/%2e/x.PNG?y=1"))
    assert [step.name for step in explanation.steps] == ["listener", "server", "path", "location", "answer"]
    assert explanation.location == "/blocks/0/locations/6"
    assert (
        "location /docs/old/ is the longest prefix of the path; the web server checks regular expressions next"
        in explanation.steps[3].reasons
    )
    assert explanation.outcome.files == ("/srv/nested/docs/old/x.PNG",)


def test_explain_reports_outcome() -> None:
    def ask_for(spec: SiteSpec, host: str, path: str, port: int = 80) -> Explanation:
        return explain([spec], Request("https" if port == 443 else "http", host, port, path))

    page = ask_for(wordpress(), "blog.example", "/post/1?q=2", 443).outcome
    assert page.files == ("/srv/blog/post/1", "/srv/blog/post/1/")
    assert page.otherwise == r"/index.php?q=2, which location ~ \.php$ handles"
    assert ask_for(wordpress(), "blog.example", "/x.php", 443).outcome.files == ("/srv/blog/x.php",)
    assert ask_for(wordpress(), "blog.example", "/uploads/x.php", 443).outcome.kind == "deny"
    assert ask_for(wordpress(), "blog.example", "/a?b").outcome.text == "https://blog.example/a?b"
    assert ask_for(redirects(), "www.example.net", "/user/12").outcome.text == "/people/12"
    assert ask_for(redirects(), "example.net", "/a%20b?c").outcome.text == "https://www.example.net/a%20b?c"
    assert ask_for(proxy(), "app.example", "/api/list").outcome.text == "/v2/list at app (127.0.0.1:8080)"
    assert ask_for(nested(), "nested.example", "/photos/2001/x.jpg").outcome.files == ("/srv/photos/2001-x.jpg",)
    assert ask_for(nested(), "nested.example", "/").outcome.files == ("/srv/home/home.html",)
    assert ask_for(nested(), "nested.example", "/docs/a/b").outcome.files == ("/srv/manuals/a/b",)


def test_explain_reports_request_without_server_block() -> None:
    assert "no server block listens" in explain([tls()], Request("http", "secure.example", 8080)).steps[-1].text
    assert explain([tls()], Request("http", "secure.example", 443)).outcome.status == 400
    assert "handshake" in explain([tls()], Request("https", "secure.example", 80)).outcome.text
    assert explain([tls()], Request("http", "secure.example", 80, "/../x")).outcome.status == 400


def test_explain_prefers_specific_listen_address() -> None:
    own = SiteSpec("own", (ServerBlock((Listen(80, "10.0.0.1"),), ("own.test",), root="/srv/own"),))
    every = SiteSpec("every", (ServerBlock((Listen(80), Listen(80, "::")), ("every.test",), root="/srv/e"),))
    assert explain([own, every], Request("http", "every.test", 80, address="10.0.0.1")).site == "own"
    assert explain([own, every], Request("http", "own.test", 80, address="10.0.0.2")).site == "every"
    assert explain([own, every], Request("http", "own.test", 80, address="fd00::1")).site == "every"


def test_explain_uses_default_server_for_unknown_name() -> None:
    secure = TlsFiles("t", "/t.pem", "/t.key")
    first = SiteSpec("a", (ServerBlock((Listen(443, tls=True),), ("a.test",), root="/srv/a", tls=secure),))
    default = SiteSpec(
        "b", (ServerBlock((Listen(443, tls=True, default_server=True),), ("b.test",), root="/srv/b", tls=secure),)
    )
    assert explain([first, default], Request("https", "none.test", 443)).site == "b"
    assert explain([first], Request("https", "none.test", 443)).site == "a"


def test_explain_reports_path_outside_site_folder() -> None:
    block = ServerBlock(
        (Listen(80),),
        ("a.example",),
        root="/srv/a",
        rewrites=(Rewrite("^/old/(.*)$", "/new/$1"), Rewrite("^/(..)a(.*)$", "/$1$2")),
        locations=(
            Location("", "/pic", "static", alias="/srv/a/pic"),
            Location("", "/tried/", "static", try_files=("/$arg_f", "/x.$uri", "=404")),
        ),
    )
    spec = SiteSpec("a", (block,))

    def answer(path: str) -> tuple[str, int | None]:
        outcome = explain([spec], Request("http", "a.example", 80, path)).outcome
        return outcome.kind, outcome.status

    assert answer("/old/..%0a") == ("return", 400)
    assert answer("/..a/beta") == ("return", 403)
    assert answer("/picx") == ("return", 404)
    assert answer("/pic/x") == answer("/tried/x") == ("files", None)


@pytest.mark.parametrize("path", ["/a/x.txt", "/a/x%0A", "/a/%0A.txt"])
def test_line_break_in_a_path_changes_nothing_where_no_path_can_leave_the_folder(path: str) -> None:
    block = ServerBlock(
        (Listen(80),),
        ("a.test",),
        root="/srv/a",
        rewrites=(Rewrite("^/old/(?<rest>[a-z]*)", "/a/$rest"),),
        locations=(
            Location("", "/a/", "static", try_files=("$uri", "/index.php?q=$uri&$args")),
            Location("", "/", "static"),
        ),
    )
    found = explain([SiteSpec("a", (block,))], Request("http", "a.test", 80, path))
    assert found.location == "/blocks/0/locations/0" and found.outcome.kind == "files"
    assert [lead.location for lead in found.outcome.leads] == ["/blocks/0/locations/1"]
