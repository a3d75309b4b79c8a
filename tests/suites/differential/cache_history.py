"""Responses that only one of the servers has cached, since both responded differently to an earlier request.

gallop caches its response to a client whose `If-Unmodified-Since` is not a date, where nginx responds with 412; an
older nginx responds to CONNECT, and may cache the page. The server with the cached response says HIT for the next
request, the other one MISS; from then on each has its own response, whose variables belong to the request that created
it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace

from tests.suites.conformance.wire import Answer
from tests.suites.differential.changes import changed, logged
from tests.suites.differential.logs import FIELD
from tests.suites.differential.servers import Pair

NAME = "cached by one server only, after responses that differed"
_URI = re.compile(r"\|rl=\d+\| \S+ \S+ (.*)\|a=([^|]*)\|")
_SEEN = re.compile(r"\|[\d :,-]+\|(?:HIT|MISS)\|[\d :,-]+\|")
_SHOWN = re.compile(r"\|\d*\|([^|]*)\|(?:HIT|MISS)\|")


@dataclass
class Kept:
    """The URIs whose responses one of the servers may have cached, with the responses seen from either."""

    bodies: defaultdict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))

    def note(self, pair: Pair) -> None:
        """Of a pair that a rule explains: its statuses differ, and one of both asked an upstream."""
        told = [answer.headers.get(name, "") for answer in (pair.nginx, pair.gallop) for name in (FIELD, "x-more")]
        if pair.nginx.status != pair.gallop.status and any("|MISS|" in line for line in told):
            self._remember(pair)

    def forgotten(self, pair: Pair) -> Pair:
        """The pair without where its answers come from, if that is such a URI and one of both had it."""
        both = (pair.nginx, pair.gallop)
        uris = {_uri(answer) for answer in both}
        told = [(answer, answer.headers.get(FIELD) or answer.headers.get("x-more", "")) for answer in both]
        hits = [answer for answer, line in told if "|HIT|" in line]
        if uris - {*self.bodies} or not hits:
            return pair
        nginx, gallop = (
            changed(logged(answer, lambda line: _SEEN.sub("|", line)), lambda value: _SHOWN.sub(r"|\1|", value))
            for answer in both
        )
        if nginx.body != gallop.body:
            if any(answer.body not in self.bodies[_uri(answer)] for answer in hits):
                return pair
            self._remember(pair)
            nginx.headers["content-length"] = gallop.headers["content-length"] = ""
            nginx = replace(nginx, body=gallop.body)
        return replace(pair, nginx=nginx, gallop=gallop)

    def _remember(self, pair: Pair) -> None:
        for answer in (pair.nginx, pair.gallop):
            self.bodies[_uri(answer)].add(answer.body)


def _uri(answer: Answer) -> str:
    """What the answer is kept under: the page whose tag is `up` has its arguments as the key."""
    found = _URI.search(answer.headers.get(FIELD, ""))
    if not found:  # a request without a number is not in the log
        return answer.headers.get("x-seen", "").partition("|")[0]
    return f"?{found[2]}" if answer.body.startswith(b"cached ") or "x22up" in found.string else found[1]
