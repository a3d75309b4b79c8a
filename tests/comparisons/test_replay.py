"""What a log becomes: paths in visitors' proportions, and nothing that must not be repeated."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.host import answers
from panel.benchmarks.tools.arguments import TOOLS, ArgumentError, clean_paths
from panel.comparisons.replay import SLOTS, replay_of


def line(target: str, method: str = "GET", status: int = 200, agent: str = "curl/8") -> str:
    return f'192.0.2.1 - - [21/Nov/2026:10:00:00 +0000] "{method} {target} HTTP/1.1" {status} 512 "-" "{agent}"'


def test_replay_mixes_paths_in_proportion_of_log() -> None:
    found = replay_of([line("/")] * 60 + [line("/a.css")] * 30 + [line("/b.js")] * 10)
    assert found.requests == 100
    assert Counter(found.paths) == {"/": 60, "/a.css": 30, "/b.js": 10}
    assert "/a.css" in found.paths[:4]


MIXED = [
    *(line("/"), line("/cached", status=304), line("/", "HEAD"), line("/doc", "PUT", 201), line("/doc", "DELETE", 204)),
    *([line("/order?card=1", "POST")] * 2),
    *(line("/gone", status=404), line("/login", "POST", 403), line("/", "PROPFIND", 200), "garbage", ""),
]


def test_replay_repeats_successful_get_and_head_by_default() -> None:
    found = replay_of(MIXED)
    assert set(found.paths) == {"/", "/cached", "HEAD /"}
    assert found.left_out == {"PUT": 1, "DELETE": 1, "POST": 2, "": 4}
    assert found.reasons[0].startswith("Other lines: 4. ")
    assert "Sent with POST: 2. Not selected for replay: the request may change the application's data." in found.reasons
    assert "Sent with PUT: 1. The request needs its body, which logs do not contain." in found.reasons


def test_replay_of_other_methods_keeps_weight_and_drops_query() -> None:
    found = replay_of(MIXED, other_methods=True)
    assert Counter(found.paths) == {"/": 17, "/cached": 17, "HEAD /": 17, "POST /order": 32, "DELETE /doc": 17}
    assert found.left_out == {"PUT": 1, "": 4}
    assert clean_paths("h2load", found.paths, with_methods=True) == found.paths


@pytest.mark.parametrize("tool", ["ab", "siege"])
def test_replay_never_gives_tool_an_unsupported_method(tool: str) -> None:
    with pytest.raises(ArgumentError, match=f"{tool} supports only GET"):
        clean_paths(tool, ["POST /order"], with_methods=True)


@pytest.mark.parametrize("entry", ["HEAD /", "PUT /doc", "POST //evil.example/", "POST  /", "post /", "POST /a b"])
def test_replay_rejects_unsendable_requests(entry: str) -> None:
    with pytest.raises(ArgumentError):
        clean_paths("wrk", [entry], with_methods=True)


@pytest.mark.parametrize("entry", ["PUT /doc", "HEAD //evil.example/", "HEAD  /", "head /", "HEAD /a b"])
def test_replay_rejects_methods_forbidden_for_gallop_load(entry: str) -> None:
    with pytest.raises(ArgumentError):
        clean_paths("h2load", [entry], with_methods=True)


def test_agent_compares_responses_of_every_load_method() -> None:
    assert {method for form in TOOLS.values() for method in form.methods} == set(answers.METHODS)


def test_stored_scenario_never_sends_other_methods() -> None:
    with pytest.raises(ArgumentError, match="start the path with /"):
        clean_paths("wrk", ["POST /order"])


def test_replay_drops_queries() -> None:
    lines = [line("/reset?token=abc"), line("/reset?token=def")]
    assert set(replay_of(lines).paths) == {"/reset"}
    assert set(replay_of(lines, queries=True).paths) == {"/reset?token=abc", "/reset?token=def"}


def test_replay_ignores_checks_by_paddock_itself() -> None:
    checks = [
        line("/app/paddock-check", agent="paddock-probe"),
        line("/gone", status=404, agent="paddock-probe") + "\n",
    ]
    found = replay_of([line("/"), *checks, line("/paddock-probe")])
    assert set(found.paths) == {"/", "/paddock-probe"} and found.requests == 2
    assert found.left_out == {}


def test_replay_leaves_out_absolute_urls_of_other_hosts() -> None:
    assert replay_of([line("//evil.example/"), line("http://evil.example/")]).paths == []


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), max_size=30), st.booleans())
def test_replay_yields_only_allowed_paths_from_any_log(texts: list[str], queries: bool) -> None:
    lines = [line("/" + text, method) for text in texts for method in ("GET", "HEAD", "POST")]
    found = replay_of(lines + texts, queries=queries, other_methods=True)
    assert len(found.paths) <= SLOTS
    if found.paths:
        assert clean_paths("h2load", found.paths, with_methods=True) == found.paths
