"""The team's own application: it asks the server for any file by the headers that servers know."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager

NAMES = ("X-Accel-Redirect", "X-Sendfile", "X-LiteSpeed-Location")


class _Asking(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        wanted = "/"
        while line := self.rfile.readline(65536).decode("latin-1").rstrip("\r\n"):
            name, _, value = line.partition(":")
            if name.lower() == "x-want":
                wanted = value.strip()
        lines = ["HTTP/1.1 200 OK", "Content-Length: 0", "Connection: close", *(f"{name}: {wanted}" for name in NAMES)]
        self.wfile.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128


@contextmanager
def backend() -> Iterator[str]:
    """Its address while the block runs."""
    with _Server(("127.0.0.1", 0), _Asking) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
