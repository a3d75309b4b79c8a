"""Responses with logs on hosts: the list of logs, and the last lines of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from panel.api.problems import parameter_error
from panel.hosts.logs import Log

PARAMETERS = {"log", "lines"}
LINES, MAX_LINES = "200", 5000


class LogName(serializers.Serializer[Any]):
    log = serializers.CharField()
    path = serializers.CharField()


class LogSerializer(serializers.Serializer[Any]):
    logs = LogName(many=True)
    lines = serializers.ListField(child=serializers.CharField(allow_blank=True))


def logs_answer(request: Request, logs: Sequence[Log], tail: Callable[[Log, int], list[str]]) -> Response:
    """List of logs without `log`; otherwise the last `lines` of that log, read by `tail`."""
    wanted = request.query_params.get("log")
    if wanted is None:
        return Response({"logs": [{"log": log.key, "path": log.path} for log in logs], "lines": []})
    chosen = next((log for log in logs if log.key == wanted), None)
    if chosen is None:
        raise parameter_error("log", f"Choose one of: {', '.join(log.key for log in logs) or 'none'}.")
    raw = request.query_params.get("lines", LINES)
    if not (raw.isascii() and raw.isdecimal() and 1 <= int(raw[:6]) <= MAX_LINES):
        raise parameter_error("lines", f"Send a whole number from 1 to {MAX_LINES}.")
    return Response({"logs": [{"log": chosen.key, "path": chosen.path}], "lines": tail(chosen, int(raw))})
