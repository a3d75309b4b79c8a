"""Files of ACME challenges on hosts: the agent writes them, and the panel checks that the web server serves them."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import io
import socket
import time
from collections.abc import Iterable, Mapping

from panel.certificates import handshakes
from panel.certificates.acme_client import Challenge
from panel.certificates.choices import ChallengeKind
from panel.certificates.listeners import Listener, exact_names, reached
from panel.hosts.models import Connection, Host, WebServer
from panel.hosts.targets import target_for
from panel.remote import pool
from panel.remote.bastions import Stream
from panel.remote.target import Target
from panel.rendering import challenges
from panel.rendering.spec import SiteSpec

TIMEOUT_S = 20.0
ASK_TIMEOUT_S = 5.0
MOST_BYTES = 64 * 1024  # of a response
PART_BYTES = 16 * 1024


def _call(web_server: WebServer, operation: str, **values: object) -> None:
    root = web_server.paths["config_root"]
    args = {"folder": challenges.folder_of(root), "roots": [root], **values}
    with pool.session(target_for(web_server.host)) as agent:
        agent.call(operation, args, timeout=TIMEOUT_S)


def put(web_server: WebServer, files: Mapping[str, str]) -> None:
    """Write challenge files ({file name: content}) on the web server's host. Raises RemoteError."""
    _call(web_server, "challenge_put", files=dict(files))


def remove(web_server: WebServer, tokens: Iterable[str]) -> None:
    """Remove challenge files by name from the web server's host. Raises RemoteError."""
    _call(web_server, "challenge_remove", names=list(tokens))


def host_address(host: Host) -> str:
    """Return the address at which the panel reaches the host's listeners; "" for the panel's own host."""
    return "" if host.connection == Connection.LOCAL else host.address


def through(host: Host) -> Target | None:
    """Return the SSH target of a host behind a bastion; None for a host whose listeners the panel reaches directly."""
    return target_for(host) if host.bastion_id else None


def unanswered(spec: SiteSpec, host: Host, challenge: Challenge) -> str:
    """Return the reason why the site's web server does not serve the challenge to the panel; "" on success.

    Return "" also if the panel cannot reach any listener of the challenge's name, or if the bastion of the host does
    not forward connections to the listener.
    """
    via = through(host)
    is_tls = challenge.kind == ChallengeKind.TLS
    asked = _asked_over_tls if is_tls else _asked
    for block in spec.blocks:
        if is_tls:
            block = challenges.with_tls_listener(block, spec.tls_challenge_port)
        for listen in block.listens:
            if listen.tls != is_tls or challenge.name not in exact_names(block.names):
                continue
            address = reached(listen.address, host_address(host))
            if address and (problem := asked(address, listen.port, challenge, via)):
                return f"{challenge.name} on port {listen.port} of {host}: {problem}"
    return ""


def _asked_over_tls(address: str, port: int, challenge: Challenge, via: Target | None) -> str:
    listener = Listener(challenges.tls_name(challenge.name), address, port, False, "")
    try:
        shown = handshakes.challenge_shown(listener, via)
    except handshakes.ForwardingForbidden:
        return ""
    except handshakes.HandshakeFailed as error:
        return f"the web server does not present the certificate of the challenge ({error})"
    if shown != hashlib.sha256(challenge.content.encode()).digest():
        return "the web server presents a certificate other than the certificate of the challenge"
    return ""


def _asked(address: str, port: int, challenge: Challenge, via: Target | None) -> str:
    host_name = f"[{challenge.name}]" if ":" in challenge.name else challenge.name
    try:
        with contextlib.closing(handshakes.connected(address, port, via)) as stream:
            status, body = _response(stream, challenges.PREFIX + challenge.file, host_name)
    except handshakes.ForwardingForbidden:
        return ""
    except handshakes.HandshakeFailed as error:
        return f"the web server does not respond to the request for the challenge ({error})"
    except (OSError, http.client.HTTPException) as error:
        return f"the web server does not respond to the request for the challenge ({type(error).__name__})"
    if status != 200 or body.strip() != challenge.content:
        return f"the web server responds to the request for the challenge with status {status} instead of the file"
    return ""


def _response(stream: socket.socket | Stream, path: str, host_name: str) -> tuple[int, str]:
    """Send a GET request over the connection; return the status and the body of the response.
    Raises TimeoutError after ASK_TIMEOUT_S, also for a server that sends its response byte by byte.
    """
    left = f"GET {path} HTTP/1.1\r\nHost: {host_name}\r\nConnection: close\r\n\r\n".encode("ascii")
    deadline = time.monotonic() + ASK_TIMEOUT_S
    stream.settimeout(ASK_TIMEOUT_S)
    while left:
        left = left[stream.send(left) :]
    received = b""
    while len(received) < MOST_BYTES:
        if (seconds := deadline - time.monotonic()) <= 0:
            raise TimeoutError
        stream.settimeout(seconds)
        part = stream.recv(PART_BYTES)
        if not part:
            break
        received += part
    response = http.client.HTTPResponse(_Received(received))  # type: ignore[arg-type]
    response.begin()
    return response.status, response.read(1000).decode("latin-1")


class _Received:
    """A received response in the form of a socket, so that HTTPResponse can parse it."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)
