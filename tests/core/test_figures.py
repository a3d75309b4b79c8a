"""Figures on pages are rounded, never cut off."""

from __future__ import annotations

import datetime as dt

import pytest

from panel.core.templatetags.ui import bytes_iec, number, relative_words, seconds


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [
        (48.387, 1, "48.4"),
        (99.96, 1, "100.0"),
        (1.96, 1, "2.0"),
        (-1.26, 1, "-1.3"),
        (0.06, 1, "0.1"),
        (2.6, 0, "3"),
        (1234567.8, 0, "1,234,568"),
        (1234, 1, "1,234.0"),
        (None, 1, "–"),
    ],
)
def test_figures_are_rounded(value: float | None, digits: int, shown: str) -> None:
    assert number(value, digits) == shown


def test_durations_and_sizes_use_largest_fitting_unit() -> None:
    assert [seconds(value) for value in (0, 0.00001, 0.01999, 0.99999, 59.97, 75)] == [
        "0.0 ms",
        "< 0.1 ms",
        "20.0 ms",
        "1.0 s",
        "1 min 0 s",
        "1 min 15 s",
    ]
    assert bytes_iec(2047 * 1024 - 1) == "2.0 MiB"


@pytest.mark.parametrize(
    ("away", "words"),
    [
        (dt.timedelta(seconds=-3), "just now"),
        (dt.timedelta(minutes=-3), "3 minutes ago"),
        (dt.timedelta(days=89, hours=23), "in 89 days"),  # a certificate of ninety days, an hour old
        (dt.timedelta(days=400), "in 13 months"),
    ],
)
def test_times_are_shown_relative_to_now(away: dt.timedelta, words: str) -> None:
    now = dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC)
    assert relative_words(now + away, now) == words
