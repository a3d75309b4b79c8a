"""The documented differences in what becomes of a request's body that nobody reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from tests.suites.conformance.wire import Answer
from tests.suites.differential.logs import FIELD
from tests.suites.differential.servers import Pair

_SENT_ON = re.compile(rb"len=\d*/|(?<=body=)(?:a=1|x{300}|y{20000})(?=\n)")
_TOO_LARGE = re.compile(rb"<html>\r\n<head><title>413 .*?</html>\r\n(?:<!--[^>]*-->\r\n)*", re.DOTALL)


def _without(found: re.Match[bytes]) -> bytes:
    return b"len=/" if found[0].startswith(b"len=") else b""


def _subrequest_length(pair: Pair) -> Pair:
    """Of a page's parts that an upstream makes; nginx has thrown the client's body away by then."""
    if b"Content-Length: " not in pair.sent.data and b"chunked" not in pair.sent.data.lower():
        return pair
    if pair.nginx.status == -1 and " 499 <" in " " + pair.nginx.headers.get(FIELD, "") and pair.gallop.status > 0:
        # The upstream that says who may come in waits for the body that it was told of.
        return replace(pair, nginx=pair.gallop)
    nginx, gallop = (_SENT_ON.sub(_without, answer.body) for answer in (pair.nginx, pair.gallop))
    if nginx == pair.nginx.body or nginx != gallop or b"len=/" not in pair.gallop.body:
        return pair
    return replace(pair, nginx=Answer(pair.nginx.status, pair.nginx.headers, pair.gallop.body))


def _mirrored_body(pair: Pair) -> Pair:
    """nginx tells a copy's upstream of a body that `mirror_request_body off` leaves out, and ends an answer without a
    length by closing once the copy is over: the upstream waits for the body, and the client for the end."""
    waits = pair.nginx.status == -1 and pair.nginx.body == b"timed out"
    endless = pair.gallop.headers.get("connection") == "close" and "content-length" not in pair.gallop.headers
    told = re.search(rb"\r\nContent-Length: [1-9]", pair.sent.data)
    return replace(pair, nginx=pair.gallop) if waits and endless and told and pair.gallop.status > 0 else pair


def _measured_part(pair: Pair) -> Pair:
    """nginx holds the client's body against the limit of a location that makes a part of the answer."""
    rest = _TOO_LARGE.sub(b"", pair.nginx.body)
    is_part = rest != pair.nginx.body and (pair.gallop.body.startswith(rest) or pair.gallop.body.endswith(rest))
    if not is_part or pair.nginx.status == 413 or pair.nginx.status != pair.gallop.status:
        return pair
    length = {name: value for name, value in pair.gallop.headers.items() if name == "content-length"}
    return replace(pair, nginx=Answer(pair.nginx.status, {**pair.nginx.headers, **length}, pair.gallop.body))


def _refused_body(pair: Pair) -> Pair:
    """An upstream makes the page for a request whose length is told in two ways."""
    both = b"Content-Length: 1\r\nTransfer-Encoding: chunked" in pair.sent.data
    plain = pair.nginx.body.replace(b"len=1/", b"len=/").replace(b"body=0\n", b"body=\n")
    if not both or plain != pair.gallop.body:
        return pair
    length = {name: value for name, value in pair.gallop.headers.items() if name == "content-length"}
    return replace(pair, nginx=Answer(pair.nginx.status, {**pair.nginx.headers, **length}, plain))


BODIES: dict[str, Callable[[Pair], Pair]] = {
    "the length of the client's body in a subrequest to an upstream": _subrequest_length,
    "a mirrored request without its body, whose length nginx announces": _mirrored_body,
    "a part of a response, and the size of the client's body": _measured_part,
    "the body of a request that is refused, and its error page's upstream": _refused_body,
}
