"""A browser's requests over HTTPS, from a chosen loopback address: cookies, forms with tokens, event streams."""

from __future__ import annotations

import http.client
import re
import secrets
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookies import Morsel, SimpleCookie
from pathlib import Path
from urllib.parse import urlencode

from tests.support.http_client import Answer


class HttpsBrowser:
    """Connects to a port of 127.0.0.1 in the name of `domain`, whose certificate `authority` it checks. `more` are
    headers of every request.
    """

    def __init__(self, domain: str, port: int, authority: Path, address: str = "127.0.0.1") -> None:
        self.domain, self.port, self.address = domain, port, address
        self.tls = ssl.create_default_context(cafile=str(authority))
        self.cookies: dict[str, Morsel[str]] = {}
        self.more: dict[str, str] = {}

    def get(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        return self.send("GET", path, headers=headers)

    def submit(self, path: str, fields: dict[str, str], file: tuple[str, bytes] | None = None) -> Answer:
        """The form of the page `path`, sent to the same address. `file` is the name of a field and its bytes."""
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', self.get(path).text)
        return self.post(path, fields | {"csrfmiddlewaretoken": found[1] if found else ""}, file)

    def post(self, path: str, fields: dict[str, str], file: tuple[str, bytes] | None = None) -> Answer:
        body, kind = urlencode(fields).encode(), "application/x-www-form-urlencoded"
        if file:
            body, kind = _multipart(fields, *file)
        return self.send("POST", path, body, {"Content-Type": kind, "Origin": f"https://{self.domain}"})

    def send(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Answer:
        connection = self._connection()
        try:
            connection.request(method, path, body, self._headers(headers))
            response = connection.getresponse()
            for text in response.headers.get_all("Set-Cookie", []):
                self.cookies.update(SimpleCookie(text))
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    @contextmanager
    def events(self, path: str) -> Iterator[Iterator[tuple[str, float]]]:
        """Names of the events of a stream, each with the time.monotonic() of its arrival."""
        connection = self._connection()
        try:
            connection.request("GET", path, headers=self._headers({"Accept": "text/event-stream"}))
            response = connection.getresponse()
            assert response.status == 200, response.read()
            yield (
                (line.removeprefix(b"event: ").decode().strip(), time.monotonic())
                for line in iter(response.readline, b"")
                if line.startswith(b"event: ")
            )
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=60, source_address=(self.address, 0))
        connection = http.client.HTTPConnection(self.domain)
        connection.sock = self.tls.wrap_socket(plain, server_hostname=self.domain)
        return connection

    def _headers(self, more: dict[str, str] | None) -> dict[str, str]:
        cookies = "; ".join(f"{name}={morsel.value}" for name, morsel in self.cookies.items())
        return {"Host": self.domain, "Cookie": cookies} | self.more | (more or {})


def _multipart(fields: dict[str, str], name: str, content: bytes) -> tuple[bytes, str]:
    line = secrets.token_hex(16)
    parts = [f'--{line}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{fields[key]}\r\n' for key in fields]
    parts.append(f'--{line}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}.zip"\r\n\r\n')
    return "".join(parts).encode() + content + f"\r\n--{line}--\r\n".encode(), f"multipart/form-data; boundary={line}"
