"""What the sites refer to: a folder of files, an application that says what reached it, and PHP."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.php import PhpFpm
from tests.support.ports import free_port

_SAYS = {
    "cookie": "Set-Cookie: visit=1",
    "no-store": "Cache-Control: no-store",
    "private": "Cache-Control: private",
    "fresh": "Cache-Control: max-age=3600",
}
_SHOWN = {"host": "host", "x-real-ip": "ip", "x-forwarded-proto": "proto", "x-own": "own"}


@dataclass(frozen=True)
class World:
    """What the sites refer to on this machine."""

    port: int
    www: str
    backend: str
    php: str


class Echo(socketserver.StreamRequestHandler):
    """Says what reached it: method, target as it came, some headers, the body's length.

    A WebSocket is agreed to; one line that comes through it goes back in capitals, then it is closed.
    One that holds `/slow` is answered after half a minute, one with `/late` after eight seconds.
    A target that holds `/status-NNN` is answered with that status; one with `/plain` without a Content-Type.
    One that holds `/counted` is answered with how often it was asked for; `cookie`, `no-store`, `private`, `fresh` and
    `fails` in it say how: with a cookie, with that Cache-Control, fresh for an hour, with 503 from the second time on.
    One that holds `/pause` is answered after two and a half seconds.
    """

    disable_nagle_algorithm = True

    def handle(self) -> None:
        try:
            while self._one():
                pass
        except ConnectionError:
            return

    def _one(self) -> bool:
        first = self.rfile.readline(65536).decode("latin-1").rstrip("\r\n")
        if not first:
            return False
        method, target, _ = first.split(" ", 2)
        headers: dict[str, str] = {}
        while line := self.rfile.readline(65536).decode("latin-1").rstrip("\r\n"):
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        if headers.get("upgrade", "").lower() == "websocket" and "upgrade" in headers.get("connection", "").lower():
            self.wfile.write(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
            self.wfile.write(self.rfile.readline(65536).upper())
            return False
        body = self._body(headers)
        if "/slow" in target:  # longer than any site here waits
            threading.Event().wait(30)
        if "/late" in target:
            threading.Event().wait(8)
        if "/pause" in target:
            threading.Event().wait(2.5)
        if "/counted" in target:
            self._counted(method, target)
            return headers.get("connection", "").lower() != "close"
        text = f"{method} {target} " + " ".join(f"{label}={headers.get(name, '-')}" for name, label in _SHOWN.items())
        text += f" body={body}" if body else ""
        _, found, rest = target.partition("/status-")
        status = int(rest[:3]) if found and rest[:3].isdigit() else 200
        answer = [f"HTTP/1.1 {status} Echo", f"Content-Length: {len(text.encode('latin-1'))}", "X-App: echo"]
        answer += [] if "/plain" in target else ["Content-Type: text/x-echo"]
        self.wfile.write(("\r\n".join(answer) + "\r\n\r\n").encode("latin-1"))
        if method != "HEAD":
            self.wfile.write(text.encode("latin-1"))
        return headers.get("connection", "").lower() != "close"

    def _counted(self, method: str, target: str) -> None:
        server = self.server
        assert isinstance(server, _Server)
        times = server.times[target] = server.times.get(target, 0) + 1
        text = f"{target} {times}"
        status = 503 if "fails" in target and times > 1 else 200
        answer = [f"HTTP/1.1 {status} Counted", f"Content-Length: {len(text)}", "Content-Type: text/x-echo"]
        answer += [line for word, line in _SAYS.items() if word in target]
        self.wfile.write(("\r\n".join(answer) + "\r\n\r\n").encode())
        if method != "HEAD":
            self.wfile.write(text.encode())

    def _body(self, headers: dict[str, str]) -> int:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            size = 0
            while count := int(self.rfile.readline().split(b";")[0], 16):
                size += len(self.rfile.read(count))
                self.rfile.readline()
            self.rfile.readline()
            return size
        return len(self.rfile.read(int(headers.get("content-length", "0"))))


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.times: dict[str, int] = {}  # how often each counted target was asked for


@contextmanager
def world(root: Path, files: dict[str, str]) -> Iterator[World]:
    """`files` (path -> text) lie in `root`/www while the block runs."""
    (root / "www").mkdir(exist_ok=True)
    for name, text in files.items():
        path = root / "www" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with _Server(("127.0.0.1", 0), Echo) as backend, PhpFpm(root / "fpm", extensions=".php .pl") as fpm:
        threading.Thread(target=backend.serve_forever, daemon=True).start()
        try:
            yield World(free_port(), str(root / "www"), f"127.0.0.1:{backend.server_address[1]}", fpm.address)
        finally:
            backend.shutdown()
