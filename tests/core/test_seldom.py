"""A logger that repeats itself fills no disk."""

from __future__ import annotations

import logging

import pytest

from panel.core import seldom


def test_one_message_per_interval_and_level_passes_with_the_number_of_dropped_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(seldom.time, "monotonic", lambda: now)
    kept = seldom.SeldomFilter(30)

    def passes(level: int, text: str) -> str:
        record = logging.LogRecord("pool", level, "", 0, "%s", (text,), None)
        return record.getMessage() if kept.filter(record) else ""

    assert [passes(logging.WARNING, text) for text in "abc"] == ["a", "", ""]
    assert passes(logging.ERROR, "d") == "d"
    now += 31
    assert passes(logging.WARNING, "e") == "e (and 2 similar messages)"
    assert passes(logging.WARNING, "f") == ""
