"""What a log becomes: paths in visitors' proportions, and nothing that must not be repeated."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.host import answers
from panel.benchmarks.tools.arguments import TOOLS, ArgumentError, clean_paths
from panel.trials.replay import SLOTS, replay_of


def line(target: str, method: str = "GET", status: int = 200) -> str:
    return f'192.0.2.1 - - [21/Nov/2026:10:00:00 +0000] "{method} {target} HTTP/1.1" {status} 512 "-" "curl/8"'


def test_paths_come_in_the_proportions_of_the_log_and_not_in_lumps() -> None:
    found = replay_of([line("/")] * 60 + [line("/a.css")] * 30 + [line("/b.js")] * 10)
    assert found.requests == 100
    assert Counter(found.paths) == {"/": 60, "/a.css": 30, "/b.js": 10}
    assert "/a.css" in found.paths[:4]


MIXED = [
    *(line("/"), line("/cached", status=304), line("/", "HEAD"), line("/doc", "PUT", 201), line("/doc", "DELETE", 204)),
    *([line("/order?card=1", "POST")] * 2),
    *(line("/gone", status=404), line("/login", "POST", 403), line("/", "PROPFIND", 200), "garbage", ""),
]


def test_only_answered_get_and_head_requests_are_repeated_unless_others_are_asked_for() -> None:
    found = replay_of(MIXED)
    assert set(found.paths) == {"/", "/cached", "HEAD /"}
    assert found.left_out == {"PUT": 1, "DELETE": 1, "POST": 2, "": 4}
    assert found.reasons[0].startswith("Other lines: 4. ")
    assert "Sent with POST: 2. Not selected for replay: the request may change the application's data." in found.reasons
    assert "Sent with PUT: 1. The request needs its body, which logs do not contain." in found.reasons


def test_other_methods_keep_their_name_and_weight_and_lose_their_query() -> None:
    found = replay_of(MIXED, other_methods=True)
    assert Counter(found.paths) == {"/": 17, "/cached": 17, "HEAD /": 17, "POST /order": 32, "DELETE /doc": 17}
    assert found.left_out == {"PUT": 1, "": 4}
    assert clean_paths("h2load", found.paths, with_methods=True) == found.paths


@pytest.mark.parametrize("tool", ["ab", "siege"])
def test_a_tool_that_cannot_send_a_method_is_never_given_it(tool: str) -> None:
    with pytest.raises(ArgumentError, match=f"{tool} supports only GET"):
        clean_paths(tool, ["POST /order"], with_methods=True)


@pytest.mark.parametrize("entry", ["HEAD /", "PUT /doc", "POST //evil.example/", "POST  /", "post /", "POST /a b"])
def test_what_cannot_be_sent_truly_is_refused(entry: str) -> None:
    with pytest.raises(ArgumentError):
        clean_paths("wrk", [entry], with_methods=True)


@pytest.mark.parametrize("entry", ["PUT /doc", "HEAD //evil.example/", "HEAD  /", "head /", "HEAD /a b"])
def test_what_the_panels_own_generator_is_not_to_send_is_refused(entry: str) -> None:
    with pytest.raises(ArgumentError):
        clean_paths("h2load", [entry], with_methods=True)


def test_agents_compare_answers_to_every_method_that_a_load_may_have() -> None:
    assert {method for form in TOOLS.values() for method in form.methods} == set(answers.METHODS)


def test_a_stored_scenario_never_sends_another_method() -> None:
    with pytest.raises(ArgumentError, match="start the path with /"):
        clean_paths("wrk", ["POST /order"])


def test_queries_are_cut_off_because_they_may_hold_secrets() -> None:
    lines = [line("/reset?token=abc"), line("/reset?token=def")]
    assert set(replay_of(lines).paths) == {"/reset"}
    assert set(replay_of(lines, queries=True).paths) == {"/reset?token=abc", "/reset?token=def"}


def test_a_target_that_names_another_host_is_left_out() -> None:
    assert replay_of([line("//evil.example/"), line("http://evil.example/")]).paths == []


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), max_size=30), st.booleans())
def test_whatever_stands_in_a_log_only_paths_that_a_tool_may_ask_for_come_out(texts: list[str], queries: bool) -> None:
    lines = [line("/" + text, method) for text in texts for method in ("GET", "HEAD", "POST")]
    found = replay_of(lines + texts, queries=queries, other_methods=True)
    assert len(found.paths) <= SLOTS
    if found.paths:
        assert clean_paths("h2load", found.paths, with_methods=True) == found.paths
