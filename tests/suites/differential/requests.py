"""Requests as bytes: what browsers send, what clients get wrong, and what attackers try."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from tests.suites.conformance.wire import Request
from tests.suites.differential import configuration_pieces

SEGMENTS = [
    "a", "b", "A", "AB", "x.gif", "img", "a b", "é", "b.txt", "empty", "c.txt", "index.html", "none", "app",
    "page.html", "data.json", "noext", "other", "ssi.html", "style.css", ".hidden", "named", "blocks.html",
    "russian.txt", "russian.html", "big.txt", "mirror", "auth-check",
]  # fmt: skip
Spell = Callable[[str], str]
FORMS: list[Spell] = [
    *[lambda path: path] * 24, *[lambda path: path + "?q=x"] * 3, lambda path: path + "/", lambda path: path + "?",
    lambda path: path + "?q=%2Fb.txt&ip=10.1.2.3", lambda path: path + "?a=1&q=b.txt&q=2", lambda path: path + "?=&&q",
    lambda path: path + "?q=x?y#z", lambda path: "/" + path, lambda path: "/." + path, lambda path: "/img/.." + path,
    lambda path: path + "/..", lambda path: path + "/.", lambda path: path + "//",
    lambda path: path.replace("a", "%61"), lambda path: path.replace("/", "//"), lambda path: path + "%2Fb",
    lambda path: path + "%2f..%2fb.txt", lambda path: path + ".gif", lambda path: path + "%00", lambda path: path + "%",
    lambda path: path + "%z1", lambda path: path + "%4", lambda path: "/.." + path, lambda path: "/%2e%2e" + path,
    lambda path: path + "/%2E./b.txt", lambda path: path + ";p=1", lambda path: path + "#f",
    lambda path: path + "#f?q=x", lambda path: path + "%3Fx", lambda path: path + "%23", lambda path: path + "%25",
    lambda path: path + "%5C..", lambda path: path + "\\..\\b", lambda path: path.upper(), lambda path: path + "%0A",
    lambda path: path + "%0d%0aX: y", lambda path: path + "\xff", lambda path: path + "\x01",
    lambda path: path + "\x7f", lambda path: path + "+", lambda path: path + '"', lambda path: path + "%E9",
    lambda path: path + "%C3%A9", lambda path: path + "<>", lambda path: path + "{}|^`", lambda path: path + "...",
    lambda path: path + "/....//", lambda path: path + "~", lambda path: path + "?%zz",
    lambda path: path + "?" + "x" * 300, lambda path: path + "/" + "y" * 300, lambda path: "/a/./b/../../" + path,
    lambda path: path + "/./../x.gif", lambda path: path + "?q=\xe9", lambda path: path + "\t",
    lambda path: "/a/b" + path,
]  # fmt: skip
TARGETS = [
    "*", "", "b.txt", "http:/x", "http://", "//", "/", "?", "/?", "x:80", "HTTP://s1.test/b.txt",
    "https://s1.test:1/b.txt", "ftp://s1.test/b.txt", "http://s1.test?q=x", "http://s1.test", "http://S1.TEST:8/a",
    "http://a@s1.test/b.txt", "http://[::1]/a", "http://s1.test /a",
]  # fmt: skip
VERBS = ["GET"] * 36 + ["HEAD"] * 6 + ["POST"] * 4 + ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "FOO", "get", "G-T",
         "MKCOL",
         "PROPFIND", "CONNECT", "GE_T"]  # fmt: skip
DATES = [
    "Wed, 01 Jan 2020 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT", "Sat, 01 Jun 2024 12:00:00 GMT", "nonsense", "",
    "Saturday, 01-Jun-24 12:00:00 GMT", "Sat Jun  1 12:00:00 2024", "Sat, 1 Jun 2024 12:00:00 GMT", "1717243200",
]  # fmt: skip
ETAGS = ["*", '"own"', 'W/"own"', '"665b0d40-1"', 'W/"665b0d40-1", "x"', "own", '"a" "b"', '"', "", ',"665b0d40-1"']
RANGES = [
    "bytes=0-1", "bytes=2-", "bytes=-1", "bytes=0-0,2-3", "bytes=5-2", "bytes=100-", "bytes=0-,0-,0-", "bytes=",
    "bytes=-", "bytes=a-b", "lines=0-1", "bytes=0-99999999999999999999", "bytes = 0-1", "Bytes=0-1", "bytes=0-1,,2-2",
    "bytes=-0", "bytes=0-1, 3-4 ,-1", "bytes=1-1,99999-", "bytes=0 - 1", "0-1",
]  # fmt: skip
AUTH = ["ann:password", "ann:wrong", "bob:password", "ann", ":", "ann:pass:word"]
NAMED: list[tuple[str, list[str]]] = [
    ("Range", RANGES), ("Range", RANGES), ("If-Modified-Since", DATES), ("If-Unmodified-Since", DATES),
    ("If-None-Match", ETAGS), ("If-Match", ETAGS), ("If-Range", [*DATES, *ETAGS]),
    ("Authorization", [*("Basic " + base64.b64encode(word.encode()).decode() for word in AUTH), "Basic", "Basic !!",
                       "Bearer x", "basic YW5uOnBhc3N3b3Jk"]),
    ("Accept-Encoding", ["gzip", "gzip;q=0", "*", "deflate, gzip;q=0.5", "GZIP", "identity", "x-gzip", "gzip;q=0.0001",
                         "gzip; q=1", "gzip;q=2", ""]),
    ("X-Own", ["client", "Cat", "", "a b", "a\tb", "\xe9"]),
    ("Cookie", ["c=1", "a=1; c=2", "c", "c=1; c=2", "C=3", "x=c=4", ""]),
    ("Connection", ["close", "keep-alive", "Keep-Alive, x", "upgrade", "x, close", "CLOSE", ""]),
    ("Referer", ["http://x.test/", "http://good/", "x", "", "https://www.s1.test/a?b", "HTTP://X.TEST"]),
    ("X-Forwarded-For", ["192.0.2.1", "a, b", "192.0.2.1, 127.0.0.1", "192.0.2.1, 10.0.0.1, 127.0.0.1", "::1", "",
                         "[2001:db8::1]:80", "192.0.2.1:8080", "1.2.3.4,,5.6.7.8", "unix:", "10.0.0.1, x, 127.0.0.1"]),
    ("X-Real-IP", ["192.0.2.9", "bad", "2001:db8::9", "1.2.3", "10.0.0.1:1", "[::1]"]), ("Accept-Charset", ["utf-8"]),
    ("Cache-Control", ["no-cache", "max-age=0"]), ("Pragma", ["no-cache"]), ("Content-Encoding", ["gzip"]),
    ("Keep-Alive", ["5"]), ("Via", ["1.0 x"]), ("Via", ["1.1 y"]),
    ("Expect", ["100-continue", "100-CONTINUE", "nothing"]),
    ("User-Agent", ["x", "", "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT)"]), ("X_Under", ["y"]),
    ("Under-Score_x", ["z"]), ("Content-Type", ["text/x", "application/x-www-form-urlencoded"]),
    ("Upgrade", ["websocket", "h2c"]), ("TE", ["trailers"]), ("X-Long", ["v" * 700, "v" * 1500]), ("Accept", ["*/*"]),
    ("Proxy", ["x"]), ("X-Accel-Redirect", ["/b.txt"]), ("Depth", ["1"]), ("Destination", ["/x"]), ("Overwrite", ["T"]),
]  # fmt: skip
# Heads that a careful server refuses, or reads in one way only; {host} and {path} are filled in.
MALFORMED = [
    "GET {path} HTTP/1.1\r\n\r\n", "GET {path} HTTP/1.1\r\nHost:\r\n\r\n", "GET {path} HTTP/1.1\nHost: {host}\n\n",
    "GET {path} HTTP/1.1\r\nHost: {host}\r\nHost: {host}\r\n\r\n", "GET {path} HTTP/1.1\r\nHost : {host}\r\n\r\n",
    "GET {path}  HTTP/1.1\r\nHost: {host}\r\n\r\n", "GET  {path} HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "GET {path} HTTP/1.1 \r\nHost: {host}\r\n\r\n", "GET {path} HTTP/1.2\r\nHost: {host}\r\n\r\n",
    "GET {path} HTTP/2.0\r\nHost: {host}\r\n\r\n", "GET {path} HTTP/1.10\r\nHost: {host}\r\n\r\n",
    "GET {path} HTTP/0.9\r\nHost: {host}\r\n\r\n", "GET {path} http/1.1\r\nHost: {host}\r\n\r\n",
    "GET {path} HTTP/1.\r\nHost: {host}\r\n\r\n", "GET {path} HTTP/11\r\nHost: {host}\r\n\r\n", "GET {path} x\r\n\r\n",
    "\r\nGET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n", "\r\n\r\nGET {path} HTTP/1.0\r\n\r\n",
    " GET {path} HTTP/1.1\r\n\r\n", "GET {path}\r\n", "GET {path}\n", "POST {path}\r\n", "GET\r\n\r\n", "GET \r\n\r\n",
    ":\r\n\r\n", "\x00\r\n\r\n", "\x16\x03\x01\r\n\r\n", "GET {path} HTTP/1.1\r\nHost: {host}\r\nNo colon\r\n\r\n",
    "GET {path} HTTP/1.1\r\nHost: {host}\r\n: empty\r\n\r\n",
    "GET {path} HTTP/1.1\r\nHost: {host}\r\nX-A: b\x00c\r\n\r\n",
    "GET {path} HTTP/1.1\r\nHost: {host}\r\nX-A: b\rc\r\n\r\n",
    "GET {path} HTTP/1.1\r\nHost: {host}\r\n folded: x\r\n\r\n",
    "GET {path} HTTP/1.1\r\nHost: {host}\r\nX-A: b\r\n c\r\n\r\n",
    "GET {path} HTTP/1.1\r\nHost: {host}\r\nX\x01A: b\r\n\r\n", "GET {path} HTTP/1.1\r\nHost: {host}\r\nX(A: b\r\n\r\n",
    "GET {path} HTTP/1.1\r\nHost: a/b\r\n\r\n", "GET {path} HTTP/1.1\r\nHost: {host}:80\r\n\r\n",
    "GET {path} HTTP/1.1\r\nHost: {host}:x\r\n\r\n", "GET {path} HTTP/1.1\r\nHost: {host}.\r\n\r\n",
    "GET {path} HTTP/1.1\r\nHost: .{host}\r\n\r\n", "GET {path} HTTP/1.1\r\nHost: {host}..\r\n\r\n",
    "GET {path} HTTP/1.1\r\nHost: a@{host}\r\n\r\n", "GET {path} HTTP/1.1\r\nHost: [::1]\r\n\r\n",
    "GET {path} HTTP/1.1\r\nHost: [::1\r\n\r\n", "GET {path} HTTP/1.1\r\nHost: {host}\x00\r\n\r\n",
    "GET {path} HTTP/1.1\r\nHost: \xe9.test\r\n\r\n", "GET {path} HTTP/1.1\r\nHost: *\r\n\r\n",
    "GET {path} HTTP/1.1\r\nHost: {host},x\r\n\r\n", "GET {path} HTTP/1.1\r\nHost: known \t\r\n\r\n",
    "GET {path} HTTP/1.1\r\nhOST:{host}\r\n\r\n",
    "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
    "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1, 1\r\n\r\nx",
    "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: +1\r\n\r\nx",
    "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: -1\r\n\r\n",
    "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0x1\r\n\r\nx",
    "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length:\r\n\r\n",
    "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST {path} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: gzip\r\n\r\n",
    "POST {path} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "POST {path} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST {path} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n",
    "POST {path} HTTP/1.0\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST {path} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n\r\n",
    "POST {path} HTTP/1.1\r\nHost: {host}\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "GET {path} HTTP/1.1\r\nHost: {host}\r\nX-A\t: b\r\n\r\n", "GET {path} HTTP/1.1\r\n\r\nHost: {host}\r\n\r\n",
]  # fmt: skip

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
# What goes before a request where the PROXY protocol is wanted, well formed and not.
PREFACES = [
    *[b"PROXY TCP4 192.0.2.1 198.51.100.1 1234 8443\r\n"] * 3,
    b"PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n",
    b"PROXY UNKNOWN\r\n",
    b"PROXY UNKNOWN x y z\r\n",
    b"PROXY TCP4 192.0.2.1 198.51.100.1 1234\r\n",
    b"PROXY\r\n",
    b"PROXY TCP4 192.0.2.1 198.51.100.1 70000 80\r\n",
    b"PROXY TCP4 ::1 ::1 1 2\r\n",
    b"PROXY  TCP4 192.0.2.1 198.51.100.1 1 2\r\n",
    b"PROXY TCP4 192.0.2.1 198.51.100.1 1 2\n",
    b"proxy unknown\r\n",
    SIGNATURE + b"\x21\x11\x00\x0c\xc0\x00\x02\x01\xc6\x33\x64\x01\x04\xd2\x20\xfb",
    SIGNATURE + b"\x20\x00\x00\x00",
    SIGNATURE + b"\x21\x11\x00\x04\xc0\x00\x02\x01",
    SIGNATURE + b"\x31\x11\x00\x00",
    b"",
    SIGNATURE + b"\x21\x21\x00\x24" + bytes(range(1, 37)),
    SIGNATURE + b"\x21\x31\x00\x00",
    SIGNATURE + b"\x21\x11\x00\x10\xc0\x00\x02\x01\xc6\x33\x64\x01\x04\xd2\x20\xfb\x04\x00\x01x",
]


@dataclass(frozen=True)
class Sent(Request):
    """A request that is nothing but its bytes. `alone`: on a connection of its own that is read to its end.

    `number`: how the log names it; -1 when it does not. `preface`: goes out first, to the port that wants one.
    """

    data: bytes = b""
    alone: bool = False
    number: int = -1
    preface: bytes = b""

    def encoded(self) -> bytes:
        return self.preface + self.data

    def __str__(self) -> str:
        text = repr(self.encoded())
        return text if len(text) < 700 else f"{text[:700]}..."


def requests(chance: Random, sites: int, count: int) -> Iterator[Sent]:
    """`count` requests to the `sites` blocks of a configuration."""
    for number in range(count):
        host = _host(chance, chance.randrange(sites))
        if chance.randrange(14) == 0:
            yield _malformed(chance, host)
        else:
            yield _request(chance, host, number)


def _malformed(chance: Random, host: str) -> Sent:
    head = (
        configuration_pieces.pick(chance, MALFORMED).replace("{host}", host).replace("{path}", _path(chance, odd=False))
    )
    # Whatever the server makes of it, the connection is to end with the answer.
    end = "\n" if "\r" not in head else "\r\n"
    first, mark, rest = head.partition(end + end)
    if mark and "HTTP/1" in first:
        head = f"{first}{end}Connection: close{mark}{rest}"
    return Sent("", head.split(" ")[0].strip(), None, "1.0", data=head.encode("latin-1"), alone=True)


def _request(chance: Random, host: str, number: int) -> Sent:
    method = configuration_pieces.pick(chance, VERBS)
    target = configuration_pieces.pick(chance, TARGETS) if chance.randrange(40) == 0 else _path(chance, odd=True)
    if chance.randrange(60) == 0:
        target = f"http://{host}{target}"
    version = "1.0" if chance.randrange(9) == 0 else "1.1"
    lines = [f"{method} {target} HTTP/{version}", f"Host: {host}"]
    if version == "1.0" and chance.randrange(3) == 0:
        del lines[1]
    lines.append(f"X-Number: {number}")
    for _ in range(configuration_pieces.pick(chance, [0, 0, 0, 0, 1, 1, 2, 3])):
        name, values = NAMED[chance.randrange(len(NAMED))]
        lines.append(f"{name}: {configuration_pieces.pick(chance, values)}")
    body = ""
    if method in ("POST", "PUT", "PATCH") or chance.randrange(40) == 0:
        body = configuration_pieces.pick(chance, ["", "a=1", "x" * 300, "y" * 20_000])
        lines, body = _with_body(chance, lines, body, version)
    data = ("\r\n".join(lines) + "\r\n\r\n" + body).encode("latin-1")
    if chance.randrange(25) == 0:
        preface = configuration_pieces.pick(chance, PREFACES)
        first, _, rest = data.partition(b"\r\n")
        # Read to the connection's end: nothing may ask to keep it.
        fields, end, after = rest.partition(b"\r\n\r\n")
        rest = re.sub(rb"(?m)^Connection: [^\r]*\r\n", b"", fields + b"\r\n") + end[2:] + after
        data = first + b"\r\nConnection: close\r\n" + rest
        return Sent(target, method, host, version, data=data, alone=True, number=number, preface=preface)
    return Sent(target, method, host, version, data=data, number=number)


def _with_body(chance: Random, lines: list[str], body: str, version: str) -> tuple[list[str], str]:
    if version == "1.0" or chance.randrange(3):
        return [*lines, f"Content-Length: {len(body)}"], body
    size = chance.randrange(1, 9)
    parts = [body[at : at + 4096] for at in range(0, len(body), 4096)] if len(body) > 400 else _cut(body, size)
    mark = configuration_pieces.pick(chance, ["", "", ";x=y", ' ; q="a"'])
    trailer = configuration_pieces.pick(chance, ["", "", "X-Trailer: t\r\n"])
    chunks = "".join(
        f"{len(part):{configuration_pieces.pick(chance, ['x', 'X', '04x'])}}{mark}\r\n{part}\r\n" for part in parts
    )
    return [*lines, "Transfer-Encoding: chunked"], f"{chunks}0{mark}\r\n{trailer}\r\n"


def _cut(body: str, size: int) -> list[str]:
    return [body[at : at + size] for at in range(0, len(body), size)]


def _path(chance: Random, *, odd: bool) -> str:
    if chance.randrange(3) == 0:
        path = "/" + configuration_pieces.pick(chance, list(configuration_pieces.FILES))
    else:
        path = "/" + "/".join(configuration_pieces.pick(chance, SEGMENTS) for _ in range(chance.randrange(4)))
    return configuration_pieces.pick(chance, FORMS)(_spelled(path)) if odd else _spelled(path)


def _spelled(path: str) -> str:
    """As a client writes it: what may not stand in a target is encoded."""
    plain = {chr(code) for code in range(33, 127)} - set('%?#"')
    return "".join(chr(byte) if chr(byte) in plain else f"%{byte:02X}" for byte in path.encode())


def _host(chance: Random, number: int) -> str:
    own = f"s{number}.test"
    kinds = [*[own] * 12, own.upper(), f"x.{own}", f"y.x.{own}", f"d{number}.test", f"q.d{number}.test",
             f"www.p{number}.org", f"www.p{number}.co.uk", f"ab-12.r{number}.test", f"AB-1.r{number}.test", f"{own}.",
             f"{own}:80", "nobody.test"]  # fmt: skip
    return kinds[chance.randrange(len(kinds))]
