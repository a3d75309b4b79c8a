"""From a site's own access log to the paths a load tool asks for, as often as visitors did. Pure.

Source: nginx's `combined` format, which is Apache's and gallop's too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

_LINE = re.compile(r'"(?P<method>[A-Z]+) (?P<target>/[^ "]*) HTTP/[0-9.]+" (?P<status>[0-9]{3}) ')
_UNSAFE = re.compile(r"[^A-Za-z0-9._~:@!*+,=&/?%-]|%(?![0-9A-Fa-f]{2})")
SAFE_METHODS = ("GET", "HEAD")
SLOTS = 100
MAX_LENGTH = 1000


@dataclass(frozen=True)
class Replay:
    """`paths` in the order to ask for them, each as often as its share; what was left out, and why."""

    paths: list[str]
    requests: int
    left_out: int


def replay_of(lines: Iterable[str], *, queries: bool = False) -> Replay:
    """What visitors got by GET and HEAD with 200, 206 or 304. No load tool mixes methods, so all of it is asked for by
    GET; what may change something is never repeated: a log does not hold what was sent with it. Queries may hold
    secrets: they are cut off unless asked for, and what then is the same path counts as such."""
    counts: Counter[str] = Counter()
    left_out = 0
    for line in lines:
        path = _path(line, queries)
        if path:
            counts[path] += 1
        elif line.strip():
            left_out += 1
    return Replay(_shares(counts), sum(counts.values()), left_out)


def _path(line: str, queries: bool) -> str:
    found = _LINE.search(line)
    if not found or found["method"] not in SAFE_METHODS or found["status"] not in ("200", "206", "304"):
        return ""
    path = found["target"] if queries else found["target"].partition("?")[0]
    usable = not _UNSAFE.search(path) and not path.startswith("//") and len(path) <= MAX_LENGTH
    return path if usable else ""


def _shares(counts: Counter[str]) -> list[str]:
    """SLOTS places for the most asked for, each at least once, spread evenly so that no path comes in one lump."""
    most = counts.most_common(SLOTS)
    total = sum(count for _, count in most)
    if not total:
        return []
    places: list[tuple[float, str]] = []
    for path, count in most:
        slots = max(1, round(count / total * SLOTS))
        places += [((index + 0.5) / slots, path) for index in range(slots)]
    return [path for _, path in sorted(places)][:SLOTS]
