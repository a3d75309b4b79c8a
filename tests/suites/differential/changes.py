"""Answers with some of their values changed, as the rules of differences need them."""

from __future__ import annotations

from collections.abc import Callable

from tests.suites.conformance.wire import Answer
from tests.suites.differential.logs import FIELD, SEPARATOR


def changed(answer: Answer, change: Callable[[str], str]) -> Answer:
    return Answer(answer.status, {name: change(value) for name, value in answer.headers.items()}, answer.body)


def logged(answer: Answer, change: Callable[[str], str]) -> Answer:
    if FIELD not in answer.headers:
        return answer
    lines = [change(line) for line in answer.headers[FIELD].split(SEPARATOR)]
    return Answer(answer.status, {**answer.headers, FIELD: SEPARATOR.join(lines)}, answer.body)
