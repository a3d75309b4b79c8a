"""Check this host's own web server with one HTTP request; keepalived runs this file every second as a program.

A host keeps its virtual addresses as long as the response has a status from 200 to 399.
"""

from __future__ import annotations

import re
import socket
import sys

TIMEOUT_S = 1.0
LOCAL = ("127.0.0.1", "::1")
URL = re.compile(r"\A(https?)://([A-Za-z0-9.-]+)(?::([0-9]{1,5}))?(/[A-Za-z0-9._~/?=&-]*)\Z")
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})")


def problem(url: str) -> str:
    """Request `url` from this host; return the problem, or "" if the status is from 200 to 399.

    The connection goes to a loopback address; the URL's host is only sent as the server name and in the Host header.
    """
    parts = URL.match(url)
    if parts is None:
        return "the URL of the check is not valid"
    scheme, name, port, path = parts.groups()
    try:
        first_line = _first_line(scheme, name, int(port or (443 if scheme == "https" else 80)), path)
    except OSError as error:
        return "no response: %s" % (error.strerror or error)
    status = _STATUS.match(first_line)
    if status is None:
        return "the response is not HTTP"
    return "" if 200 <= int(status.group(1)) <= 399 else "status %s" % status.group(1).decode("ascii")


def _first_line(scheme: str, name: str, port: int, path: str) -> bytes:
    with _connected(port) as plain:
        stream = plain
        if scheme == "https":
            import ssl  # most checks do without its start-up time

            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            stream = context.wrap_socket(plain, server_hostname=name)
        request = "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: paddock-check\r\nConnection: close\r\n\r\n"
        stream.sendall((request % (path, name)).encode("ascii"))
        received = b""
        while b"\n" not in received and len(received) < 4096:
            part = stream.recv(4096)
            if not part:
                break
            received += part
        return received


def _connected(port: int) -> socket.socket:
    """Connect to `port` at the first loopback address that accepts the connection. If none does, raise the OSError of
    the IPv4 address.
    """
    failures = []
    for address in LOCAL:
        try:
            return socket.create_connection((address, port), TIMEOUT_S)
        except OSError as error:
            failures.append(error)
    raise failures[0]


if __name__ == "__main__":
    found = problem(sys.argv[1] if len(sys.argv) == 2 else "")
    if found:
        sys.stderr.write(found + "\n")
    sys.exit(1 if found else 0)
