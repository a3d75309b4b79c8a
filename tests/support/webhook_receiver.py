"""A web server that receives webhooks."""

from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from tests.support.ports import free_port


class Receiver:
    """Answers with `status` and `headers`, and keeps what it was sent."""

    def __init__(self) -> None:
        self.status, self.headers = 204, {}  # type: tuple[int, dict[str, str]]
        self.delay_s = 0.0
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((self.path, dict(self.headers), body))
                time.sleep(receiver.delay_s)
                self.send_response(receiver.status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Tests read `requests`."""

        self.server = ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?from=paddock"
        Thread(target=self.server.serve_forever, daemon=True).start()
