"""What a log becomes: paths in visitors' proportions, and nothing that must not be repeated."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from panel.benchmarks.arguments import clean_paths
from panel.trials.replay import SLOTS, replay_of


def line(target: str, method: str = "GET", status: int = 200) -> str:
    return f'192.0.2.1 - - [21/Nov/2026:10:00:00 +0000] "{method} {target} HTTP/1.1" {status} 512 "-" "curl/8"'


def test_paths_come_in_the_proportions_of_the_log_and_not_in_lumps() -> None:
    found = replay_of([line("/")] * 60 + [line("/a.css")] * 30 + [line("/b.js")] * 10)
    assert found.requests == 100
    assert Counter(found.paths) == {"/": 60, "/a.css": 30, "/b.js": 10}
    assert "/a.css" in found.paths[:4]


def test_only_answered_safe_requests_are_repeated() -> None:
    lines = [line("/order", "POST"), line("/gone", status=404), line("/away", status=301), "garbage", ""]
    found = replay_of([*lines, line("/", "HEAD"), line("/cached", status=304)])
    assert set(found.paths) == {"/", "/cached"}
    assert found.left_out == 4


def test_queries_are_cut_off_because_they_may_hold_secrets() -> None:
    lines = [line("/reset?token=abc"), line("/reset?token=def")]
    assert set(replay_of(lines).paths) == {"/reset"}
    assert set(replay_of(lines, queries=True).paths) == {"/reset?token=abc", "/reset?token=def"}


def test_a_target_that_names_another_host_is_left_out() -> None:
    assert replay_of([line("//evil.example/"), line("http://evil.example/")]).paths == []


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), max_size=30), st.booleans())
def test_whatever_stands_in_a_log_only_paths_that_a_tool_may_ask_for_come_out(texts: list[str], queries: bool) -> None:
    found = replay_of([line("/" + text) for text in texts] + texts, queries=queries)
    assert len(found.paths) <= SLOTS
    if found.paths:
        assert clean_paths("h2load", found.paths) == found.paths
