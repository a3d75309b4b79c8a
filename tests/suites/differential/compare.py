"""Two answers to one request: the same, different for a documented reason, or different."""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime

from tests.suites.conformance.wire import Answer
from tests.suites.differential.cache_history import NAME, Kept
from tests.suites.differential.documented_differences import explained
from tests.suites.differential.servers import Pair

_BOUNDARY = re.compile(rb"\b\d{20}\b")
_PREFIX = re.compile("/(nginx|gallop)/html")
_LEFT = re.compile(r"max-age=(\d+)")
MEANINGLESS = frozenset({"date"})


@dataclass
class Outcome:
    """`known`: how often each documented difference was met. `unexplained`: everything else, told in words."""

    compared: int = 0
    known: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    def add(self, other: Outcome) -> None:
        self.compared += other.compared
        self.known += other.known
        self.unexplained += other.unexplained
        self.statuses += other.statuses


def compared(pairs: Iterable[Pair]) -> Outcome:
    found = Outcome()
    kept = Kept()
    for pair in pairs:
        found.compared += 1
        found.statuses[pair.nginx.status] += 1
        what = difference(pair.nginx, pair.gallop)
        if not what:
            continue
        plain = replace(pair, nginx=_plain(pair.nginx), gallop=_plain(pair.gallop))
        if name := _explained(plain, kept):
            found.known[name] += 1
        else:
            found.unexplained.append(f"{pair.sent}\n    {what}")
    return found


def _explained(pair: Pair, kept: Kept) -> str:
    if name := explained(pair, difference):
        kept.note(pair)
        return name
    other = kept.forgotten(pair)
    if other == pair:
        return ""
    return NAME if not difference(other.nginx, other.gallop) else explained(other, difference)


def difference(nginx: Answer, gallop: Answer) -> str:
    """What differs, in words; empty when nothing does."""
    nginx, gallop = _plain(nginx), _plain(gallop)
    if nginx.status != gallop.status:
        return f"status {gallop.status}, nginx {nginx.status}; {gallop.body[:100]!r}, nginx {nginx.body[:100]!r}"
    for name in sorted({*nginx.headers, *gallop.headers} - MEANINGLESS):
        if nginx.headers.get(name) != gallop.headers.get(name) and not (
            name in ("expires", "cache-control") and _is_a_moment(nginx, gallop)
        ):
            return f"{nginx.status} {name}: {gallop.headers.get(name)!r}, nginx {nginx.headers.get(name)!r}"
    if nginx.body != gallop.body:
        at = next((i for i, pair in enumerate(zip(nginx.body, gallop.body)) if pair[0] != pair[1]), -1)  # noqa: B905
        return (
            f"{nginx.status} body, from byte {at} of {len(gallop.body)}, nginx {len(nginx.body)}: "
            f"{gallop.body[max(at - 20, 0) :][:200]!r}, nginx {nginx.body[max(at - 20, 0) :][:200]!r}"
        )
    return ""


def _unpacked(body: bytes) -> bytes:
    """What was compressed; a part of it as it is."""
    try:
        return gzip.decompress(body)
    except (OSError, EOFError, zlib.error):
        return body


def _is_a_moment(nginx: Answer, gallop: Answer) -> bool:
    """Whether two dates, and the times until then, differ only as the two moments do at which they were made."""
    try:
        first, second = (parsedate_to_datetime(answer.headers["expires"]) for answer in (nginx, gallop))
    except (KeyError, TypeError, ValueError):
        return False
    left = [_LEFT.fullmatch(answer.headers.get("cache-control", "max-age=0")) for answer in (nginx, gallop)]
    ages = [int(found[1]) for found in left if found]
    near = nginx.headers.get("cache-control") == gallop.headers.get("cache-control") or (
        len(ages) == 2 and abs(ages[0] - ages[1]) <= 60
    )
    return near and abs((first - second).total_seconds()) <= 60


def _plain(answer: Answer) -> Answer:
    """Without what may differ between two answers of one server: the boundary of ranges, and how well it compresses."""
    if "gzip" in answer.headers.get("content-encoding", "") and answer.body:
        answer = Answer(answer.status, {**answer.headers, "content-length": ""}, _unpacked(answer.body))
    body = _BOUNDARY.sub(b"B", answer.body)
    headers = {name: _text(value) for name, value in answer.headers.items()}
    return Answer(answer.status, headers, body)


def _text(value: str) -> str:
    """The default root lies below each server's own prefix, and each has an address of its own."""
    value = value.replace("http://127.0.0.2", "http://127.0.0.1")
    return _PREFIX.sub("/html", _BOUNDARY.sub(b"B", value.encode("latin-1")).decode("latin-1"))
