"""What answers of applications are made from, well formed and not."""

from __future__ import annotations

# Of each kind what is well formed, and what is not or is seldom seen: an answer has one such thing at most.
FIRST_LINES = [
    *["HTTP/1.1 200 OK"] * 12, *["HTTP/1.0 200 OK"] * 3, "HTTP/1.1 201 Made", "HTTP/1.1 204 None",
    "HTTP/1.1 301 Moved", "HTTP/1.1 302 Found", "HTTP/1.1 304 Same", "HTTP/1.1 400 Bad", "HTTP/1.1 401 Who",
    "HTTP/1.1 403 No", "HTTP/1.1 404 None", "HTTP/1.1 429 Slow", "HTTP/1.1 500 Oh", "HTTP/1.1 502 Oh",
    "HTTP/1.1 503 Oh", "HTTP/1.1 504 Oh", "HTTP/1.1 307 Go", "HTTP/1.1 308 Go",
]  # fmt: skip
# What is no status line at all nginx sends on as HTTP/0.9, or waits for the rest of.
ODD_FIRST_LINES = [
    "HTTP/1.1 200", "HTTP/1.1 200 ", "HTTP/1.1  200 OK", "HTTP/1.1 2000 OK", "HTTP/1.1 999 x", "HTTP/1.1 600 x",
    "HTTP/1.1 299 " + "r" * 300, "HTTP/1.12 200 OK", "HTTP/1.1 200 \xe9", "HTTP/1.1 206 Part", "HTTP/1.1 416 Range",
    "HTTP/1.1 205 Reset", "HTTP/1.1 200 a\x00b", "HTTP/1.1 200 OK\x07",
]  # fmt: skip
# Answers before the one that counts.
BEFORE = [
    *["HTTP/1.1 103 Early\r\nLink: <a>; rel=preload\r\n\r\n"] * 3,
    "HTTP/1.1 103 Early\r\nLink: <a>\r\n\r\nHTTP/1.1 103 Early\r\nLink: <b>\r\nX-Accel-Redirect: /b.txt\r\n\r\n",
    "HTTP/1.1 103 Early\r\nX-Long: " + "l" * 900 + "\r\n\r\nHTTP/1.1 103 Early\r\nX-Long: " + "l" * 900 + "\r\n\r\n",
    "HTTP/1.1 103 Early\r\nConnection: close\r\nSet-Cookie: h=1\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 102 Wait\r\nX-One: 1\r\n\r\n", "HTTP/1.1 199 x\r\n\r\n", "HTTP/1.0 103 Early\r\n\r\n", "no head at all\n",
    "\r\n",
]  # fmt: skip
LINES = [
    *["Content-Type: text/html"] * 3, "Content-Type: text/plain; charset=koi8-r", "Content-Type: TEXT/HTML",
    "Server: own/1", "Last-Modified: Sat, 01 Jun 2024 12:00:00 GMT", 'ETag: "up"', 'ETag: W/"weak"',
    "Cache-Control: max-age=60", "Cache-Control: no-cache, x", "Cache-Control: private\r\nCache-Control: max-age=9",
    "Expires: Fri, 01 Jan 2100 00:00:00 GMT", "Vary: *", "Vary: Accept", "Vary: X-Own",
    "Set-Cookie: a=1; path=/in/; domain=inner.test", "Set-Cookie: a=1\r\nSet-Cookie: b=2; secure",
    "Set-Cookie: a=1; Path=/in", "Location: /to", "Location: http://app/to?x", "Location: relative",
    "Refresh: 5; url=http://app/x", "Refresh: 1;URL=/y",
    "WWW-Authenticate: Basic realm=a\r\nWWW-Authenticate: Digest", "X-Accel-Redirect: /b.txt",
    "X-Accel-Redirect: @named", "X-Accel-Redirect: /none?q", "X-Accel-Expires: 10", "X-Accel-Expires: 0",
    "X-Accel-Expires: @1",
    'X-Accel-Expires: @1\r\nETag: "up"', "X-Accel-Expires: @1\r\nCache-Control: stale-if-error=9000000000",
    "X-Accel-Expires: @1\r\nCache-Control: stale-while-revalidate=9000000000",
    "X-Accel-Buffering: no", "X-Accel-Limit-Rate: 100000", "Connection: close", "Connection: keep-alive",
    "Keep-Alive: timeout=5", "Accept-Ranges: bytes", "Link: <a>\r\nLink: <b>", "X-One: 1", "X-One: 1\r\nX-One: 2",
    "X-One:    blanks   ", "Pragma: no-cache", "Content-Disposition: x", "P3P: x", "Age: 5", "Content-Language: en",
    'Alt-Svc: h3=":443"', "X-Long: " + "l" * 600,
]  # fmt: skip
ODD_LINES = [
    "Content-Type: a/b\r\nContent-Type: c/d", "Content-Type:", 'Content-Type: text/html;charset="utf-8"; x=y',
    "Date: Thu, 01 Jan 2004 00:00:00 GMT", "Last-Modified: nonsense", "ETag: none", "Expires: 0",
    "Cache-Control: s-maxage=0, max-age=9", "Cache-Control: max-age=abc",
    "Cache-Control: max-age=10, stale-while-revalidate=5", "Set-Cookie:", "Location: http://app/a\r\nLocation: /b",
    "Location:", "X-Accel-Redirect:", "X-Accel-Redirect: /../x", "X-Accel-Redirect: /a%20b",
    "X-Accel-Redirect: http://x/b.txt", "X-Accel-Expires: @99999999999", "X-Accel-Expires: off",
    "X-Accel-Buffering: NO", "X-Accel-Limit-Rate: x", "Connection: X-One", "Connection: close, x", "Upgrade: h2c",
    "Content-Encoding: gzip", "Content-Encoding: identity", "Accept-Ranges: none", "Trailer: X-T", "Status: 404 None",
    "X-One:", "X-One:\ttab\t", "X-One : before", "X-One\r\n", "no colon", ": no name", " folded: x", "\tfolded",
    "X-One: a\r\n folded", "X(One: 1", "X One: 1", "X_One: under", "X-One: a\x00b", "X-One: a\rb", "X-One: a\x01b",
    "X-One: a\x7fb", "X-One: \xe9", "\xe9: x", "X-Long: " + "l" * 3000, "X-Longer: " + "l" * 9000, "X-Pad: avoid",
    "Content-Range: bytes 0-1/5", "-: x", "X-" + "n" * 200 + ": x", "Proxy-Connection: close", "TE: x",
    "ETag: \"a\"\r\nETag: \"b\"", "Server: a\r\nServer: b", "Date: x\r\nDate: y", "Expires: 0\r\nExpires: 1",
    "X-Accel-Redirect: /b.txt\r\nX-Accel-Redirect: /page.html", "Content-Encoding:", "Vary: a\r\nVary: b",
    "Last-Modified: a\r\nLast-Modified: b", "Connection: keep-alive\r\nConnection: close", "Set-Cookie: =",
    "Refresh: x",
]  # fmt: skip
# How long a body is said to be; {size} is how long it is.
LENGTHS = [*["Content-Length: {size}"] * 6, "", "CONTENT-LENGTH:{size}"]
ODD_LENGTHS = [
    "Content-Length: {more}", "Content-Length: {less}", "Content-Length: 0",
    "Content-Length: {size}\r\nContent-Length: {size}", "Content-Length: {size}\r\nContent-Length: {more}",
    "Content-Length: {size}, {size}", "Content-Length: +{size}", "Content-Length: -1", "Content-Length: abc",
    "Content-Length:", "Content-Length: 99999999999999999999", "Content-Length: 0{size}", "Content-Length: {size} ",
    "Content-Length: {size}x",
]  # fmt: skip
CODING = "Transfer-Encoding: chunked"
ODD_CODINGS = [
    "transfer-encoding: CHUNKED", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: identity",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding:",
    "Transfer-Encoding: chunked\r\nContent-Length: 3", "Content-Length: 3\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: chunked ",
]  # fmt: skip
BODIES = ["", "body", "a text </body> of äöü", '<!--# echo var="uri" -->|<!--# include virtual="/b.txt" -->',
          "x" * 300, "0123456789" * 700, "y" * 40_000, "line\r\nline\n"]  # fmt: skip
SIZE, ODD_SIZES = "{:x}", ["{:X}", "00{:x}", "{:x};ext=1", '{:x} ; q="a;b"', "{:x} ", "{:x}\t", "{:x}\n", "0x{:x}"]
TAIL = "0\r\n\r\n"
ODD_TAILS = [
    "0\r\nX-T: trail\r\n\r\n", "0;e\r\n\r\n", "000\r\n\r\n", "0\r\n", "0", "", "0\n\n", "0\r\n\r\nmore",
    "0\r\nX-T: a\r\nX-U: b\r\n\r\nmore", "x\r\n\r\n", "-1\r\n", "\r\n", "0\r\nbad trailer\r\n\r\n",
    "ffffffffffffffffff\r\n", "5\r\nab", "0\r\nX-T: " + "t" * 5000 + "\r\n\r\n", "0 \r\n\r\n",
    "0\r\nContent-Length: 4\r\n\r\n", "0\r\nX-T: a\r\n b\r\n\r\n", "0\r\nX-T: trail\r\n\r\n",
]  # fmt: skip
STATUSES = [*[""] * 8, "Status: 200 OK", "Status: 200", "Status: 404 None", "Status: 302 Found", "Status: 500 Oh",
            "Status: 204 None", "Status: 304 Same", "Status: 503 x"]  # fmt: skip
ODD_STATUSES = ["Status: abc", "Status:", "Status: 20", "Status: 999", "Status: 99", "status: 201",
                "Status: 200 OK\r\nStatus: 404 x", "HTTP/1.1 200 OK", "HTTP/1.1 404 None", "Status: 2000"]  # fmt: skip
ERRORS = [b"Oops", b"warning\n", b""]
