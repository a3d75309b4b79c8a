"""TCP and UDP servers on loopback that send back what they receive, behind their name."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class EchoServer:
    """`address` is `127.0.0.1:PORT`. `protocol`: tcp or udp. A response is `NAME:` and the received bytes."""

    def __init__(self, name: str = "echo", protocol: str = "tcp", port: int = 0) -> None:
        self.name = name.encode()
        kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
        self._socket = socket.socket(socket.AF_INET, kind)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        if protocol == "tcp":
            self._socket.listen(64)
        self._run = self._accept if protocol == "tcp" else self._respond
        self.port = int(self._socket.getsockname()[1])
        self.address = f"127.0.0.1:{self.port}"
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        # A blocked accept or recvfrom does not notice that another thread closes its socket.
        self._is_stopped = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                stream, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(stream,), daemon=True).start()

    def _serve(self, stream: socket.socket) -> None:
        with stream:
            try:
                while data := stream.recv(65536):
                    stream.sendall(self.name + b":" + data)
            except OSError:
                return

    def _respond(self) -> None:
        while True:
            try:
                data, client = self._socket.recvfrom(65536)
                if self._is_stopped:
                    return
                self._socket.sendto(self.name + b":" + data, client)
            except OSError:
                return


def tcp_said(port: int, text: bytes = b"hello", address: str = "127.0.0.1") -> bytes:
    """Return the response of a TCP port to `text`; b"" if the connection is refused or closed."""
    try:
        with socket.create_connection((address, port), 10) as stream:
            stream.settimeout(10)
            stream.sendall(text)
            return stream.recv(65536)
    except (ConnectionError, BrokenPipeError):
        return b""


def udp_said(port: int, text: bytes = b"hello") -> bytes:
    """Return the response of a UDP port to `text`; b"" without a response."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stream:
        stream.settimeout(3)
        stream.connect(("127.0.0.1", port))
        try:
            stream.send(text)
            return stream.recv(65536)
        except OSError:
            return b""
