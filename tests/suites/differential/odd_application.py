"""An application that answers with whatever a request tells it to, be it HTTP or not, and FastCGI, uwsgi, and SCGI too.

The field X-Answer holds how the connection ends and the parts of the answer, compressed and in base64. So the answer
depends on the request alone, and both servers get the same. What it was asked is kept by the request's X-Number.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import socketserver
import struct
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from tests.suites.conformance.wire import Answer
from tests.suites.differential.servers import Backend, Pair

FIELD, SEPARATOR = "(asked)", " || "
SECOND = "127.0.0.3"  # where another one listens, on the same port
PAUSE_S = 0.004  # between an answer's parts: enough for a server to have read what came


def told(parts: Sequence[bytes], end: str) -> str:
    """The value of X-Answer. `end`: keep or close the connection, or reset it."""
    text = json.dumps([end, *(part.decode("latin-1") for part in parts)])
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def answer_to(request: bytes) -> bytes:
    """What a request asks for; nothing if it asks for nothing."""
    return b"".join(_told(request)[1])


def end_of(request: bytes) -> str:
    """How the connection of its answer ends."""
    return _told(request)[0]


def _told(request: bytes) -> tuple[str, list[bytes]]:
    found = re.search(rb"X-Answer: ([\w+/=]+)", request)
    return _answer(found[1]) if found else ("", [])


def stdout_of(answer: bytes) -> bytes:
    """What FastCGI's records say, as far as they are records."""
    said, at = b"", 0
    while at + 8 <= len(answer) and answer[at] == 1:
        _, kind, _, length, padding, _ = struct.unpack(">BBHHBB", answer[at : at + 8])
        said += answer[at + 8 : at + 8 + length] if kind == 6 else b""
        at += 8 + length + padding
    return said


def _answer(value: bytes) -> tuple[str, list[bytes]]:
    end, *parts = json.loads(zlib.decompress(base64.b64decode(value)))
    return end, [part.encode("latin-1") for part in parts]


class Odd(Backend):
    """Notes what it was asked."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.server_address[1])
        self.server = server

    def with_asked(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Both were asked by each server in its turn, nginx first: the first half of what came is of nginx's."""
        for pair in pairs:
            came = self.server.seen.pop(pair.sent.number, [])
            half = (len(came) + 1) // 2
            nginx, gallop = (_with(*each) for each in ((pair.nginx, came[:half]), (pair.gallop, came[half:])))
            yield replace(pair, nginx=nginx, gallop=gallop)


def _with(answer: Answer, came: list[str]) -> Answer:
    return replace(answer, headers={**answer.headers, FIELD: SEPARATOR.join(came)}) if came else answer


class Server(socketserver.ThreadingTCPServer):
    """`seen`: by the number of a request what came of it, in the order in which it came."""

    field = b"answer"
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 100

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.seen: defaultdict[int, list[str]] = defaultdict(list)


class Second(Server):
    """Stands in where the first one fails, at another address: its answer is told by X-Second."""

    field = b"second"

    def __init__(self, first: Server) -> None:
        socketserver.ThreadingTCPServer.__init__(self, (SECOND, first.server_address[1]), _Connection)
        self.seen = first.seen


class _Connection(socketserver.StreamRequestHandler):
    """One connection of a server; what its first byte is tells the protocol."""

    server: Server
    keeps = True  # whether the one who asks wants the connection back: FastCGI has a bit for that

    def handle(self) -> None:
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(ConnectionError, EOFError):
            while first := self.connection.recv(1, socket.MSG_PEEK):
                said, fields = self._request(first)
                if (number := re.search(rb"(?i)x.number[: ]*(\d+)", fields)) is not None:
                    self.server.seen[int(number[1])].append(repr(said))
                told = re.search(rb"(?i)x.%s[: ]*([\w+/=]+)" % self.server.field, fields)
                if told is None:
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain")
                elif not self._says(*_answer(told[1])):
                    return

    def _request(self, first: bytes) -> tuple[bytes, bytes]:
        """What was asked but for the answer that it asks for, and its fields."""
        if first == b"\x01":
            return self._fastcgi()
        if first == b"\0":
            return self._block(_uwsgi_pairs(self._uwsgi_block()))
        return self._block(_scgi_pairs(self._netstring())) if first.isdigit() else self._http()

    def _says(self, end: str, parts: list[bytes]) -> bool:
        """Whether the connection stays."""
        for at, part in enumerate(parts):
            if at:
                time.sleep(PAUSE_S)
            self.connection.sendall(part)
        if end == "reset":
            time.sleep(PAUSE_S)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            # What the base class does to close it would say an orderly farewell first.
            self.connection.close()
        return end == "keep" and self.keeps

    def _http(self) -> tuple[bytes, bytes]:
        """The request but for the answer that it asks for, and its fields."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self._line()
        body = b""
        if length := re.search(rb"(?i)\r\ncontent-length: *(\d+)", head):
            body = self._exactly(int(length[1]))
        elif re.search(rb"(?i)\r\ntransfer-encoding: *chunked", head):
            while size := int(self._line(), 16):
                body += self._exactly(size)
                self._line()
            self._line()
        return self.server.field + re.sub(rb"(?i)(x-(?:answer|second)): [^\r]*", rb"\1", head) + body, head

    def _fastcgi(self) -> tuple[bytes, bytes]:
        """The parameters and the body."""
        streams: dict[int, bytes] = {4: b"", 5: b""}
        while True:
            _, kind, _, length, padding, _ = struct.unpack(">BBHHBB", self._exactly(8))
            content = self._exactly(length)
            self._exactly(padding)
            if kind == 1:
                self.keeps = bool(content[2] & 1)
            if kind in streams:
                streams[kind] += content
            if kind == 5 and not length:
                break
        return _told_by(_pairs(streams[4]), streams[5])

    def _uwsgi_block(self) -> bytes:
        _, length, _ = struct.unpack("<BHB", self._exactly(4))
        return self._exactly(length)

    def _netstring(self) -> bytes:
        digits = b""
        while (digit := self._exactly(1)) != b":":
            digits += digit
        block = self._exactly(int(digits))
        return block if self._exactly(1) == b"," else b""

    def _block(self, pairs: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
        """A request of parameters and a body, whose connection ends with the answer."""
        self.keeps = False
        pairs = list(pairs)
        length = dict(pairs).get(b"CONTENT_LENGTH", b"")
        # Without a length to tell, the body is never read: what is sent of it stays in the socket.
        return _told_by(pairs, self._exactly(int(length or b"0")))

    def _line(self) -> bytes:
        if not (line := self.rfile.readline()):
            raise EOFError
        return line

    def _exactly(self, count: int) -> bytes:
        if len(data := self.rfile.read(count)) < count:
            raise EOFError
        return data


def _told_by(pairs: Iterable[tuple[bytes, bytes]], body: bytes) -> tuple[bytes, bytes]:
    """The parameters and the body, and the parameters alone."""
    fields = sorted(b"%s: %s" % pair for pair in pairs)
    said = [line for line in fields if not re.match(rb"HTTP_X_(ANSWER|SECOND)|SERVER_PORT|REMOTE_PORT", line)]
    return b"\n".join([*said, b"", body]), b"\n".join(fields)


def _uwsgi_pairs(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at < len(data):
        words = []
        for _ in range(2):
            (length,) = struct.unpack("<H", data[at : at + 2])
            words.append(data[at + 2 : at + 2 + length])
            at += 2 + length
        yield words[0], words[1]


def _scgi_pairs(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    words = data.split(b"\0")[:-1]
    return zip(words[::2], words[1::2], strict=True)


def _pairs(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at < len(data):
        lengths = []
        for _ in range(2):
            wide = data[at] & 0x80
            lengths.append(struct.unpack(">I", data[at : at + 4])[0] & 0x7FFFFFFF if wide else data[at])
            at += 4 if wide else 1
        name, value = data[at : at + lengths[0]], data[at + lengths[0] : at + sum(lengths)]
        at += sum(lengths)
        yield name, value


@contextmanager
def odd(root: Path) -> Iterator[Backend]:
    """Serves until the block ends."""
    with Server() as server, Second(server) as second:
        threads = [
            threading.Thread(target=each.serve_forever, kwargs={"poll_interval": 0.05}) for each in (server, second)
        ]
        for thread in threads:
            thread.start()
        try:
            yield Odd(server)
        finally:
            for each, thread in zip((server, second), threads, strict=True):
                each.shutdown()
                thread.join()
