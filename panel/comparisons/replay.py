"""Derivation of a load from a site's own access log, with the same frequency of requests. Pure functions.
Log lines are in nginx's `combined` format, which Apache and gallop share.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.translation import gettext as _

from agents.host import probe
from panel.benchmarks.tools.arguments import OTHER_METHODS, SAFE_METHODS

_LINE = re.compile(r'"(?P<method>[A-Z]{1,20}) (?P<target>/[^ "]*) HTTP/[0-9.]+" (?P<status>[0-9]{3}) ')
_UNSAFE = re.compile(r"[^A-Za-z0-9._~:@!*+,=&/?%-]|%(?![0-9A-Fa-f]{2})")
_OWN = f'"{probe.AGENT.decode()}"'  # User-Agent of the checks around a deployment
_ANSWERED = ("200", "201", "202", "204", "206", "304")
_BODIES = ("PUT", "PATCH")
SLOTS = 100
MAX_LENGTH = 1000


@dataclass(frozen=True)
class Replay:
    """A load derived from an access log.

    `paths` are in the order of requests, each as often as its share. `left_out`: number of lines that are not replayed,
    by method; the key "" stands for failed and unusable requests.
    """

    paths: list[str]
    requests: int
    left_out: dict[str, int]

    @property
    def reasons(self) -> list[str]:
        """Reasons in words why log lines were left out, the most frequent first."""
        found = sorted(self.left_out.items(), key=lambda item: (-item[1], item[0]))
        return [f"{_named(method)}: {count:,}. {_why(method)}" for method, count in found]


def replay_of(lines: Iterable[str], *, queries: bool = False, other_methods: bool = False) -> Replay:
    """Return the load that repeats the successful GET and HEAD requests of an access log (`lines`).

    `other_methods` adds the requests with OTHER_METHODS, without a body, because logs contain no bodies. Each request
    keeps its method. Query strings can contain secrets, so they are removed unless `queries`; requests that are then
    equal count as one. Requests of Paddock's own checks are neither sent nor counted.
    """
    counts: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    sent = (*SAFE_METHODS, *OTHER_METHODS) if other_methods else SAFE_METHODS
    for line in lines:
        if line.rstrip().endswith(_OWN):
            continue
        method, path = _request(line, queries)
        if path and method in sent:
            counts[path if method == "GET" else f"{method} {path}"] += 1
        elif line.strip():
            left_out[method if path else ""] += 1
    return Replay(_shares(counts), sum(counts.values()), dict(left_out))


def _request(line: str, queries: bool) -> tuple[str, str]:
    """Return (method, path) of the request in a log line; ("", "") if the request failed or cannot be repeated."""
    found = _LINE.search(line)
    if not found or found["status"] not in _ANSWERED:
        return "", ""
    path = found["target"] if queries else found["target"].partition("?")[0]
    usable = not _UNSAFE.search(path) and not path.startswith("//") and len(path) <= MAX_LENGTH
    known = found["method"] in (*SAFE_METHODS, *OTHER_METHODS, *_BODIES)
    return (found["method"], path) if usable and known else ("", "")


def _named(method: str) -> str:
    return _("Sent with %s") % method if method else _("Other lines")


def _why(method: str) -> str:
    if method in _BODIES:
        return _("The request needs its body, which logs do not contain.")
    if method:
        return _("Not selected for replay: the request may change the application's data.")
    return _("The request failed or cannot be replayed.")


def _shares(counts: Counter[str]) -> list[str]:
    """Return the most frequent requests as a list of at most SLOTS entries, in which each occurs as often as its share.
    Each request occurs at least once. Repetitions of a request are spread evenly over the list.
    """
    most = counts.most_common(SLOTS)
    total = sum(count for _path, count in most)
    if not total:
        return []
    places: list[tuple[float, str]] = []
    for path, count in most:
        slots = max(1, round(count / total * SLOTS))
        places += [((index + 0.5) / slots, path) for index in range(slots)]
    return [path for _place, path in sorted(places)][:SLOTS]
