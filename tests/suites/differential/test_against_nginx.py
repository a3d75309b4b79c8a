"""gallop responds like the real nginx; `make differential` is the long form."""

from __future__ import annotations

import struct
from dataclasses import replace
from random import Random

import pytest

from tests.suites.conformance.wire import Answer
from tests.suites.differential.__main__ import run
from tests.suites.differential.compare import Outcome, compared, difference
from tests.suites.differential.configs import Place, configuration
from tests.suites.differential.documented_differences import explained
from tests.suites.differential.logs import FIELD
from tests.suites.differential.odd_application import FIELD as ASKED
from tests.suites.differential.odd_application import told
from tests.suites.differential.requests import Sent, requests
from tests.suites.differential.servers import Pair

# Of these configurations Debian's nginx and the newest make the same but for what a rule names.
FIRST, CONFIGURATIONS, REQUESTS = 1, 6, 200


def test_gallop_responds_like_nginx_to_generated_configurations() -> None:
    whole = run(FIRST, CONFIGURATIONS, REQUESTS)
    assert not whole.unexplained, "\n".join(whole.unexplained[:20])
    assert whole.compared == CONFIGURATIONS * REQUESTS
    assert len(whole.statuses) > 10, "the requests reach many kinds of answers"


def test_directive_inheritance_matches_nginx() -> None:
    whole = run(1, 2, 120, kind="levels")
    assert not whole.unexplained, "\n".join(whole.unexplained[:20])
    assert whole.compared == 240


def test_gateways_respond_like_nginx() -> None:
    whole = run(1, 4, 150, kind="gateways")
    assert not whole.unexplained, "\n".join(whole.unexplained[:20])
    assert whole.compared == 600
    assert len(whole.statuses) > 10, "the applications give many kinds of answers"


def test_seed_reproduces_configuration_and_requests() -> None:
    def made(number: int) -> tuple[str, list[Sent]]:
        chance = Random(number)
        return configuration(chance, Place(80, 82, 81, "/www"), 8), list(requests(chance, 8, 50))

    assert made(7) == made(7)
    assert made(7) != made(8)


def test_comparison_detects_every_kind_of_difference() -> None:
    base = Answer(200, {"content-type": "text/plain", "date": "now"}, b"body")
    others = [
        Answer(404, base.headers, base.body),
        Answer(200, {"content-type": "text/html"}, base.body),
        Answer(200, {}, base.body),
        Answer(200, {**base.headers, "x-more": "1"}, base.body),
        Answer(200, base.headers, b"boDy"),
        Answer(200, base.headers, b"body and more"),
    ]
    sent = Sent("/", data=b"GET / HTTP/1.1\r\n\r\n")
    for other in others:
        outcome: Outcome = compared([Pair(sent, base, other)])
        assert outcome.unexplained, other
    assert not difference(base, Answer(200, {"content-type": "text/plain", "date": "later"}, base.body))


def test_difference_rule_explains_only_its_own_difference() -> None:
    sent = Sent("/", data=b"GET /a%0Ab HTTP/1.1\r\n\r\n")
    pair = Pair(sent, Answer(200, {"x": "a\nb"}), Answer(200, {"x": "a b"}))
    assert explained(pair, difference) == "a line feed in a field's value is sent as a space"
    pair = Pair(sent, Answer(200, {"x": "a\nb", "y": "1"}), Answer(200, {"x": "a b", "y": "2"}))
    assert explained(pair, difference) == ""


GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
ASKING = b"GET /http HTTP/1.1\r\nHost: a\r\nX-Answer: "
LINE = (
    "200 <GET / HTTP/1.1> |rl=9| 127.0.0.1 - /|a=%s|a|-|-|-|-|text/html|-|len=%s|-|-|%s|GET|HTTP/1.1|127.0.0.1|-|%s|-"
)


def _logged(status: int, arguments: str = "-", length: str = "-", done: str = "OK", tag: str = "-") -> Answer:
    return Answer(status, {FIELD: LINE % (arguments, length, done, tag)})


def _records(*pieces: bytes) -> bytes:
    return b"".join(b"\x01\x06\x00\x01" + struct.pack(">H", len(piece)) + b"\0\0" + piece for piece in pieces)


def _asking(answer: bytes, end: str = "close") -> bytes:
    return ASKING + told([answer], end).encode() + b"\r\nX-Key: odd1\r\n\r\n"


# What was sent, what nginx and gallop answered, and what is otherwise the same but no rule's business.
ONLY_THEIR_OWN = [
    (
        _asking(b"Content-Length: 14\r\n\r\nline\r\nline\n").replace(b"/http", b"/scgi"),
        Answer(200, {"connection": "close"}, b"line\r\nli"),
        Answer(200, {"connection": "close"}, b"line\r\nline\n"),
        Answer(200, {"connection": "close"}, b"like\r\nline\n"),
    ),
    (
        _asking(b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"),
        Answer(200, {FIELD: "200 a|us=103|-", "x-up": "103"}),
        Answer(200, {FIELD: "200 a|us=200|-", "x-up": "200"}),
        Answer(404, {FIELD: "200 a|us=200|-", "x-up": "200"}),
    ),
    (
        _asking(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"),
        Answer(404),
        Answer(200, {"x": "1"}),
        Answer(100),
    ),
    (
        _asking(b""),
        Answer(502, {ASKED: "a || a", FIELD: "502 a|us=502, 502|-"}),
        Answer(502, {ASKED: "a", FIELD: "502 a|us=502|-"}),
        Answer(502, {ASKED: "a", FIELD: "502 a|us=504|-"}),
    ),
    (
        _asking(b"HTTP/1.1 200 OK\r\n\r\nsome text", "reset"),
        Answer(200, {}, b"some after"),
        Answer(200, {}, b"some text after"),
        Answer(200, {}, b"more text after"),
    ),
    (
        _asking(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 800 + b"\r\n\r\n"),
        Answer(502, {FIELD: "502 a|us=502|cache=MISS|-"}),
        Answer(200, {FIELD: "200 a|us=200|cache=MISS|-"}),
        Answer(502, {FIELD: "200 a|us=502|cache=MISS|-"}),
    ),
    (
        ASKING + told([_records(b"HT", b"TP/1.1 200 OK\r\n\r\n")], "close").encode() + b"\r\n\r\n",
        Answer(502),
        Answer(200),
        Answer(502, {"x-a": "1"}),
    ),
    (
        ASKING
        + told([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"], "close").encode(),
        Answer(502, {"x-up": "1502"}),
        Answer(502, {"x-up": "502"}),
        Answer(502, {"x-up": "503"}),
    ),
    (
        ASKING + told([b"HTTP/1.1 200 OK\r\nX-Accel-Redirect: /b\r\n\r\n"], "close").encode() + b"\r\n\r\n",
        Answer(200, {"accept-ranges": "bytes, bytes"}),
        Answer(200, {"accept-ranges": "bytes"}),
        Answer(200, {"accept-ranges": "none"}),
    ),
    (
        ASKING + told([b"HTTP/1.1 200 OK\r\nX-Accel-Redirect: /b\r\n\r\n"], "close").encode() + b"\r\n\r\n",
        Answer(404, {"content-type": 'text/html; charset=a"; b=c'}),
        Answer(404, {"content-type": "text/html"}),
        Answer(404, {"content-type": "text/plain"}),
    ),
    (
        ASKING + told([b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n0\r\nbad\r\n\r\n"], "close").encode() + b"\r\n\r\n",
        Answer(-2),
        Answer(200, {}, b"x"),
        Answer(404, {}, b"x"),
    ),
    (
        ASKING + told([_records(b"\r\nbody")], "close").encode() + b"\r\nX-Key: odd1\r\n\r\n",
        Answer(0),
        Answer(200, {"content-length": "0"}),
        Answer(200, {"content-length": "4"}, b"boDy"),
    ),
    (
        b"GET /" + b"y" * 400 + b" HTTP/1.1\r\nHost: a\r\nX-A: " + b"a" * 700 + b"\r\nX-B: " + b"b" * 700 + b"\r\n\r\n",
        Answer(400),
        Answer(404),
        Answer(400, {"x-a": "1"}),
    ),
    (
        ASKING + told([b"HTTP/1.1 2000 OK\r\n\r\n"], "close").encode() + b"\r\n\r\n",
        Answer(200, {FIELD: "200 <GET /http HTTP/1.1> /http|-|us=200|"}),
        Answer(502, {FIELD: "502 <GET /http HTTP/1.1> /http|-|us=502|"}),
        Answer(404, {FIELD: "404 <GET /http HTTP/1.1> /http|-|us=404|"}),
    ),
    (
        ASKING + told([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx"], "close").encode() + b"\r\n\r\n",
        Answer(0),
        Answer(-2, {}, b"ends between chunks"),
        Answer(200, {"content-length": "0"}),
    ),
    (
        ASKING + told([b"\x01\x06\x00\x01\x00\x08\x00\x00X: y\r\n\r\n"], "close").encode() + b"\r\n\r\n",
        Answer(200, {"x": "y"}),
        Answer(-2, {}, b"ends between chunks"),
        Answer(502),
    ),
    (
        ASKING + told([b"HTTP/1.1 204 None\r\nContent-Length: 4\r\n\r\n"], "close").encode() + b"\r\n\r\n",
        Answer(204, {"content-length": "4"}),
        Answer(204),
        Answer(204, {"content-type": "a/b"}),
    ),
    (
        b"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
        Answer(200, {"(interim)": "100"}),
        Answer(200),
        Answer(200, {"(interim)": "103"}),
    ),
    (
        b"GET /x HTTP/1.1\r\nHost: a\r\nRange: bytes=1-1\r\n\r\n",
        Answer(0),
        Answer(206, {"content-range": "bytes 1-1/9"}),
        Answer(206, {"content-range": "bytes 1-1/9"}, b"x"),
    ),
    (GET, _logged(200, "-"), _logged(200, ""), _logged(200, "x")),
    (GET, _logged(412, done=""), _logged(412), _logged(412, "x")),
    (GET, _logged(304, tag="-"), _logged(304, tag='"t"'), _logged(304, "x", tag='"t"')),
    (
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        _logged(200, length="8192"),
        _logged(200),
        _logged(404),
    ),
    (
        b"GET /?q=\xe9 HTTP/1.1\r\nHost: a\r\n\r\n",
        Answer(200, {"content-type": "text/html; charset=koi8-r"}, b"a?b"),
        Answer(200, {"content-type": "text/html; charset=koi8-r"}, b"a? b"),
        Answer(200, {"content-type": "text/html; charset=koi8-r"}, b"a? cb"),
    ),
    (
        b"GET http:// HTTP/1.1\r\nHost: a\r\n\r\n",
        Answer(400, {"x-seen": "/"}, b"x"),
        Answer(400, {"x-seen": ""}, b"x"),
        Answer(404, {"x-seen": ""}, b"x"),
    ),
    (
        b"GET /?" + b"x" * 300 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        Answer(404),
        Answer(403),
        Answer(500),
    ),
    (
        b"GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=-0\r\n\r\n",
        Answer(416, {"x-a": "200, 416", "x-b": "200"}),
        Answer(416, {"x-a": "416"}),
        Answer(416, {"x-a": "200, 417"}),
    ),
    (
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na=1",
        Answer(200, {}, b"x len=0/ body=\n"),
        Answer(200, {}, b"x len=/ body=\n"),
        Answer(200, {}, b"y len=/ body=\n"),
    ),
    (
        GET,
        Answer(404, {FIELD: "404 <GET / HTTP/1.1> |rl=9| 127.0.0.1 - app|a=|a", "x": "1"}),
        Answer(404, {FIELD: "404 <GET / HTTP/1.1> |rl=9| 127.0.0.1 - /app|a=|a"}),
        Answer(404, {FIELD: "404 <GET / HTTP/1.1> |rl=9| 127.0.0.1 - /b|a=|a"}),
    ),
    (
        GET,
        Answer(200, {"content-length": "12"}, b"stubbe|b|bad"),
        Answer(200, {"content-length": "13"}, b"stubbed|b|bad"),
        Answer(200, {"content-length": "13"}, b"stubbed|b|sad"),
    ),
    (
        GET,
        Answer(200, {FIELD: "200 <GET / HTTP/1.1> |a|206|MISS|16|"}, b' value="x" -->'),
        Answer(200, {FIELD: "200 <GET / HTTP/1.1> |a|206|MISS|16|"}, b"x"),
        Answer(200, {FIELD: "200 <GET / HTTP/1.1> |a|206|MISS|16|"}, b"<!--#x -->"),
    ),
    (b"GET /a%0Ab HTTP/1.1\r\nHost: a\r\n\r\n", Answer(-1), Answer(404), Answer(0)),
    (
        GET,
        Answer(200, {}, b"st|b|bad"),
        Answer(200, {}, b"stubbed|b|bad"),
        Answer(200, {}, b"stubbed|b|sad"),
    ),
    (
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na=1",
        Answer(-1, {FIELD: "499 <POST / HTTP/1.1> |rl=9|"}),
        Answer(404),
        Answer(-2),
    ),
    (
        GET,
        Answer(404, {FIELD: "404 <GET / HTTP/1.0> |"}),
        Answer(404, {FIELD: "404 <GET / HTTP/1.0> |", "content-length": "0"}),
        Answer(404, {FIELD: "404 <GET / HTTP/1.0> |", "content-length": "1"}),
    ),
    (
        GET,
        Answer(404, {"transfer-encoding": "chunked"}),
        Answer(404, {"content-length": "0"}),
        Answer(404, {"content-length": "1"}),
    ),
    (
        GET,
        Answer(200, {}, b'<a href="a/">a/</a> <a href="style.css">'),
        Answer(200, {}, b'<a href="b/">b/</a> <a href="index.html">'),
        Answer(200, {}, b'<a href="b/">b/</a>'),
    ),
]


def test_cache_history_explains_only_earlier_differences() -> None:
    def answered(status: int, cached: str, uri: str = "/") -> Answer:
        line = LINE % ("-", "-", "OK", "-")
        return Answer(status, {FIELD: line.replace("- /|", f"- {uri}|").replace("|a|-|-|-|", f"|a|{cached}|")})

    sent = Sent("/", data=b"GET / HTTP/1.1\r\nHost: a\r\nIf-Unmodified-Since: never\r\n\r\n")
    before = Pair(sent, answered(412, "200|MISS|0"), answered(200, "200|MISS|9"))
    plain = Sent("/", data=GET)
    after, other = (
        Pair(plain, answered(200, "200|MISS|9", uri), answered(200, "-|HIT|-", uri)) for uri in ("/", "/other")
    )
    assert not compared([before, after]).unexplained
    assert compared([after]).unexplained, "nothing was kept by one of both"
    assert compared([before, other]).unexplained, "that is another answer"
    assert compared([before, Pair(plain, after.nginx, answered(404, "-|HIT|-"))]).unexplained
    own, foreign = (replace(after, gallop=replace(after.gallop, body=body)) for body in (b"of it", b"of none"))
    before = replace(before, gallop=replace(before.gallop, body=b"of it"))
    assert not compared([before, own]).unexplained
    assert compared([before, foreign]).unexplained, "nobody was answered that"


def test_variables_have_same_values_as_in_nginx() -> None:
    whole = run(1, 1, 120, kind="variables")
    assert not whole.unexplained, "\n".join(whole.unexplained[:20])
    assert whole.compared == 120


def test_odd_upstream_responses_are_handled_like_nginx() -> None:
    whole = run(1, 2, 120, kind="upstreams")
    assert not whole.unexplained, "\n".join(whole.unexplained[:20])
    assert whole.compared == 240


@pytest.mark.parametrize(("data", "nginx", "gallop", "other"), ONLY_THEIR_OWN)
def test_difference_rules_leave_other_differences(data: bytes, nginx: Answer, gallop: Answer, other: Answer) -> None:
    sent = Sent("/", method=data.split(b" ")[0].decode(), data=data)
    assert explained(Pair(sent, nginx, gallop), difference)
    assert not explained(Pair(sent, nginx, other), difference)
    is_of_its_target = not data.startswith((b"GET / ", b"POST / "))
    if is_of_its_target:
        assert not explained(Pair(Sent("/", data=GET), nginx, gallop), difference)
