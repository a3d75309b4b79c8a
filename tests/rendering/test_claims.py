"""Overlaps with another team's site are found before saving, as explain and real servers see them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panel.rendering import names
from panel.rendering.claims import NameIndex, overlap, takes
from panel.rendering.explain import Request, explain
from panel.rendering.spec import Listen, ServerBlock, SiteSpec
from tests.rendering.generated_sites import answering
from tests.rendering.live_server import Live
from tests.support.http_client import ask

LABELS = ["a", "b", "www", "test", "org", "B"]
hosts = st.lists(st.sampled_from(LABELS), min_size=1, max_size=4).map(".".join)
# One that PCRE and Python read alike, so that a search tells what it matches.
regexes = st.one_of(
    st.sampled_from(
        [r"^a", r"b", r"\.test$", r"^(a|b)\.test$", r"^www\.(a|b)$|\.org$", r"^[a-z]+$", r"(www\.)?a\.test$"]
    ),
    hosts.map(lambda host: "^" + host.replace(".", r"\.") + "$"),
    hosts.map(lambda host: host.replace(".", ".") + "$"),
)
server_names = st.one_of(
    hosts,
    hosts.map(lambda host: f"*.{host}"),
    hosts.map(lambda host: f".{host}"),
    hosts.map(lambda host: f"{host}.*"),
    regexes.map(lambda text: f"~{text}"),
)
ADDRESSES = ["", "127.0.0.1", "127.0.0.2", "::", "::1"]
listens = st.builds(
    Listen, port=st.sampled_from([80, 81]), address=st.sampled_from(ADDRESSES), default_server=st.booleans()
)
blocks = st.builds(
    ServerBlock,
    listens=st.lists(listens, min_size=1, max_size=2).map(tuple),
    names=st.lists(server_names, max_size=2).map(tuple),
)


def fits(name: str, host: str) -> bool:
    return names.best(host.lower(), [(0, name)]) is not None


@settings(max_examples=2000, deadline=None)
@given(one=server_names, other=server_names, host=hosts)
def test_names_matching_one_host_overlap(one: str, other: str, host: str) -> None:
    if fits(one, host) and fits(other, host):
        assert overlap(one, other), (one, other, host)
    if fits(one, host):
        assert overlap(one, host)


@settings(max_examples=500, deadline=None)
@given(rows=st.lists(server_names, max_size=8, unique=True), asked=server_names)
def test_overlap_index_equals_pairwise_comparison(rows: list[str], asked: str) -> None:
    found = {name for name, _owner in NameIndex((row, None) for row in rows).overlapping(asked)}
    assert found == {row for row in rows if overlap(row, asked)}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a.test", "A.test", True), ("a.test", "b.test", False), ("a.test", "*.a.test", False),
        ("a.test", ".a.test", True), ("x.a.test", "*.a.test", True), ("x.y.a.test", "*.a.test", True),
        ("*.a.test", "*.b.test", False), ("*.x.a.test", "*.a.test", True), ("*.aa.test", "*.a.test", False),
        ("www.*", "*.test", True), ("www.*", "www.a.*", True), ("www.*", "ww.*", False), ("www.*", "www.a", True),
        (r"~^www\.a\.test$", "www.a.test", True), (r"~^w+\.a\.test$", "*.b.test", False),
        (r"~\.a\.test$", "*.test", True), ("~a", "b.test", True), (r"~^a\.test", "b.org", True),
        (r"~(?i)a\.test$", "b.org", True), (r"~^a\.test$|.", "b.org", True), (r"~^\Qx\E.test$", "b.org", True),
        (r"~(*ACCEPT)a\.test$", "b.org", True), ("~(?x)a.test # $", "b.org", True),
        (r"~[[:alpha:]]\.a\.test$", "b.org", True), (r"~^a\.test\z", "b.org", True),
        (r"~^(?<n>.+)\.a\.test$", "b.org", False), (r"~^a\.test\$", "b.org", True), (r"~^a\.tes[t]$", "b.org", True),
    ],
)  # fmt: skip
def test_name_overlap_is_detected(one: str, other: str, expected: bool) -> None:
    assert overlap(one, other) == overlap(other, one) == expected


def answering_block(block: ServerBlock, text: str) -> ServerBlock:
    return ServerBlock(block.listens, block.names, locations=(answering("", "/", text),))


@settings(max_examples=1500, deadline=None)
@given(
    own=blocks,
    others=st.lists(blocks, min_size=1, max_size=3),
    asked=st.lists(hosts, min_size=6, max_size=6),
)
def test_site_without_overlap_changes_no_routing_in_explain(
    own: ServerBlock, others: list[ServerBlock], asked: list[str]
) -> None:
    """Checks requests for another team's name and for its default server with explain."""
    if takes([own], others):
        return
    theirs = [SiteSpec(f"b{number}", (block,)) for number, block in enumerate(others)]
    exact = [name for block in others for name in block.names if names.kind(name) == "exact"]
    for address in ("127.0.0.1", "127.0.0.2", "::1", "::2", "10.0.0.1"):
        for port in (80, 81):
            for host in [*asked, *exact]:
                request = Request("http", host, port, address=address)
                before, after = explain(theirs, request), explain([*theirs, SiteSpec("a", (own,))], request)
                if before.site and after.site == "a":
                    assert is_free(before.steps[1].reasons, after.steps[1].reasons), (request, before, after)


def is_free(before: tuple[str, ...], after: tuple[str, ...]) -> bool:
    """Whether a request may go to another team: no default server was said, or one was and the new name is narrow."""
    if "this server block is the first, and no server block is the default server" in before:
        return True
    return "it is the default server" in before and len(after) == 1


@pytest.fixture(scope="module", params=["nginx", "apache"])
def live(request: pytest.FixtureRequest) -> Iterator[Live]:
    with tempfile.TemporaryDirectory(prefix="pd-") as folder:
        Path(folder).chmod(0o755)
        server = Live(request.param, Path(folder))
        yield server
        server.stop()


THEIR_NAMES = ("b.test", "*.w.b.test", "x.c.test")
THEIR_HOSTS = ("b.test", "v.w.b.test", "x.c.test")


def answers(live: Live, own: ServerBlock | None) -> list[str]:
    """Who answers the other team's visitors, on a real server; each server has the hosts of `THEIR_NAMES`."""
    theirs = answering_block(ServerBlock((Listen(live.port),), THEIR_NAMES), "theirs")
    sites = [SiteSpec("b", (theirs,))] + ([SiteSpec("a", (answering_block(own, "taken"),))] if own else [])
    live.take(*sites, told_at=("", *{listen.address for listen in own.listens if listen.address}) if own else ("",))
    return [ask(live.port, host=host).text for host in THEIR_HOSTS]


@pytest.mark.parametrize(
    "own_names", [("*.test",), (".c.test",), ("v.w.b.test",), ("*.v.w.b.test", "v.w.b.test"), ("a.test",), ("www.*",)]
)
def test_site_without_overlap_changes_no_routing_on_real_server(live: Live, own_names: tuple[str, ...]) -> None:
    own = ServerBlock((Listen(live.port),), own_names)
    theirs = ServerBlock((Listen(live.port),), THEIR_NAMES)
    found = answers(live, own)
    assert answers(live, None) == ["theirs"] * 3
    if "taken" in found:
        assert takes([own], [theirs], live.web_server.engine)
    if own_names == ("v.w.b.test",):
        assert "taken" in found
    if own_names == ("a.test",):
        assert not takes([own], [theirs], live.web_server.engine) and found == ["theirs"] * 3


def test_specific_address_takes_all_its_requests_on_real_server(live: Live) -> None:
    own = ServerBlock((Listen(live.port, "127.0.0.1"),), ("a.test",))
    theirs = ServerBlock((Listen(live.port),), THEIR_NAMES)
    found = answers(live, own)
    assert found == ["taken"] * 3
    assert [claim.value for claim in takes([own], [theirs], live.web_server.engine)] == [f"127.0.0.1:{live.port}"]


def test_overlap_among_many_names_is_fast() -> None:
    rows = [(f"{prefix}site-{n}.example", n) for n in range(20_000) for prefix in ("", "*.")]
    started = time.perf_counter()
    index = NameIndex(rows)
    for n in range(20_000):
        assert not any(owner != n for _name, owner in index.overlapping(f"www.site-{n}.example"))
    assert time.perf_counter() - started < 10, "40,000 names are compared with 20,000 without going through all"
