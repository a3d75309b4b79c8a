"""A proxy in front of an ACME authority that changes its responses: what the authority of others may do wrong."""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from tests.support.pebble import Pebble

KEPT = ("content-type", "location", "replay-nonce", "link", "retry-after")


@dataclass
class Reply:
    """A response; `change` may replace any of it, or raise ConnectionAbortedError. `path` is that of the request."""

    path: str
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class AuthorityProxy:
    """HTTPS with the authority's own certificate. Its URLs lead to the proxy, because the authority makes them of the
    `Host` header. `requests` counts the requests by path.
    """

    authority: Pebble
    change: Callable[[Reply], None] = lambda reply: None
    requests: dict[str, int] = field(default_factory=dict)

    def __enter__(self) -> Self:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.authority.root / "server.crt", self.authority.root / "server.key")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *_rest: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def directory(self) -> str:
        return f"https://127.0.0.1:{self._server.server_port}/dir"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                reply = proxy._forwarded(self.command, self.path, dict(self.headers), body)
                proxy.requests[self.path] = proxy.requests.get(self.path, 0) + 1
                try:
                    proxy.change(reply)
                except ConnectionAbortedError:  # the authority is away
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(reply.body)

            do_GET = do_POST = do_HEAD = do

            def log_message(self, format: str, *args: object) -> None:
                return

        return Handler

    def _forwarded(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        context = ssl.create_default_context(cadata=self.authority.ca_pem)
        connection = http.client.HTTPSConnection("127.0.0.1", self.authority.port, timeout=20, context=context)
        try:
            connection.request(method, path, body or None, headers)
            response = connection.getresponse()
            kept = {name: value for name, value in response.getheaders() if name.lower() in KEPT}
            return Reply(path, response.status, kept, response.read())
        finally:
            connection.close()
