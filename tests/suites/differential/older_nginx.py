"""Differences between releases of nginx before 1.31 and the one that gallop follows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from tests.suites.conformance.wire import Answer
from tests.suites.differential.changes import changed, logged
from tests.suites.differential.servers import Pair, is_old

_WHOLE = re.compile(r"(bytes (?:\*|\d+))(?:-\d+)?/\d+$")
_UPSTREAM_SIZE = re.compile(r"\|([\d :,-]+\|(?:[A-Z]+|-))\|[\d :,]+\|")


def _first_only(values: list[str]) -> Callable[[str], str]:
    joined, first = (f"|{value}|" for value in (", ".join(values), values[0]))
    return lambda text: text.replace(joined, first)


def _old_doubled(pair: Pair) -> Pair:
    """Of a field that comes twice the variable had the first one's value."""
    if not is_old():
        return pair
    lines = [
        line.split(b": ", 1) for line in pair.sent.data.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:] if b": " in line
    ]
    nginx, gallop = pair.nginx, pair.gallop
    for name in {name for name, _ in lines}:
        values = [value.strip(b" \t").decode("latin-1") for other, value in lines if other == name]
        if len(values) > 1:
            if nginx.status == gallop.status == 400:
                # It was malformed, before it could be too large.
                return replace(pair, nginx=pair.gallop)
            nginx, gallop = (changed(answer, _first_only(values)) for answer in (nginx, gallop))
            if name.lower() == b"user-agent":
                refreshes = {b'http-equiv="Refresh"' in answer.body for answer in (nginx, gallop)}
                if len(refreshes) > 1:
                    # `msie_refresh` makes a page of a redirect for one of both.
                    return replace(pair, nginx=pair.gallop)
                nginx, gallop = (_without_padding(answer) for answer in (nginx, gallop))
    return replace(pair, nginx=nginx, gallop=gallop)


def _without_padding(answer: Answer) -> Answer:
    """Which browsers get, and whether their connections stay, is looked up by what they are called."""
    body = answer.body.replace(b"<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n", b"")
    return Answer(answer.status, {**answer.headers, "content-length": "", "connection": "", "keep-alive": ""}, body)


def _old_upstream(pair: Pair) -> Pair:
    """HTTP/1.1 became the version towards upstreams, and Connection: close left the requests."""
    if not is_old():
        return pair
    nginx, gallop = (
        logged(_without_version(answer), lambda line: _UPSTREAM_SIZE.sub(r"|\1|", line))
        for answer in (pair.nginx, pair.gallop)
    )
    if nginx.status == gallop.status and nginx.status in (206, 416):
        nginx, gallop = (changed(answer, lambda value: _WHOLE.sub(r"\1", value)) for answer in (nginx, gallop))
    if pair.sent.method == "HEAD" or nginx.body != pair.nginx.body:
        gallop.headers["content-length"] = nginx.headers["content-length"] = ""
    return Pair(pair.sent, nginx, gallop)


def _without_version(answer: Answer) -> Answer:
    # A byte that is no character takes the blank before the version away.
    body = answer.body.replace(b"HTTP/1.0 host=", b"HTTP/1.1 host=").replace(b"conn=close ", b"conn= ")
    body = re.sub(rb"( len=\d*)/chunked own=", rb"\1/ own=", body)
    return Answer(answer.status, dict(answer.headers), body)


def _old_head(pair: Pair) -> Pair:
    """Hosts are looked at more closely since; CONNECT is not allowed, where it was malformed or any other method."""
    if pair.sent.method == "CONNECT" and is_old():
        return replace(pair, nginx=pair.gallop)
    odd = re.search(
        rb"\nHost: (?:[^\r]*:[0-9]*[^0-9\r][^\r]*|\[[^\]\r]*|[^\r]*[@,/*\x80-\xff][^\r]*)\r", pair.sent.data
    )
    return replace(pair, nginx=pair.gallop) if odd and pair.gallop.status == 400 and is_old() else pair


def _old_bracket(pair: Pair) -> Pair:
    """Addresses in brackets without a port were none."""
    if not is_old() or b": [::1]\r\n" not in pair.sent.data:
        return pair
    known = "::1" in str(pair.gallop.headers) and "::1" not in str(pair.nginx.headers)
    return replace(pair, nginx=pair.gallop) if known else pair


def _old_ranges(pair: Pair) -> Pair:
    headers = pair.gallop.headers
    if not is_old() or headers.get("content-encoding") != "gzip" or "accept-ranges" in pair.nginx.headers:
        return pair
    if (pair.nginx.status, pair.gallop.status) == (200, 206) and pair.nginx.headers.get("content-encoding") == "gzip":
        return replace(pair, nginx=pair.gallop)
    without = {name: value for name, value in headers.items() if name != "accept-ranges"}
    return replace(pair, gallop=Answer(pair.gallop.status, without, pair.gallop.body))


def _old_host(pair: Pair) -> Pair:
    """A request to an upstream that is set to have no Host had none."""
    if not is_old() or b" host= " not in pair.nginx.body:
        return pair
    body = re.sub(rb" host=[\w.:]+ ", b" host= ", pair.gallop.body)
    return replace(pair, gallop=Answer(pair.gallop.status, {**pair.gallop.headers}, body))


def _old_filename(pair: Pair) -> Pair:
    """A rewrite that redirects left a location with an alias without a file name, as one that changes the URI does."""
    if not is_old() or pair.nginx.status not in (301, 302) or not {"location", "x-seen"} <= {*pair.nginx.headers}:
        return pair
    nginx, gallop = ([*answer.headers.get("x-seen", "").split("|")] for answer in (pair.nginx, pair.gallop))
    if len(nginx) != len(gallop) or len(nginx) < 13 or nginx[12]:
        return pair
    gallop[12] = ""
    return replace(pair, gallop=replace(pair.gallop, headers={**pair.gallop.headers, "x-seen": "|".join(gallop)}))


# Each makes of a pair what it would be without that difference.
OLDER: dict[str, Callable[[Pair], Pair]] = {
    "an older nginx: a request without Host to an upstream": _old_host,
    "an older nginx: $request_filename below an alias, redirected by rewrite": _old_filename,
    "an older nginx: version towards upstreams": _old_upstream,
    "an older nginx: hosts and CONNECT": _old_head,
    "an older nginx: addresses in brackets": _old_bracket,
    "an older nginx: a repeated field": _old_doubled,
    "an older nginx: ranges of precompressed files": _old_ranges,
}
