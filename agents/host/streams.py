"""Check whether a web server serves the port of a stream server, without HTTP requests.

TCP: connect to the port. The web server accepts every connection, and closes it at once if no upstream server accepts
the connection. With TLS, it connects to the upstream after the handshake. UDP: look for a socket that is bound to the
port, because the port sends no response.
"""

from __future__ import annotations

import select
import socket
import ssl
from typing import Any

from agents.host import addresses, listening_sockets, tls

CLOSES_WITHIN_S = 0.5
ANY = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


def observe(probe: dict[str, Any], seen: dict[str, Any]) -> dict[str, Any]:
    """Check a stream server's port; set "connected", "closed" and "error" in the observation `seen` (see probe.py),
    and return it. A port with TLS counts as connected after the handshake, whose values are set too.
    """
    try:
        reason = addresses.why_refused(probe["address"])
        if reason:
            raise addresses.Refused("%s is %s" % (probe["address"], reason))
        if probe["stream"] == "udp":
            seen["connected"] = _is_bound(probe["address"], probe["port"])
            if not seen["connected"]:
                seen["error"] = "no program listens on the port"
            return seen
        with socket.create_connection((probe["address"], probe["port"]), probe["timeout_s"]) as stream:
            if probe.get("tls"):
                with tls.secured(stream, probe["host"], with_h2=False) as secured:
                    tls.note(seen, secured)
                    seen["connected"] = True
                    seen["closed"] = _closes_tls(secured)
                return seen
            seen["connected"] = True
            if probe["stream"] == "tcp":
                seen["closed"] = _closes(stream)
    except OSError as error:
        seen["error"] = str(error.strerror or error)
    return seen


def _closes(stream: socket.socket) -> bool:
    """Return whether the web server closes the connection within CLOSES_WITHIN_S seconds without sending data."""
    ready = select.poll()  # select() refuses descriptors of 1,024 and above
    ready.register(stream, select.POLLIN)
    if not ready.poll(CLOSES_WITHIN_S * 1000):
        return False
    try:
        return not stream.recv(1, socket.MSG_PEEK)
    except OSError:  # reset
        return True


def _closes_tls(stream: ssl.SSLSocket) -> bool:
    """Return whether the web server closes the TLS connection within CLOSES_WITHIN_S seconds without sending data.
    Session tickets do not count as data.
    """
    stream.settimeout(CLOSES_WITHIN_S)
    try:
        return not stream.recv(1)
    except socket.timeout:
        return False
    except OSError:  # reset, or closed without an alert
        return True


def _is_bound(address: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return any(
        found.port == port and found.address in (address, ANY[family == socket.AF_INET6])
        for found in listening_sockets.bound(family)
    )
