"""TLS connections to web servers on this host.

Certificates are not verified, because a site may have a self-signed one.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
from typing import Any

from agents.host import certificate_end

_contexts: dict[bool, ssl.SSLContext] = {}  # made once each: that costs more than a request


def note(seen: dict[str, Any], stream: ssl.SSLSocket) -> None:
    """Set "certificate", "certificate_ends" and "protocol" in the observation `seen` (see probe.py)."""
    found = stream.getpeercert(True)
    if found:
        seen["certificate"] = hashlib.sha256(found).hexdigest()
        ends = certificate_end.end_of(found)
        if ends is not None:
            seen["certificate_ends"] = ends
    seen["protocol"] = stream.version() or ""


def secured(plain: socket.socket, host: str, *, with_h2: bool) -> ssl.SSLSocket:
    """Start TLS on an open connection, with the name `host`; return the TLS socket. Closing this socket closes the
    connection.
    """
    return _context(with_h2).wrap_socket(plain, server_hostname=host.strip("[]") or None)


def _context(with_h2: bool) -> ssl.SSLContext:
    if with_h2 not in _contexts:
        made = ssl.create_default_context()
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
        if with_h2:
            made.set_alpn_protocols(["h2", "http/1.1"])
        _contexts[with_h2] = made
    return _contexts[with_h2]
