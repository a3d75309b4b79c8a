"""Request pages of this host's sites and report status, body hash and encoding, so that web servers can be compared.

Requests are HTTP/1.1, directly to an address and port on which a web server listens. Certificates are not verified: the
content is compared, and the address belongs to this host.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import socket
import ssl
import threading
import zlib
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

from agents.host import targets, testbed
from agents.host.errors import Refusal

MAX_REQUESTS = 1000
# Headers that change with every response, or that describe the transfer instead of the content.
_PASSING = {"date", "server", "connection", "keep-alive", "transfer-encoding", "content-length", "set-cookie", "age"}
_TIMEOUT_S = 15.0
METHODS = targets.METHODS  # methods that are valid without a body
_CHUNK = 256 * 1024
MAX_BODY = 256 * 1024 * 1024  # decompressed size; longer responses are compared only up to here
_DEADLINE_S = 60.0
_START_BYTES = 120
_READ = ("", "identity", "gzip")


class _Connection(http.client.HTTPConnection):
    """HTTP connection to a web server's address and port; TLS and the Host header contain the name of the site."""

    def __init__(self, asked: Dict[str, Any]) -> None:
        super().__init__(asked["host"], asked["port"], timeout=_TIMEOUT_S)
        self.address, self.tls = asked["address"], asked["tls"]
        self._opened: Optional[socket.socket] = None

    def connect(self) -> None:
        plain = socket.create_connection((self.address, self.port), _TIMEOUT_S)
        if not self.tls:
            self.sock = self._opened = plain
            return
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self.sock = self._opened = context.wrap_socket(plain, server_hostname=self.host.strip("[]"))

    def cut(self) -> None:
        """Close the connection from another thread, even during a slow read."""
        with contextlib.suppress(OSError):
            if self._opened is not None:
                self._opened.shutdown(socket.SHUT_RDWR)


def answer(asked: Dict[str, Any], found_testbed: Optional[List[str]] = None) -> Dict[str, Any]:
    """Send one request and return {"status", "sha256", "bytes", "encoding", "type", "start", "headers"} of its
    response; {"error"} if the response is missing, damaged or too long.

    "sha256", "bytes" (the size) and "start" (the beginning of a text, "" for other content) describe the decompressed
    body, because servers compress differently. "headers" has lowercase names, without the headers that differ in every
    response (_PASSING).
    """
    method = _permitted_method(asked, found_testbed)
    connection = _Connection(asked)
    alarm = threading.Timer(_DEADLINE_S, connection.cut)
    alarm.daemon = True
    alarm.start()
    try:
        response = _response(connection, asked, method)
        encoding = response.headers.get("Content-Encoding", "")
        body = _body(response, "" if method == "HEAD" else encoding)
    except (OSError, http.client.HTTPException) as error:
        return {"error": "%s: %s" % (type(error).__name__, error)}
    except zlib.error as error:
        return {"error": "the compressed response cannot be read (%s)" % error}
    finally:
        alarm.cancel()
        connection.close()
    if body.size > MAX_BODY:
        return {"error": "the response is longer than %d bytes" % MAX_BODY}
    kind = response.headers.get("Content-Type", "").split(";")[0].strip().lower()
    return {
        "status": response.status,
        "sha256": body.sha256,
        "bytes": body.size,
        "encoding": encoding,
        "type": kind,
        "start": body.start.decode("utf-8", "replace") if kind.startswith("text/") and encoding in _READ else "",
        "headers": _decided(response.headers),
    }


def _permitted_method(asked: Dict[str, Any], found_testbed: Optional[List[str]]) -> str:
    """Return the HTTP method of a request. Raise Refusal if `METHODS` does not contain the method, if the request's
    address is not an address of this host, or, with a test bed, if it is not one of the test bed's listeners
    (`found_testbed`).
    """
    place = ("[%s]:%d" if ":" in asked["address"] else "%s:%d") % (asked["address"], asked["port"])
    if found_testbed is None:
        targets.require_own(targets.split_target(place)[0])
    elif place not in found_testbed:
        raise Refusal("refused", "%s is not a listener of the test bed" % place)
    method = asked.get("method", "GET")
    if method not in METHODS:
        raise Refusal("refused", "%r is no method that answers are compared by: %s" % (method, ", ".join(METHODS)))
    return str(method)


def _response(connection: _Connection, asked: Dict[str, Any], method: str) -> http.client.HTTPResponse:
    headers = {"Accept-Encoding": "gzip" if asked["gzip"] else "identity", "Connection": "close"}
    headers["Host"] = asked["host_header"]
    connection.request(method, asked["path"], headers=headers)
    return connection.getresponse()


class _Body(NamedTuple):
    """Decompressed body of a response: SHA-256, size in bytes, and beginning. For a body that is larger than
    `MAX_BODY`, the values are those of the part that was read.
    """

    sha256: str
    size: int
    start: bytes


def _body(response: http.client.HTTPResponse, encoding: str) -> _Body:
    digest, size, start = hashlib.sha256(), 0, b""
    for chunk in _content(response, encoding):
        digest.update(chunk)
        size += len(chunk)
        if size > MAX_BODY:
            break
        start += chunk[: _START_BYTES - len(start)]
    return _Body(digest.hexdigest(), size, start)


def _content(response: http.client.HTTPResponse, encoding: str) -> Iterator[bytes]:
    """Yield the decompressed body of a response in pieces. gzip data may consist of several members (RFC 1952, 2.2)."""
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16) if encoding == "gzip" else None
    while True:
        chunk = response.read(_CHUNK)
        if not chunk:
            break
        if unpacking is None:
            yield chunk
            continue
        while chunk:
            if unpacking.eof:
                unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)
            yield unpacking.decompress(chunk, _CHUNK)
            chunk = unpacking.unconsumed_tail or unpacking.unused_data
    if unpacking is not None:
        yield unpacking.flush()
        if not unpacking.eof:
            raise zlib.error("the response ends in the middle")


def _decided(headers: Any) -> Dict[str, str]:
    found: Dict[str, str] = {}
    for name, value in headers.items():
        low = name.lower()
        if low not in _PASSING:
            found[low] = "%s, %s" % (found[low], value) if low in found else value
    return found


def run(args: Dict[str, Any], emit: Callable[[Dict[str, Any]], None], cancelled: threading.Event) -> Dict[str, Any]:
    """Send requests to the host's own web servers and report the responses.

    {"requests": [{"address", "port", "host", "host_header", "path", "tls", "gzip"}]} -> {"answers": [...]}, each as
    `answer` returns. A request may have a "method" other than GET, without a body. With "testbed", the id of a test
    bed, the requests come from the network of its servers, so that an emulated slow link has no effect.
    """
    requests = args.get("requests", [])
    if len(requests) > MAX_REQUESTS:
        raise Refusal("invalid", "at most %d requests at once" % MAX_REQUESTS)
    found_testbed = None
    if args.get("testbed"):
        found = testbed.find(str(args["testbed"]))
        found.enter(far=True)
        found_testbed = found.listeners
    answers = []
    for asked in requests:
        if cancelled.is_set():
            break
        answers.append(answer(asked, found_testbed))
    return {"answers": answers}
