"""Requests exactly as they are to be sent, over raw sockets that stay open as long as the server lets them."""

from __future__ import annotations

import re
import socket
import ssl
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Request:
    """`target` goes out byte for byte (Latin-1); `host` None sends no Host line."""

    target: str
    method: str = "GET"
    host: str | None = "a.test"
    version: str = "1.1"
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""

    def encoded(self) -> bytes:
        lines = [f"{self.method} {self.target} HTTP/{self.version}"]
        lines += [f"Host: {self.host}"] if self.host is not None else []
        lines += [f"{name}: {value}" for name, value in self.headers]
        if self.body or self.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(self.body.encode('latin-1'))}")
        return ("\r\n".join(lines) + "\r\n\r\n" + self.body).encode("latin-1")

    def __str__(self) -> str:
        extra = "".join(f" [{name}: {value}]" for name, value in self.headers)
        body = f" body {self.body!r}" if self.body else ""
        version = "" if self.version == "1.1" else f" HTTP/{self.version}"
        return f"{self.method} {self.target!r} of {self.host}{version}{extra}{body}"


@dataclass(frozen=True)
class Answer:
    """`headers`: names in lower case; several of one name are joined by ", ". Status 0: closed without an answer."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Broken(Exception):
    """The server's bytes are no HTTP answer."""


class Connection:
    """One server's port on loopback; sends a request at a time and opens a new connection where it was closed."""

    def __init__(self, port: int, *, timeout_s: float = 20.0, address: str = "127.0.0.1", tls_name: str = "") -> None:
        """`tls_name`: speak TLS and ask for this name; the certificate is not checked."""
        self.port, self.address, self.tls_name = port, address, tls_name
        self.timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._buffer = b""
        self._ended = False

    def ask(self, request: Request) -> Answer:
        """Sends it once more on a new connection where the server has closed the one that was open."""
        fresh = self._socket is None
        try:
            return self._ask(request)
        except (Closed, ConnectionError):
            self.close()
            if fresh:
                return Answer(0)
        # A server may close an idle connection at any time (RFC 9112 section 9.5): once more on a new one.
        try:
            return self._ask(request)
        except (Closed, ConnectionError):
            self.close()
            return Answer(0)

    def _ask(self, request: Request) -> Answer:
        if self._socket is None:
            self._socket = socket.create_connection((self.address, self.port), timeout=self.timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls_name:
                self._socket = ssl._create_unverified_context().wrap_socket(self._socket, server_hostname=self.tls_name)
            self._buffer, self._ended = b"", False
        self._socket.sendall(request.encoded())
        answer, stays = self._answer(request)
        if not stays:
            self.close()
        return answer

    def _answer(self, request: Request) -> tuple[Answer, bool]:
        while True:
            status, version, headers = self._head()
            if status >= 200 or status == 101:
                break
        words = headers.get("connection", "").lower()
        stays = "close" not in words and (version == "1.1" or "keep-alive" in words) and request.version == "1.1"
        if request.method == "HEAD" or status in (101, 204, 304):
            return Answer(status, headers), stays and status != 101
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return Answer(status, headers, self._chunks()), stays
        if (length := headers.get("content-length")) is not None:
            return Answer(status, headers, self._take(int(length))), stays
        return Answer(status, headers, self._rest()), False

    def _head(self) -> tuple[int, str, dict[str, str]]:
        while b"\r\n\r\n" not in self._buffer:
            if not self._more():
                raise Closed
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        if not first.startswith("HTTP/1."):
            raise Broken(first[:200])
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            name, value = name.lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return int(first[9:12]), first[5:8], headers

    def _chunks(self) -> bytes:
        found = b""
        while size := self._size():
            found += self._take(size)
            self._take(2)
        while self._line():  # trailers
            pass
        return found

    def _size(self) -> int:
        line = self._line()
        if not re.fullmatch(rb"[0-9A-Fa-f]+", size := line.partition(b";")[0].strip()):
            raise Broken(f"no chunk size: {line[:200]!r}")
        return int(size, 16)

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            if not self._more():
                raise Broken("ends between chunks")
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            if not self._more():
                raise Broken(f"ends {count - len(self._buffer)} bytes before the body does")
        found, self._buffer = self._buffer[:count], self._buffer[count:]
        return found

    def _rest(self) -> bytes:
        while self._more():
            pass
        found, self._buffer = self._buffer, b""
        return found

    def _more(self) -> bool:
        if self._ended or self._socket is None:
            return False
        try:
            data = self._socket.recv(65536)
        except ConnectionResetError:
            data = b""  # closed with unread input; what came before it still counts
        self._ended = not data
        self._buffer += data
        return bool(data)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def parsed(data: bytes, request: Request) -> Answer:
    """The answer in all that came on a connection until its end. Raises Broken when it is none."""
    whole = Connection(0)
    whole._buffer, whole._ended = data, True
    try:
        return whole._answer(request)[0]
    except Closed:
        raise Broken(repr(data[:200])) from None


class Closed(Exception):
    """Closed before an answer began."""
