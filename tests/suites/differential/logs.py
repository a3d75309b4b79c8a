"""What each server wrote of a request, put beside its answer: the variables as they stood when it was over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tests.suites.conformance.wire import Answer
from tests.suites.differential.servers import Pair, seen_log

FIELD = "(log)"
SEPARATOR = " // "


def with_logs(root: Path, pairs: Iterable[Pair]) -> Iterator[Pair]:
    """The answers, each with a field more where a log has lines of that request."""
    nginx, gallop = (_lines(seen_log(root, server)) for server in ("nginx", "gallop"))
    for pair in pairs:
        number = str(pair.sent.number)
        yield replace(pair, nginx=_with(pair.nginx, nginx[number]), gallop=_with(pair.gallop, gallop[number]))


def _lines(log: Path) -> defaultdict[str, list[str]]:
    """By the number that a line begins with."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    if log.exists():
        for line in log.read_text(encoding="latin-1").splitlines():
            number, _, rest = line.partition(" ")
            found[number].append(rest)
    return found


def _with(answer: Answer, lines: list[str]) -> Answer:
    """A parallel subrequest's line may come before or behind its request's."""
    if not lines:
        return answer
    if answer.status == 0:
        # Sent again over a new connection; which of them a server has kept open is its own affair.
        lines = list(dict.fromkeys(lines))
    return Answer(answer.status, {**answer.headers, FIELD: SEPARATOR.join(sorted(lines))}, answer.body)
