"""The documented differences in what is made of odd answers of applications (`--of upstreams`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from tests.conformance.wire import Answer
from tests.differential.odd import answer_to, stdout_of
from tests.differential.servers import Pair

_TWO_LENGTHS = re.compile(rb"(?i)\r?\ntransfer-encoding:[^\n]*\ncontent-length:|\ncontent-length:[^\n]*\ntransfer-enc")
_BAD_TRAILER = re.compile(rb"(?:^|\n)0\r?\n(?:[^\n]*:[^\n]*\n)*[^:\r\n]+\r?\n\r?\n$")


def _cut_status_line(pair: Pair) -> Pair:
    """A status line of HTTP in a FastCGI answer: nginx passes over it unless a record ends within `HTTP/`."""
    answer = answer_to(pair.sent.data)
    is_cut = answer.startswith(b"\x01") and stdout_of(answer).startswith(b"HTTP/") and b"HTTP/" not in answer
    return replace(pair, nginx=pair.gallop) if is_cut and pair.nginx.status == 502 != pair.gallop.status else pair


def _refused_cookie(pair: Pair) -> Pair:
    """What variables know of an answer that was refused for its two lengths."""
    value = pair.gallop.headers.get("x-up", "")
    if pair.gallop.status != 502 or not _TWO_LENGTHS.search(answer_to(pair.sent.data)):
        return pair
    if not value or not pair.nginx.headers.get("x-up", "").endswith(value):
        return pair
    return replace(pair, nginx=replace(pair.nginx, headers={**pair.nginx.headers, "x-up": value}))


def _ranges_twice(pair: Pair) -> Pair:
    """`Accept-Ranges` of an answer with `X-Accel-Redirect`, beside that of the file it leads to."""
    found = re.fullmatch(r"\w+, (bytes)", pair.nginx.headers.get("accept-ranges", ""))
    is_led = re.search(rb"(?i)x-accel-redirect:", _text(pair))
    if not found or not is_led or pair.gallop.headers.get("accept-ranges") != found[1]:
        return pair
    return replace(pair, nginx=replace(pair.nginx, headers={**pair.nginx.headers, "accept-ranges": found[1]}))


def _charset_not_last(pair: Pair) -> Pair:
    """nginx gives the page of an error all that stands behind `charset=` in the answer that led to it."""
    kind, own = (answer.headers.get("content-type", "") for answer in (pair.nginx, pair.gallop))
    if not re.fullmatch(rf"{re.escape(own)}; charset=[^;]+;.*", kind) or b"X-Accel-Redirect" not in _text(pair):
        return pair
    return replace(pair, nginx=replace(pair.nginx, headers={**pair.nginx.headers, "content-type": own}))


def _bad_trailer(pair: Pair) -> Pair:
    """A line behind a chunked body that is no field: nginx breaks off where `proxy_pass_trailers` is on."""
    answer = answer_to(pair.sent.data)
    is_bad = _BAD_TRAILER.search(answer) and str(pair.gallop.status).encode() in answer.partition(b"\n")[0]
    return replace(pair, nginx=pair.gallop) if is_bad and pair.nginx.status <= 0 else pair


def _broken_record(pair: Pair) -> Pair:
    """How much goes out of a FastCGI answer that breaks, where its end is told by the close or it has no body."""
    answer = answer_to(pair.sent.data)
    if not answer.startswith(b"\x01") or b"\r\nX-Key: odd" not in pair.sent.data:
        return pair
    whole, of_nginx, of_gallop = stdout_of(answer), pair.nginx, pair.gallop
    lengths = {"content-length", "transfer-encoding"} & {*of_gallop.headers}
    if of_nginx.status <= 0 < of_gallop.status:
        cut = not lengths and of_gallop.body in whole
        empty = not of_gallop.body and of_gallop.headers.get("content-length", "0") == "0"
        return replace(pair, nginx=of_gallop) if cut or empty else pair
    begins = of_nginx.body.startswith(of_gallop.body) or of_gallop.body.startswith(of_nginx.body)
    if lengths or not begins or of_nginx.status != of_gallop.status or pair.sent.version != "1.0":
        return pair
    return replace(pair, nginx=Answer(of_nginx.status, of_nginx.headers, of_gallop.body))


def _text(pair: Pair) -> bytes:
    answer = answer_to(pair.sent.data)
    return stdout_of(answer) if answer.startswith(b"\x01") else answer


UPSTREAMS: dict[str, Callable[[Pair], Pair]] = {
    "a status line of HTTP that a FastCGI record cuts": _cut_status_line,
    "variables of an answer that is refused for its two lengths": _refused_cookie,
    "Accept-Ranges of an answer that leads elsewhere": _ranges_twice,
    "a charset that is not the last of a type's parameters": _charset_not_last,
    "a line behind a chunked body that is no field": _bad_trailer,
    "how much of a broken FastCGI answer goes out": _broken_record,
}
