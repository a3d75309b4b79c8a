"""The differences that native/COMPATIBILITY.md names, each with what an answer must look like to be one of them."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.conformance.wire import Answer
from tests.differential.servers import Pair

_LENGTH = re.compile(r"\|len=\d*\|")


def _changed(answer: Answer, change: Callable[[str], str]) -> Answer:
    return Answer(answer.status, {name: change(value) for name, value in answer.headers.items()}, answer.body)


def _line_feed(pair: Pair) -> tuple[Answer, Answer]:
    """A line feed in a field's value goes out as a blank: nobody's decoded path may write fields."""
    return _changed(pair.nginx, lambda value: value.replace("\n", " ")), pair.gallop


def _chunked_length(pair: Pair) -> tuple[Answer, Answer]:
    """$content_length of a chunked request says in nginx how much of the body it has read or thrown away."""
    if b"chunked" not in pair.sent.data.lower():
        return pair.nginx, pair.gallop
    without = (_changed(answer, lambda value: _LENGTH.sub("|", value)) for answer in (pair.nginx, pair.gallop))
    return next(without), next(without)


RULES = {
    "a line feed in a field's value goes out as a blank": _line_feed,
    "$content_length of a chunked request": _chunked_length,
}


def explained(pair: Pair, differs: Callable[[Answer, Answer], str]) -> str:
    """The names of the documented differences that explain all that `differs` finds; nothing if they do not."""
    names = []
    for name, rule in RULES.items():
        nginx, gallop = rule(pair)
        if (nginx, gallop) != (pair.nginx, pair.gallop):
            names.append(name)
            pair = Pair(pair.sent, nginx, gallop)
    return "" if differs(pair.nginx, pair.gallop) else ", ".join(names)
