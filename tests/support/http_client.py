"""Asking a server on loopback, with full control over Host and path."""

from __future__ import annotations

import http.client
import ssl
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")


def ask(
    port: int,
    path: str = "/",
    *,
    host: str = "localhost",
    method: str = "GET",
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
    tls: bool = False,
    timeout_s: float = 30.0,  # a busy machine is slow; a server that never responds still fails
    address: str = "127.0.0.1",
) -> Answer:
    """One request to `address`:`port`. Certificates are not checked: tests make their own."""
    connection: http.client.HTTPConnection
    if tls:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(address, port, timeout=timeout_s, context=context)
    else:
        connection = http.client.HTTPConnection(address, port, timeout=timeout_s)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", host)
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()
