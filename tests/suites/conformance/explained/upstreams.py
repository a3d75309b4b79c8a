"""What an application is told where OpenLiteSpeed asks it, made of what it was told by nginx."""

from __future__ import annotations

import re

from tests.suites.conformance.explained.altered_responses import altered
from tests.suites.conformance.explained.case import Case
from tests.suites.conformance.wire import Answer


def told_of_the_visitor(case: Case) -> Answer | None:
    """The same for the application but for what tells of the visitor."""
    ours, theirs = (_untold(answer.body) for answer in (case.other, case.nginx))
    same = case.nginx.headers.get("x-app") == case.other.headers.get("x-app") == "echo" and ours == theirs
    return altered(case.nginx, body=case.other.body) if same else None


def unasked(case: Case) -> Answer | None:
    """The application is told the client's own header, or none."""
    client = dict(case.request.headers).get("X-Own", "-").encode()
    body = re.sub(rb" own=.*?(?= body=|$)", b" own=" + client, case.nginx.body)
    return altered(case.nginx, body=body) if case.nginx.headers.get("x-app") == "echo" else None


def made_anew(case: Case) -> Answer | None:
    """The path for the upstream, spelled otherwise; `_` stands for final dots."""
    if not any(place and place.proxy_uri for place in (case.met.location, *case.met.leads)):
        return None
    ours, theirs = (answer.body.split(b" ", 2) for answer in (case.other, case.nginx))
    same = len(ours) == len(theirs) == 3 and ours[1].count(b"?") == theirs[1].count(b"?")
    if not same:
        return None
    path = _plain(re.sub(b"%253F", b"%3F", ours[1]) if b"%3F" in theirs[1] else ours[1])
    dotted = re.search(r"/(_{1,2})(?:\?|$)", case.request.target)
    meant = _plain(theirs[1])
    if path != meant and not (dotted and path == meant.removesuffix(dotted[1].encode()) + b"." * len(dotted[1])):
        return None
    return altered(case.nginx, body=b" ".join((theirs[0], ours[1], theirs[2])))


def _plain(path: bytes) -> bytes:
    return re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes([int(found[1], 16)]), path)


def _untold(body: bytes) -> bytes:
    return re.sub(rb" (?:ip|proto)=\S+", b"", body).lower()


def letters(case: Case) -> Answer | None:
    """Of a rewritten path: letters above ASCII, and what else came encoded, reach upstreams as they are."""
    ours, theirs = (answer.body for answer in (case.other, case.nginx))
    decoded = re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes([int(found[1], 16)]), theirs)
    return altered(case.nginx, body=ours) if _untold(ours) == _untold(decoded) else None


def kept(case: Case) -> Answer | None:
    """An answer that it has kept, also for a path with an empty query, or one made anew where nginx had one, which
    keeps those for a host with and without a final dot together."""
    ours, theirs = (
        re.sub(rb" own=(client|-)?(?= |$)|(?<= )http://[^/ ]+|\?(?= )|(?<=\.test)\.(?= )", b"", _untold(answer.body))
        for answer in (case.other, case.nginx)
    )
    return altered(case.nginx, body=case.other.body) if ours == theirs else None
