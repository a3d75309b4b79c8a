"""The documented differences in what is made of odd answers of applications (`--of upstreams`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from tests.suites.conformance.wire import Answer
from tests.suites.differential.changes import logged
from tests.suites.differential.logs import FIELD
from tests.suites.differential.odd_application import FIELD as ASKED
from tests.suites.differential.odd_application import SEPARATOR, answer_to, end_of, stdout_of
from tests.suites.differential.servers import Pair

_TWO_LENGTHS = re.compile(rb"(?i)\r?\ntransfer-encoding:[^\n]*\ncontent-length:|\ncontent-length:[^\n]*\ntransfer-enc")
_GATEWAY = re.compile(rb"\w+ /(?:uw|w|s)?[cs]gi[/? ]")
_BAD_TRAILER = re.compile(rb"(?:^|\n)0\r?\n(?:[^\n]*:[^\n]*\n)*[^:\r\n]+\r?\n\r?\n$")


def _cut_status_line(pair: Pair) -> Pair:
    """A status line of HTTP in a FastCGI answer: nginx passes over it unless a record ends within `HTTP/`."""
    answer = answer_to(pair.sent.data)
    is_cut = answer.startswith(b"\x01") and stdout_of(answer).startswith(b"HTTP/") and b"HTTP/" not in answer
    refused = pair.nginx.status == 502 != pair.gallop.status or "|us=502" in pair.nginx.headers.get(FIELD, "")
    return replace(pair, nginx=pair.gallop) if is_cut and refused else pair


def _refused_cookie(pair: Pair) -> Pair:
    """What variables know of an answer that was refused: in nginx what stood before the field that is at fault."""
    value, known = (answer.headers.get("x-up", "") for answer in (pair.gallop, pair.nginx))
    is_odd = b"\r\nX-Key: odd" in pair.sent.data or _TWO_LENGTHS.search(answer_to(pair.sent.data))
    if pair.gallop.status != 502 or not is_odd or not known.endswith(value):
        return pair
    headers = {name: known for name, known in pair.nginx.headers.items() if name != "x-up" or value}
    return replace(pair, nginx=replace(pair.nginx, headers={**headers, **({"x-up": value} if value else {})}))


def _hinted_status(pair: Pair) -> Pair:
    """`$upstream_status` stays 103 in nginx once there were early hints."""
    if not re.match(rb"HTTP/1\.1 103 ", answer_to(pair.sent.data)):
        return pair
    ours = re.search(r"\|us=([\d, ]+)\|", pair.gallop.headers.get(FIELD, ""))
    known, up = (answer.headers.get("x-up", "") for answer in (pair.nginx, pair.gallop))
    headers = {**pair.nginx.headers}
    if up and known.endswith("103"):
        headers["x-up"] = known[:-3] + up[-3:]
    nginx = replace(pair.nginx, headers=headers)
    if ours:
        nginx = logged(nginx, lambda line: re.sub(r"\|us=[\d, ]*103[\d, ]*\|", f"|us={ours[1]}|", line))
        if nginx.body == b"named 103\n":
            nginx = Answer(nginx.status, nginx.headers, pair.gallop.body)
    return replace(pair, nginx=nginx)


def _asked_anew(pair: Pair) -> Pair:
    """A connection that was kept, and ends as soon as it is used again, is given up for another one.

    Which of them an idle one is left to is a matter of what was before.
    """
    has_head = re.search(rb"\n\r?\n", _text(pair))
    if has_head or end_of(pair.sent.data) not in ("close", "reset"):
        return pair
    tries = [len(re.findall(r"\b502\b", answer.headers.get(FIELD, ""))) for answer in (pair.nginx, pair.gallop)]
    if b"\r\nX-Second: " in pair.sent.data and tries[0] != tries[1]:
        # One of them had a try left for the second server.
        return replace(pair, nginx=pair.gallop)
    asked = [pair.nginx.headers.get(ASKED, ""), pair.gallop.headers.get(ASKED, "")]
    if not all(asked):
        return pair
    once = SEPARATOR.join(sorted({each for text in asked for each in text.split(SEPARATOR)} - {""}))
    nginx, gallop = (
        logged(
            replace(answer, headers={**answer.headers, ASKED: once}),
            lambda line: re.sub(r"(?<=us=)(502, )+(?=[1-9])", "", line),
        )
        for answer in (pair.nginx, pair.gallop)
    )
    return replace(pair, nginx=nginx, gallop=gallop)


def _reset(pair: Pair) -> Pair:
    """What came before a reset goes out; nginx may leave out the end of it, and calls that the end."""
    nginx, gallop = pair.nginx, pair.gallop
    if end_of(pair.sent.data) != "reset" or nginx.status != gallop.status or len(nginx.body) >= len(gallop.body):
        return pair
    same = [ours == theirs for ours, theirs in zip(gallop.body, nginx.body, strict=False)]
    begins = same.index(False) if False in same else len(same)
    if not gallop.body.endswith(nginx.body[begins:]):
        return pair
    length = {name: value for name, value in gallop.headers.items() if name == "content-length"}
    return replace(pair, nginx=Answer(nginx.status, {**nginx.headers, **length}, gallop.body))


def _ranges_twice(pair: Pair) -> Pair:
    """`Accept-Ranges` of a response with `X-Accel-Redirect`, together with that of the file it leads to."""
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
    """How much goes out of an answer that breaks, where its end is told by the close or it has no body, or came whole.

    In chunks, in FastCGI's records, or from a gateway, that is.
    """
    answer = answer_to(pair.sent.data)
    in_pieces = answer.startswith(b"\x01") or b"chunked" in answer or _GATEWAY.match(pair.sent.data)
    if not in_pieces or b"\r\nX-Key: odd" not in pair.sent.data:
        return pair
    whole, of_nginx, of_gallop = stdout_of(answer), pair.nginx, pair.gallop
    lengths = {"content-length", "transfer-encoding"} & {*of_gallop.headers}
    if of_nginx.status <= 0 < of_gallop.status:
        cut = not lengths and of_gallop.body in whole
        is_whole = of_gallop.body in whole and of_gallop.headers.get("content-length", "0") == str(len(of_gallop.body))
        return replace(pair, nginx=of_gallop) if cut or is_whole else pair
    if of_gallop.status <= 0 < of_nginx.status and of_nginx.body in whole:
        # Less than the head told, which a filter took away, so that nginx ends it in good order.
        told = re.search(rb"(?i)content-length: *(\d+)", whole)
        short = told and int(told[1]) > len(whole.partition(b"\r\n\r\n")[2])
        return replace(pair, nginx=of_gallop) if short else pair
    begins = of_nginx.body.startswith(of_gallop.body) or of_gallop.body.startswith(of_nginx.body)
    closes = pair.sent.version == "1.0" or of_nginx.headers.get("connection") == "close"
    if lengths or not begins or of_nginx.status != of_gallop.status or not closes:
        return pair
    return replace(pair, nginx=Answer(of_nginx.status, of_nginx.headers, of_gallop.body))


def _cache_room(pair: Pair) -> Pair:
    """Where an answer is to be kept, nginx needs up to 400 bytes and the key of the room that a head has."""
    head = re.split(rb"\n\r?\n", answer_to(pair.sent.data), maxsplit=1)[0]
    is_near = any(room - 500 < len(head) + 4 <= room for room in (1024, 4096, 8192))
    log = pair.nginx.headers.get(FIELD, "")
    refused = re.search(r"us=502(?:, 502)*\|cache=[A-Z]", log) and "|us=502" not in pair.gallop.headers.get(FIELD, "")
    return replace(pair, nginx=pair.gallop) if is_near and refused else pair


def _interim_answer(pair: Pair) -> Pair:
    """Answers before the one that counts: but for 101 and 103, nginx takes them for that one."""
    answer = answer_to(pair.sent.data)
    is_interim = re.match(rb"HTTP/1\.[01] 1(?!01|03)\d\d[ \r]", answer) or re.match(rb"HTTP/1\.0 103 ", answer)
    return replace(pair, nginx=pair.gallop) if is_interim and pair.gallop.status >= 200 else pair


def _ended_before(pair: Pair) -> Pair:
    """Output behind its end, for which nginx may close the connection."""
    answer, of_nginx, of_gallop = answer_to(pair.sent.data), pair.nginx, pair.gallop
    ends = re.search(rb"\x01\x06\0\x01\0\0.\0.*\x01\x06\0\x01(?!\0\0)", answer, re.DOTALL)
    is_cut = of_nginx.status <= 0 or of_gallop.body.startswith(of_nginx.body)
    passed = of_gallop.status > 0 and of_gallop.body in stdout_of(answer)
    return replace(pair, nginx=of_gallop) if ends and is_cut and passed else pair


def _text(pair: Pair) -> bytes:
    answer = answer_to(pair.sent.data)
    return stdout_of(answer) if answer.startswith(b"\x01") else answer


def _two_locations(pair: Pair) -> Pair:
    """An upstream's redirect as the page of another one, whose `Location` nginx sends as well."""
    location = pair.gallop.headers.get("location", "")
    if not location or not re.fullmatch(
        re.escape(location) + r", https?://\S+", pair.nginx.headers.get("location", "")
    ):
        return pair
    return replace(pair, nginx=replace(pair.nginx, headers={**pair.nginx.headers, "location": location}))


UPSTREAMS: dict[str, Callable[[Pair], Pair]] = {
    "a status line of HTTP that a FastCGI record cuts": _cut_status_line,
    "variables of a response that is refused": _refused_cookie,
    "room for the head of a response that is cached": _cache_room,
    "interim responses": _interim_answer,
    "$upstream_status after early hints": _hinted_status,
    "a connection that was kept and has ended": _asked_anew,
    "the bytes before a reset": _reset,
    "output of FastCGI after its end": _ended_before,
    "Accept-Ranges of a response with X-Accel-Redirect": _ranges_twice,
    "a charset that is not the last of a type's parameters": _charset_not_last,
    "a line after a chunked body that is not a field": _bad_trailer,
    "the part of a broken FastCGI response that is sent": _broken_record,
    "Location of a redirect whose page is another one": _two_locations,
}
