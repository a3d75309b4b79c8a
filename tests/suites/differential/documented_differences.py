"""Rules for the differences in native/COMPATIBILITY.md; each recognizes only the responses of its own difference."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from email.utils import parsedate_to_datetime

from tests.suites.conformance.wire import Answer
from tests.suites.differential.body_differences import BODIES
from tests.suites.differential.changes import changed, logged
from tests.suites.differential.logs import FIELD
from tests.suites.differential.odd_application import answer_to, stdout_of
from tests.suites.differential.older_nginx import OLDER
from tests.suites.differential.servers import INTERIM, Pair, is_old
from tests.suites.differential.upstream_differences import UPSTREAMS

_LENGTH = re.compile(r"\|(?:len|rl)=(?:\d*|-)\|")
_TWO_HOSTS = re.compile(r"\|([^|, ]+), [^|, ]+\|")
_ETAG = re.compile(r"\|(-|[^|]*)\|-$")  # the last but one of a log's line
_READ = re.compile(r"\|rl=\d+\|")
_UNMODIFIED = re.compile(rb"\r\nIf-Unmodified-Since: ([^\r]*)")
_PASSED = re.compile(r"\|(?:-|PASSED)\|(?:-|PASSED)\|OK\|")
ENDED = b"\x01\x03\x00\x01"  # how FastCGI's last record begins
_BAD_CHUNK = re.compile(rb"Transfer-Encoding: chunked\r\n(?:[^\r]+\r\n)*\r\n[^0-9a-fA-F]")


def _line_feed(pair: Pair) -> Pair:
    return replace(pair, nginx=changed(pair.nginx, lambda value: value.replace("\n", " ")))


def _body_length(pair: Pair) -> Pair:
    if not re.search(rb"\r\ncontent-length: [1-9]|chunked", pair.sent.data.lower()):
        return pair
    nginx, gallop = (changed(answer, lambda value: _LENGTH.sub("|", value)) for answer in (pair.nginx, pair.gallop))
    return replace(pair, nginx=nginx, gallop=gallop)


def _refused_length(pair: Pair) -> Pair:
    """Of what is a 400, whatever page then answers it."""
    refused = pair.nginx.status == 400 or "400 <" in pair.nginx.headers.get(FIELD, "")
    if not refused and not (pair.sent.number < 0 and pair.sent.alone):
        return pair
    nginx, gallop = (
        changed(answer, lambda value: _READ.sub("|", _TWO_HOSTS.sub(r"|\1|", value)))
        for answer in (pair.nginx, pair.gallop)
    )
    return replace(pair, nginx=nginx, gallop=gallop)


def _undefined_arguments(pair: Pair) -> Pair:
    """nginx copies a pointer that nothing has set, where a URI with variables or of try_files has none."""
    if "|a=-|" not in pair.nginx.headers.get(FIELD, ""):
        return pair
    return replace(pair, gallop=logged(pair.gallop, lambda line: line.replace("|a=|", "|a=-|")))


def _given_up(pair: Pair) -> Pair:
    """nginx does not come to the end of a 412, nor to a mirror's limits, unless it throws a body away meanwhile."""
    line = pair.nginx.headers.get(FIELD, "")
    if (pair.nginx.status != 412 and "412 <" not in line) or "|OK|" in line:
        return pair
    unlimited = "|-|-||" in line
    return replace(
        pair,
        gallop=logged(
            pair.gallop,
            lambda line: _PASSED.sub("|-|-||", line) if unlimited else line.replace("|OK|", "||"),
        ),
    )


def _ranges_of_changed(pair: Pair) -> Pair:
    """Of an upstream's answer that a filter makes longer or shorter."""
    if "accept-ranges" in pair.gallop.headers or pair.nginx.headers.get("content-length"):
        return pair
    headers = {name: value for name, value in pair.nginx.headers.items() if name != "accept-ranges"}
    return replace(pair, nginx=Answer(pair.nginx.status, headers, pair.nginx.body))


def _cached_head(pair: Pair) -> Pair:
    """Where a cache is filled and no body sent: how much of the answer had come when it was logged."""
    if pair.sent.method != "HEAD" and pair.nginx.status not in (204, 304, 412):
        return pair
    nginx, gallop = (
        logged(answer, lambda line: re.sub(r"\|(MISS|EXPIRED|BYPASS)\|[\d :]+\|", r"|\1|", line))
        for answer in (pair.nginx, pair.gallop)
    )
    return replace(pair, nginx=nginx, gallop=gallop)


def _is_repeated(value: str, one: str) -> bool:
    return bool(one) and set(value.split(", ")) == set(one.split(", ")) and len(value) > len(one)


def _is_twice(value: str) -> bool:
    half = value[: len(value) // 2 - 1]
    return value == f"{half}, {half}"


def _range_fields(pair: Pair) -> Pair:
    """All that nginx sends more are the fields of the 200 that it had begun; an error page has each of them twice."""
    status = pair.nginx.status
    unmet = b"\r\nRange: " in pair.sent.data and pair.gallop.headers.get("content-range", "").startswith("bytes */")
    if unmet and status == pair.gallop.status and pair.nginx.body == pair.gallop.body:
        # The page for a 416 may be one for another status.
        return replace(pair, nginx=pair.gallop)
    replaced = b"\r\nRange: " in pair.sent.data and {*pair.nginx.headers} == {*pair.gallop.headers}
    if status != pair.gallop.status or not (status == 416 or replaced):
        return pair
    more = pair.nginx.headers
    same = all(
        name in ("content-length", "date", FIELD if status == 416 else "")
        or f", {value}, " in f", {more.get(name, '')}, "
        or _is_twice(more.get(name, ""))
        for name, value in pair.gallop.headers.items()
    )
    return replace(pair, nginx=Answer(status, pair.gallop.headers, pair.nginx.body)) if same else pair


def _asked_twice(pair: Pair) -> Pair:
    value = pair.gallop.headers.get("www-authenticate", "")
    if not _is_repeated(pair.nginx.headers.get("www-authenticate", ""), value):
        return pair
    return replace(pair, nginx=replace(pair.nginx, headers={**pair.nginx.headers, "www-authenticate": value}))


def _unmodified(pair: Pair) -> Pair:
    found = _UNMODIFIED.search(pair.sent.data)
    if found is None or pair.nginx.status != 412 or pair.gallop.status == 412:
        return pair
    undated = "last-modified" not in pair.gallop.headers
    return replace(pair, nginx=pair.gallop) if undated or not _is_date(found[1].decode("latin-1")) else pair


def _is_date(text: str) -> bool:
    try:
        parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return False
    return bool(re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT|\w+, \d\d-\w{3}-\d\d [\d:]{8} GMT", text))


def _tab(pair: Pair) -> Pair:
    return replace(pair, nginx=pair.gallop) if b" \t\r\n" in pair.sent.data and pair.nginx.status == 400 else pair


def _validators(pair: Pair) -> Pair:
    if not pair.nginx.status == pair.gallop.status == 304:
        return pair
    kept = {name: value for name, value in pair.gallop.headers.items() if name in ("etag", "last-modified")}
    if tag := _ETAG.search(pair.gallop.headers.get(FIELD, "")):
        kept[FIELD] = _ETAG.sub(lambda _: tag[0], pair.nginx.headers[FIELD])
    return replace(pair, nginx=Answer(304, {**pair.nginx.headers, **kept}))


def _split_line(pair: Pair) -> Pair:
    """gallop percent-encodes blanks and control characters for an upstream; nginx sends them as they are."""
    breaks = re.search(rb"%(?:[01][0-9A-Fa-f]|20|7[Ff])", pair.sent.data)
    refused = pair.gallop.status == 502 or (pair.nginx.status in (-1, 400, 502) and pair.gallop.status > 0)
    return replace(pair, nginx=pair.gallop) if breaks and refused else pair


def _ascending(pair: Pair) -> Pair:
    """gallop refuses a file path whose `..` the request, a rewrite or try_files brings; nginx opens the file."""
    brought = "/../" in pair.nginx.headers.get(FIELD, "") or "/../" in pair.gallop.headers.get(FIELD, "")
    refused = pair.gallop.status == 403 or "403" in pair.gallop.headers.get(FIELD, "")
    return replace(pair, nginx=pair.gallop) if brought and refused else pair


def _bad_chunk(pair: Pair) -> Pair:
    return replace(pair, nginx=pair.gallop) if _BAD_CHUNK.search(pair.sent.data) and pair.gallop.status == 400 else pair


def _charset(pair: Pair) -> Pair:
    kind = pair.nginx.headers.get("content-type", "")
    if not kind.startswith("text/x-app") or pair.gallop.headers.get("content-type") != f"{kind}; charset=utf-8":
        return pair
    return replace(
        pair,
        nginx=Answer(
            pair.nginx.status, {**pair.nginx.headers, "content-type": f"{kind}; charset=utf-8"}, pair.nginx.body
        ),
    )


def _unwritten(pair: Pair) -> Pair:
    """Fields in which nginx sends NUL bytes, for the same request each time: memory that it has not written."""
    blank = any("\0" in value for value in pair.nginx.headers.values())
    same = (pair.nginx.status, pair.nginx.body) == (pair.gallop.status, pair.gallop.body)
    return replace(pair, nginx=pair.gallop) if blank and same else pair


def _no_method(pair: Pair) -> Pair:
    """What the page of a refused line knows of a method that was HEAD: in nginx nothing."""
    line = pair.sent.encoded()[len(pair.sent.preface) :]
    if not line.startswith(b"HEAD ") or pair.nginx.status != 400:
        return pair
    return replace(pair, gallop=changed(pair.gallop, lambda value: value.replace("|GET|", "||")))


def _listed_above(pair: Pair) -> Pair:
    """The folder `a`, by an alias without a slash at its end: nginx takes the last letter for one."""
    listed = re.search(rb'[^.\w/]index\.html"', pair.gallop.body) and b"style.css" not in pair.gallop.body
    if not listed or b"style.css" not in pair.nginx.body:
        return pair
    length = {name: value for name, value in pair.gallop.headers.items() if name == "content-length"}
    return replace(pair, nginx=Answer(pair.nginx.status, {**pair.nginx.headers, **length}, pair.gallop.body))


def _empty_body(pair: Pair) -> Pair:
    """Of an upstream's 304 that stands for an error page, or of an answer that was kept and told no length."""
    nginx, gallop = pair.nginx, pair.gallop
    told = nginx.headers.get("transfer-encoding", "chunked") == "chunked" and "content-length" not in nginx.headers
    empty = nginx.body == gallop.body == b"" and told
    if not empty or nginx.status == 304 or gallop.headers.get("content-length") != "0":
        return pair
    headers = {name: value for name, value in nginx.headers.items() if name != "transfer-encoding"}
    if "transfer-encoding" not in nginx.headers and headers.get("connection") == "close":
        headers["connection"] = gallop.headers.get("connection", "")
    return replace(pair, nginx=Answer(nginx.status, {**headers, "content-length": "0"}))


def _no_host(pair: Pair) -> Pair:
    """Of a line whose target has no host nginx still knows method and path; of CONNECT with a path no version."""
    line = pair.sent.encoded()[len(pair.sent.preface) :].partition(b"\r\n")[0]
    if not re.fullmatch(rb"[\w-]+ \w+:// HTTP/1\.\d|CONNECT /\S* HTTP/1\.\d", line):
        return pair
    same = pair.nginx.status == pair.gallop.status and pair.nginx.body == pair.gallop.body
    return replace(pair, nginx=pair.gallop) if same else pair


def _continue(pair: Pair) -> Pair:
    """nginx asks for a body also where it throws that away; without one it matters not who asks."""
    if not re.search(rb"(?i)\r\nExpect: 100-continue\r\n", pair.sent.data):
        return pair
    if INTERIM in pair.nginx.headers and INTERIM in pair.gallop.headers:
        return pair
    bodiless = not re.search(rb"(?i)\r\n(?:Content-Length: [1-9]|Transfer-Encoding:)", pair.sent.data)
    nginx, gallop = (_without_invitation(answer) for answer in (pair.nginx, pair.gallop))
    return Pair(pair.sent, nginx, gallop if bodiless else pair.gallop)


def _without_invitation(answer: Answer) -> Answer:
    headers = {name: value for name, value in answer.headers.items() if (name, value) != (INTERIM, "100")}
    return replace(answer, headers=headers)


_HEAD = re.compile(rb"(?:HTTP/1\.\d [1-9]\d\d(?: [^\0\n]*)?\r?\n)?(?:[^\0-\x20:\x7f]+:[^\0\n]*\r?\n)*\r?\n")
_STATUS = re.compile(rb"(?i)(?:^|\n)status: *(?![1-9]\d\d[ \r\n])")


def _odd_head(pair: Pair) -> Pair:
    """A status that is none, and a line that is no field: nginx takes some for one."""
    answer = answer_to(pair.sent.data)
    is_none = bool(answer) and not answer.startswith((b"\x01", b"HTTP/1."))
    if answer.startswith(b"\x01"):
        answer = stdout_of(answer)
    is_odd = answer and (is_none or not _HEAD.match(answer) or _STATUS.search(answer.partition(b"\n\n")[0]))
    return replace(pair, nginx=pair.gallop) if is_odd and "|us=502" in pair.gallop.headers.get(FIELD, "") else pair


def _both_cut(pair: Pair) -> Pair:
    """How much of a broken answer goes out before the connection is closed."""
    told = {"content-length", "transfer-encoding"} & {*pair.gallop.headers}
    is_cut = pair.gallop.status <= 0 or (not told and not pair.gallop.body)
    is_broken = is_cut and pair.nginx.status <= 0 and answer_to(pair.sent.data)
    return replace(pair, nginx=pair.gallop) if is_broken else pair


def _no_end(pair: Pair) -> Pair:
    """A FastCGI connection that ends before the answer does; nginx minds where `fastcgi_keep_conn` is on."""
    answer = answer_to(pair.sent.data)
    is_cut = -2 in (pair.gallop.status, pair.nginx.status)
    return replace(pair, nginx=pair.gallop) if is_cut and answer.startswith(b"\x01") and ENDED not in answer else pair


def _length_of_nothing(pair: Pair) -> Pair:
    """Of an upstream's 204."""
    if not pair.nginx.status == pair.gallop.status == 204 or not answer_to(pair.sent.data):
        return pair
    headers = {name: value for name, value in pair.nginx.headers.items() if name != "content-length"}
    return replace(pair, nginx=replace(pair.nginx, headers=headers))


def _head_room(pair: Pair) -> Pair:
    """nginx leaves the end of a buffer empty where the next line does not fit, and so runs out of them earlier."""
    lines = pair.sent.data.partition(b"\r\n\r\n")[0].split(b"\r\n")
    large = sum(len(line) > 300 for line in lines)
    refused = pair.nginx.status == 400 and pair.gallop.status not in (400, 414)
    return replace(pair, nginx=pair.gallop) if refused and large > 2 and sum(map(len, lines)) < 3 * 1024 else pair


def _cut_gzip(pair: Pair) -> Pair:
    """A part of a compressed answer that is to be unpacked: nginx closes the connection before the head."""
    cut = b"\r\nRange: " in pair.sent.data and pair.nginx.status == 0 and pair.gallop.status == 206
    return replace(pair, nginx=pair.gallop) if cut and not pair.gallop.body else pair


def _index_variables(pair: Pair) -> Pair:
    """The second look for an index, below an error page's URI, is still for a name too long to be one."""
    arguments = pair.sent.data.partition(b"\r\n")[0].partition(b"?")[2]
    if len(arguments) > 255 and pair.nginx.status == 404 and pair.gallop.status == 403:
        return replace(pair, nginx=pair.gallop)
    return pair


def _invalid_utf8(pair: Pair) -> Pair:
    """What no character begins with takes the byte behind it away in nginx; before 1.23 up to three, in one `?`."""
    kind = pair.gallop.headers.get("content-type", "")
    invalid = re.search(rb"[\x80-\xff]|%[89a-fA-F]", pair.sent.data) or pair.gallop.body[:6].lower() == b"gif89a"
    if not kind.endswith("charset=koi8-r") or not invalid:
        return pair
    marks = rb"\?{1,%d}" if is_old() else rb"\?{%d}"
    pieces = re.split(rb"(\?+)", pair.gallop.body)
    either = (
        marks % len(run) + b"(?:" + re.escape(piece) + b"|" + re.escape(piece[1:]) + b")"
        for run, piece in zip(pieces[1::2], pieces[2::2], strict=True)
    )
    if not re.fullmatch(re.escape(pieces[0]) + b"".join(either), pair.nginx.body, re.DOTALL):
        return pair
    return replace(pair, nginx=Answer(pair.nginx.status, pair.nginx.headers, pair.gallop.body))


def _slashless(pair: Pair) -> Pair:
    """Of a fallback of try_files below an alias nginx loses the first slash, and with it the location."""
    lost = re.search(r" - ([^/|\s][^|]*)\|a=", pair.nginx.headers.get(FIELD, ""))
    if not lost or f" - /{lost[1]}|a=" not in pair.gallop.headers.get(FIELD, ""):
        return pair
    return replace(pair, nginx=pair.gallop)


def _lost_stub(pair: Pair) -> Pair:
    """The block that stands for an empty part of a page: of it nginx's sub_filter loses what it holds back."""
    for left in range(len(b"stubbed") - 1, -1, -1):
        lost = b"stubbed"[:left] + b"|"
        if lost in pair.nginx.body and pair.nginx.body.replace(lost, b"stubbed|", 1) == pair.gallop.body:
            length = {name: value for name, value in pair.gallop.headers.items() if name == "content-length"}
            return replace(pair, nginx=Answer(pair.nginx.status, {**pair.nginx.headers, **length}, pair.gallop.body))
    return pair


def _commands_in_slices(pair: Pair) -> Pair:
    """SSI of a response in slices: nginx reads each slice separately and misses commands that reach into the next."""
    sliced = all("|206|" in answer.headers.get(FIELD, "") for answer in (pair.nginx, pair.gallop))
    cut = b"-->" in pair.nginx.body and b"-->" not in pair.gallop.body
    return replace(pair, nginx=replace(pair.nginx, body=pair.gallop.body)) if sliced and cut else pair


# Each rule returns the pair as it would be without the difference of its name.
RULES: dict[str, Callable[[Pair], Pair]] = {
    **OLDER,
    **UPSTREAMS,
    "100 (Continue) without a body, or for a body that is not needed": _continue,
    "an upstream's range that cannot be decompressed": _cut_gzip,
    "an upstream's invalid status, or a line that is not a field": _odd_head,
    "Content-Length of an upstream's 204": _length_of_nothing,
    "the part of a broken response that is sent": _both_cut,
    "the room in the buffers of a head": _head_room,
    "a FastCGI response without an end": _no_end,
    "arguments of a URI that has none: not a value in every build of nginx": _undefined_arguments,
    "a line feed in a field's value is sent as a space": _line_feed,
    "$content_length of a chunked body, and how much of a body counts in $request_length": _body_length,
    "$request_length of a request that is refused": _refused_length,
    "a 412 is not complete": _given_up,
    "a response without a body that fills a cache: $upstream_response_length": _cached_head,
    "Accept-Ranges of an upstream's response that a filter changes": _ranges_of_changed,
    "416 with the fields of the 200 that would have been sent": _range_fields,
    "WWW-Authenticate of an error page that asks for a password again": _asked_twice,
    "If-Unmodified-Since that is not a date, or for a response without Last-Modified": _unmodified,
    "a tab after a field's value": _tab,
    "304 with the validators that a filter for all types removes": _validators,
    "a blank or control character that a variable writes into a request to an upstream": _split_line,
    "a file path that ascends by a .. from the request": _ascending,
    "a malformed chunked body that arrived together with its head": _bad_chunk,
    **BODIES,
    "a Location and a $uri of NUL bytes": _unwritten,
    "variables of a target without a host": _no_host,
    "the method of a refused line of HEAD": _no_method,
    "a folder of one letter, listed by an alias without a slash": _listed_above,
    "the framing of an empty body": _empty_body,
    "variables in an index, evaluated again for an error page": _index_variables,
    "a byte after invalid UTF-8": _invalid_utf8,
    "a stub block of SSI below a sub_filter": _lost_stub,
    "SSI of a response in slices": _commands_in_slices,
    "a fallback of try_files below an alias": _slashless,
    "X-Accel-Charset that no directive names": _charset,
}


def explained(pair: Pair, differs: Callable[[Answer, Answer], str]) -> str:
    """The names of the documented differences that explain all that `differs` finds; nothing if they do not."""
    names = []
    for name, rule in RULES.items():
        if (other := rule(pair)) != pair:
            names.append(name)
            pair = other
    return "" if differs(pair.nginx, pair.gallop) else ", ".join(names)
