"""Dates of cron expressions: next dates, passed dates and clock changes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panel.core.errors import ApplicationError
from panel.reports import cron
from tests.reports.conftest import at


@pytest.mark.parametrize(
    "expression, zone, first",
    [
        ("30 2 * * 1", "UTC", "2026-01-05 02:30"),
        ("30 2 * * mon", "Europe/Vienna", "2026-01-05 01:30"),
        ("@daily", "UTC", "2026-01-02 00:00"),
        ("0 12 L * *", "UTC", "2026-01-31 12:00"),
        ("*/15 * * * *", "UTC", "2026-01-01 00:15"),
    ],
)
def test_next_cron_date_is_computed(expression: str, zone: str, first: str) -> None:
    assert cron.next_date(expression, zone, at("2026-01-01 00:00")) == at(first)


def test_clock_changes_neither_lose_nor_repeat_dates() -> None:
    """Vienna, 2026: 2:30 does not exist on March 29th, and occurs twice on October 25th."""
    forward = cron.following("30 2 * * *", "Europe/Vienna", at("2026-03-28 00:00"), 3)
    assert forward == [at("2026-03-28 01:30"), at("2026-03-29 01:00"), at("2026-03-30 00:30")]
    back = cron.following("30 2 * * *", "Europe/Vienna", at("2026-10-24 00:00"), 3)
    assert back == [at("2026-10-24 00:30"), at("2026-10-25 00:30"), at("2026-10-26 01:30")]


def test_passed_dates_are_complete() -> None:
    first, now = at("2026-01-01 00:00"), at("2026-01-01 03:30")
    assert cron.passed("0 * * * *", "UTC", first, now) == [at(f"2026-01-01 0{hour}:00") for hour in range(4)]
    assert cron.passed("0 * * * *", "UTC", first, first) == [first]
    assert len(cron.passed("* * * * *", "UTC", first, at("2026-03-01 00:00"))) <= cron.MOST_COUNTED + 1


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 59), st.integers(0, 23), st.sampled_from(["UTC", "America/New_York", "Asia/Kolkata"]))
def test_next_and_passed_dates_agree(minute: int, hour: int, zone: str) -> None:
    expression, start = f"{minute} {hour} * * *", at("2026-03-01 00:00")
    dates = cron.following(expression, zone, start, 40)
    assert all(later > earlier for earlier, later in zip([start, *dates], dates, strict=False))
    assert cron.passed(expression, zone, dates[0], dates[-1]) == dates


@pytest.mark.parametrize(
    "expression, words",
    [
        ("", "five fields"),
        ("* * * *", "you entered 4"),
        ("61 * * * *", "enter * or 0 to 59"),
        ("0 0 30 2 *", "l for the last day of the month"),
        ("a b c d e", "minute"),
    ],
)
def test_invalid_cron_expression_is_rejected_with_message(expression: str, words: str) -> None:
    with pytest.raises(ApplicationError) as caught:
        cron.normal(expression)
    assert words in caught.value.message.lower() and caught.value.field == "cron"
