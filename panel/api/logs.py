"""Responses with logs of hosts: the list of logs, the last lines of a log, and a search in one day of a log."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from panel.api.problems import parameter_error
from panel.hosts.log_periods import MOST_LINES, LogPeriod
from panel.hosts.logs import Log, Search

PARAMETERS = {"log", "lines", "search", "day"}
LINES, MAX_LINES, MAX_TEXT = "200", 5000, 500


class LogName(serializers.Serializer[Any]):
    log = serializers.CharField()
    path = serializers.CharField()


class LogSerializer(serializers.Serializer[Any]):
    """A list of logs, with the lines of one log.
    `matching` (the number of matching lines) and `is_complete` (whether all lines were read) are null without a search.
    """

    logs = LogName(many=True)
    lines = serializers.ListField(child=serializers.CharField(allow_blank=True))
    matching = serializers.IntegerField(allow_null=True)
    is_complete = serializers.BooleanField(allow_null=True)


def logs_answer(
    request: Request,
    logs: Sequence[Log],
    tail: Callable[[Log, int], list[str]],
    search: Callable[[Log, Search], LogPeriod],
) -> Response:
    """Return the response of a view of logs, depending on the query parameters.

    Without `log`, the response lists the logs. With `log`, it also has the last `lines` lines of this log, which `tail`
    reads. With `search` or `day` (UTC, today by default) too, it has the newest matching lines of the day, which
    `search` reads.
    """
    wanted = request.query_params.get("log")
    if wanted is None:
        return _response(logs, [])
    chosen = next((log for log in logs if log.key == wanted), None)
    if chosen is None:
        raise parameter_error("log", f"Choose one of these logs: {', '.join(log.key for log in logs) or 'none'}.")
    if "search" not in request.query_params and "day" not in request.query_params:
        return _response([chosen], tail(chosen, _lines(request, MAX_LINES)))
    with timezone.override(dt.UTC):
        found = search(chosen, Search(_day(request), _text(request), _lines(request, MOST_LINES)))
    return _response([chosen], found.lines, found.matching, found.is_complete)


def _response(
    logs: Sequence[Log], lines: list[str], matching: int | None = None, is_complete: bool | None = None
) -> Response:
    names = [{"log": log.key, "path": log.path} for log in logs]
    return Response({"logs": names, "lines": lines, "matching": matching, "is_complete": is_complete})


def _lines(request: Request, most: int) -> int:
    raw = request.query_params.get("lines", LINES)
    if not (raw.isascii() and raw.isdecimal() and 1 <= int(raw[:6]) <= most):
        raise parameter_error("lines", f"Send a whole number from 1 to {most}.")
    return int(raw)


def _text(request: Request) -> str:
    text = request.query_params.get("search", "")
    if len(text) > MAX_TEXT:
        raise parameter_error("search", f"Send at most {MAX_TEXT} characters.")
    return text


def _day(request: Request) -> dt.date:
    raw = request.query_params.get("day")
    if raw is None:
        return timezone.now().date()
    try:
        day = dt.date.fromisoformat(raw)
    except ValueError:
        day = dt.date.min
    if not 2000 <= day.year <= 2100:
        raise parameter_error("day", "Send a day such as 2026-01-31.")
    return day
