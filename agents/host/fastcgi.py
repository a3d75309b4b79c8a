"""Send one FastCGI request to the socket of a PHP-FPM pool (FastCGI specification 1.0)."""

from __future__ import annotations

import socket
import struct

TIMEOUT_S = 2.0
MAX_ANSWER = 64 * 1024
_HEADER = struct.Struct(">BBHHBx")
_BEGIN, _PARAMS, _STDIN, _STDOUT, _END = 1, 4, 5, 6, 3


def get(path: str, script: str, timeout_s: float = TIMEOUT_S) -> bytes:
    """Return the body of the response to a GET request for `script` at a pool's socket, whose path is `path`.

    Raises OSError if there is no complete response.
    """
    params = {"REQUEST_METHOD": "GET", "SCRIPT_NAME": script, "SCRIPT_FILENAME": script, "QUERY_STRING": ""}
    content = b"".join(_pair(name.encode("ascii"), value.encode("utf-8")) for name, value in params.items())
    request = _record(_BEGIN, struct.pack(">HB5x", 1, 0)) + _record(_PARAMS, content)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.settimeout(timeout_s)
        stream.connect(path)
        stream.sendall(request + _record(_PARAMS, b"") + _record(_STDIN, b""))
        return _answer(stream).partition(b"\r\n\r\n")[2]


def _pair(name: bytes, value: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(text) | 0x80000000) for text in (name, value)) + name + value


def _record(kind: int, content: bytes) -> bytes:
    return _HEADER.pack(1, kind, 1, len(content), 0) + content


def _answer(stream: socket.socket) -> bytes:
    """Return the content of the response's FCGI_STDOUT records: header fields and body."""
    found = b""
    while len(found) < MAX_ANSWER:
        _version, kind, _request, length, padding = _HEADER.unpack(_exactly(stream, _HEADER.size))
        content = _exactly(stream, length + padding)[:length]
        if kind == _END:
            return found
        if kind == _STDOUT:
            found += content
    raise OSError("the response of the pool is too long")


def _exactly(stream: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = stream.recv(size - len(found))
        if not part:
            raise OSError("the pool closed the connection")
        found += part
    return found
