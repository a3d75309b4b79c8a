"""Requests by hour and by day, from what a host counted."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

from django.utils import timezone

from panel.hosts.log_periods import Hour
from panel.websites.requests import steps

BEGIN = dt.datetime(2026, 11, 25, 20, tzinfo=dt.UTC)


def hour(number: int, requests: int) -> Hour:
    return Hour(BEGIN + dt.timedelta(hours=number), requests, requests * 10, {"2": requests})


def test_hours_without_requests_are_shown_too() -> None:
    found = steps([hour(1, 5)], BEGIN, BEGIN + dt.timedelta(hours=3, minutes=20), by_day=False)
    assert [(row.begin.hour, row.requests) for row in found] == [(20, 0), (21, 5), (22, 0), (23, 0)]


def test_days_are_those_of_the_users_time_zone() -> None:
    rows = [hour(1, 1), hour(3, 2), hour(4, 4), hour(30, 8)]
    with timezone.override(ZoneInfo("Europe/Berlin")):  # 23:00 UTC begins the next day there
        found = steps(rows, BEGIN, BEGIN + dt.timedelta(hours=31), by_day=True)
    assert [(row.begin.day, row.requests, row.statuses["2"]) for row in found] == [(25, 1, 1), (26, 6, 6), (27, 8, 8)]


def test_day_on_which_clocks_change_is_one_day() -> None:
    begin = dt.datetime(2026, 10, 24, 22, tzinfo=dt.UTC)  # midnight in Berlin, before the day of 25 hours
    rows = [Hour(begin + dt.timedelta(hours=number), 1) for number in range(25)]
    with timezone.override(ZoneInfo("Europe/Berlin")):
        found = steps(rows, begin, begin + dt.timedelta(hours=25), by_day=True)
    assert [row.requests for row in found] == [25, 0]
