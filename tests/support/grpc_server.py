"""A gRPC server and client on HTTP/2 frames: enough of RFC 9113 for one call at a time on a connection."""

from __future__ import annotations

import socketserver
import ssl
import struct
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.support.process import tool

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING = 0, 1, 4, 6
END_STREAM, ACK, END_HEADERS = 1, 1, 4


def message(payload: bytes) -> bytes:
    """A message of gRPC: not compressed, then its length."""
    return struct.pack(">BI", 0, len(payload)) + payload


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _fields(fields: dict[str, str]) -> bytes:
    """Literal fields that enter no table (RFC 7541, 6.2.2)."""
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in fields.items())


def _text(value: str) -> bytes:
    return bytes([len(value)]) + value.encode()


class _Call(socketserver.StreamRequestHandler):
    """Sends each message back reversed, and then the status in the trailers."""

    disable_nagle_algorithm = True

    def setup(self) -> None:
        assert isinstance(self.server, _Server)
        if self.server.tls is not None:
            self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        super().setup()

    def handle(self) -> None:
        try:
            self._serve()
        except (ConnectionError, EOFError):
            return

    def _serve(self) -> None:
        assert isinstance(self.server, _Server)
        if self._exactly(len(PREFACE)) != PREFACE:
            self.server.faults.append("no preface of HTTP/2")
            return
        self.wfile.write(_frame(SETTINGS, 0, 0, b""))
        bodies: dict[int, bytes] = {}
        while True:
            head = self._exactly(9)
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
            payload = self._exactly(int.from_bytes(head[:3], "big"))
            if kind in (SETTINGS, PING) and not flags & ACK:
                self.wfile.write(_frame(kind, ACK, 0, payload if kind == PING else b""))
            elif kind == HEADERS:
                bodies[stream] = b""
            elif kind == DATA:
                bodies[stream] += payload
            if kind in (HEADERS, DATA) and flags & END_STREAM:
                self._answer(stream, bodies.pop(stream))

    def _answer(self, stream: int, body: bytes) -> None:
        head = _fields({":status": "200", "content-type": "application/grpc"})
        tail = _fields({"grpc-status": "0", "grpc-message": "reversed"})
        self.wfile.write(_frame(HEADERS, END_HEADERS, stream, head))
        self.wfile.write(_frame(DATA, 0, stream, message(body[5:][::-1])))
        self.wfile.write(_frame(HEADERS, END_HEADERS | END_STREAM, stream, tail))

    def _exactly(self, count: int) -> bytes:
        found = self.rfile.read(count)
        if len(found) < count:
            raise EOFError
        return found


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.faults: list[str] = []
        self.tls: ssl.SSLContext | None = None


class GrpcServer:
    """On a free port while the block runs; 127.0.0.2 is a second address of it."""

    def __init__(self, name: str = "", folder: Path | None = None) -> None:
        """With a name and a folder: over TLS, with a certificate for the name in the folder."""
        self.tls: ssl.SSLContext | None = None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            key, certificate = str(folder / "grpc.key"), str(folder / "grpc.crt")
            argv = [
                tool("openssl"),
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                f"/CN={name}",
            ]
            argv += ["-addext", f"subjectAltName=DNS:{name}", "-keyout", key, "-out", certificate]
            subprocess.run(argv, check=True, capture_output=True, timeout=60)
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(certificate, key)
            self.tls.set_alpn_protocols(["h2"])

    def __enter__(self) -> Self:
        self.server = _Server(("0.0.0.0", 0), _Call)
        self.server.tls = self.tls
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


@dataclass(frozen=True)
class Answer:
    """Fields of the head and of the trailers together."""

    fields: dict[str, str]
    body: bytes


def call(port: int, host: str, path: str, payload: bytes) -> Answer:
    """One unary call over TLS with HTTP/2, by curl."""
    argv = [
        tool("curl"),
        "-sk",
        "--http2",
        "--max-time",
        "60",
        "--resolve",
        f"{host}:{port}:127.0.0.1",
        "-D",
        "/dev/stderr",
    ]
    argv += ["-H", "Content-Type: application/grpc", "-H", "TE: trailers", "--data-binary", "@-"]
    done = subprocess.run(
        [*argv, f"https://{host}:{port}{path}"], input=message(payload), capture_output=True, timeout=90
    )
    lines = [line.partition(":") for line in done.stderr.decode("latin-1").splitlines()]
    return Answer({name.lower(): value.strip() for name, _, value in lines if value}, done.stdout)
