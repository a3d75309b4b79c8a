"""Certificates that a listener presents in a TLS handshake over TCP or a QUIC handshake over UDP.

Certificates are not verified, because they are compared with the deployed ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from aioquic.asyncio.client import connect
from aioquic.quic.configuration import QuicConfiguration
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from OpenSSL import SSL

from panel.certificates.keys import is_address
from panel.certificates.listeners import Listener
from panel.remote.bastions import Stream
from panel.remote.errors import ForwardingRefused, RemoteError
from panel.remote.ssh import connect_behind
from panel.remote.target import Target

TIMEOUT_S = 5.0
AT_ONCE = 16
PART_BYTES = 16384
NOT_CHECKED = "not checked: "  # begins the result of a listener that was not asked
CHALLENGE_PROTOCOL = b"acme-tls/1"  # RFC 8737 section 6.2
CHALLENGE_OID = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.31")
T = TypeVar("T")
Digests = list[str]  # SHA-256 of each certificate's DER in hex, the leaf first


class HandshakeFailed(Exception):
    """Raised if the connection or the handshake failed, or if a certificate cannot be read. The message is the reason.
    `is_tls`: the listener was reached but refused the handshake or presented an unreadable certificate.
    """

    def __init__(self, words: str, *, is_tls: bool = False) -> None:
        super().__init__(words)
        self.is_tls = is_tls


class ForwardingForbidden(HandshakeFailed):
    """Raised if the bastion does not forward connections to the listener's port, so its certificate is unknown."""


def chain_of(pem: str) -> Digests:
    return _digests(x509.load_pem_x509_certificates(pem.encode()))


def _digests(certificates: Iterable[x509.Certificate]) -> Digests:
    return [item.fingerprint(SHA256()).hex() for item in certificates]


def presented(listener: Listener, through: Target | None = None) -> list[x509.Certificate]:
    """Return the certificate chain that the listener presents for its name.

    `through` is the SSH target of the listener's host if the host is behind a bastion, otherwise None. A bastion
    forwards TCP only.

    Raises HandshakeFailed if the connection or the handshake fails, or if a certificate cannot be read.
    """
    return _in_words(lambda: _over_quic(listener) if listener.is_quic else _certificates(listener, through))


def _in_words(call: Callable[[], T]) -> T:
    try:
        return call()
    except SSL.Error as error:
        raise HandshakeFailed(f"the TLS handshake failed: {_reason(error)}", is_tls=True) from error
    except TimeoutError as error:
        raise HandshakeFailed("no response within 5 s") from error
    except (ValueError, x509.InvalidVersion) as error:  # certificates of other programs may contain anything
        raise HandshakeFailed("Paddock cannot read the presented certificate", is_tls=True) from error
    except OSError as error:
        raise HandshakeFailed(f"no connection: {error.strerror or type(error).__name__}") from error


def _reason(error: SSL.Error) -> str:
    parts: Any = error.args[0] if error.args else ()
    return str(parts[0][-1]) if isinstance(parts, list) and parts else "the web server closed the connection"


def challenge_shown(listener: Listener, through: Target | None = None) -> bytes:
    """Return the digest in the certificate that the listener presents for a TLS-ALPN-01 challenge (RFC 8737 section 3).

    Return b"" if the certificate has no such digest. `through` is the SSH target of the listener's host if the host is
    behind a bastion, otherwise None.

    Raises HandshakeFailed if the connection or the handshake fails, or if a certificate cannot be read.
    """
    return _in_words(lambda: _challenge_in(_certificates(listener, through, [CHALLENGE_PROTOCOL])))


def _challenge_in(chain: Sequence[x509.Certificate]) -> bytes:
    try:
        extension = chain[0].extensions.get_extension_for_oid(CHALLENGE_OID).value if chain else None
    except x509.ExtensionNotFound:
        return b""
    return extension.value[2:] if isinstance(extension, x509.UnrecognizedExtension) else b""


def _certificates(
    listener: Listener, through: Target | None, protocols: Sequence[bytes] = ()
) -> list[x509.Certificate]:
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_verify(SSL.VERIFY_NONE)
    if protocols:
        context.set_alpn_protos(list(protocols))
    connection = SSL.Connection(context, None)
    if listener.name and not is_address(listener.name):  # an address is never sent as a name (RFC 6066 section 3)
        connection.set_tlsext_host_name(listener.name.encode())
    connection.set_connect_state()
    with contextlib.closing(connected(listener.address, listener.port, through)) as stream:
        _shake(connection, stream)
        found = connection.get_peer_cert_chain() or []
        with contextlib.suppress(SSL.Error, OSError):
            connection.shutdown()
            _send(connection, stream)
    return [item.to_cryptography() for item in found]


def connected(address: str, port: int, through: Target | None) -> socket.socket | Stream:
    """Open a TCP connection, directly or, if `through` is a host's target, through the bastion of this host.

    Raises HandshakeFailed if a connection through a bastion fails, OSError if a direct one fails.
    """
    if through is None:
        return socket.create_connection((address, port), TIMEOUT_S)
    try:
        return connect_behind(replace(through, address=address, port=port))
    except ForwardingRefused as error:
        raise ForwardingForbidden(f"no connection: {error.message}") from error
    except RemoteError as error:
        raise HandshakeFailed(f"no connection: {error.message}") from error


def _shake(connection: SSL.Connection, stream: socket.socket | Stream) -> None:
    """Complete the TLS handshake within TIMEOUT_S in total, even if the server sends byte by byte."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        is_done = False
        with contextlib.suppress(SSL.WantReadError):
            connection.do_handshake()
            is_done = True
        _send(connection, stream)
        if is_done:
            return
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        stream.settimeout(left)
        data = stream.recv(PART_BYTES)
        if not data:
            connection.bio_shutdown()  # the handshake fails now
        else:
            connection.bio_write(data)


def _send(connection: SSL.Connection, stream: socket.socket | Stream) -> None:
    """Send the bytes that the TLS connection has ready for the network."""
    with contextlib.suppress(SSL.WantReadError):
        while True:
            data = connection.bio_read(PART_BYTES)
            while data:
                sent = stream.send(data)
                if not sent:
                    raise OSError(errno.EPIPE, "the web server closed the connection")
                data = data[sent:]


def _over_quic(listener: Listener) -> list[x509.Certificate]:
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], server_name=listener.name)
    configuration.verify_mode = 0  # ssl.CERT_NONE: what is presented is compared, not trusted
    configuration.idle_timeout = TIMEOUT_S

    async def shake() -> list[x509.Certificate]:
        async with asyncio.timeout(TIMEOUT_S):
            try:
                async with connect(listener.address, listener.port, configuration=configuration) as session:
                    tls: Any = session._quic.tls
                    return [tls._peer_certificate, *tls._peer_certificate_chain]
            except ConnectionError as error:
                raise HandshakeFailed("the QUIC handshake failed") from error

    return asyncio.run(shake())


def problems(listeners: Sequence[Listener], pem: str, through: Target | None = None) -> list[dict[str, str]]:
    """Check that listeners present exactly the certificate chain `pem`; return a list of {"listener", "name",
    "problem"}.

    `problem` is "" for a correct chain. It begins with NOT_CHECKED if the panel did not try to reach the listener.
    `through` is the SSH target of the listeners' host if the host is behind a bastion, otherwise None.
    """
    wanted = chain_of(pem)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda item: _problem(item, wanted, through), listeners))
    return [
        {"listener": item.label, "name": item.shown_name, "problem": problem}
        for item, problem in zip(listeners, found, strict=True)
    ]


def _problem(listener: Listener, wanted: Digests, through: Target | None) -> str:
    if not listener.address:
        return f"{NOT_CHECKED}the listener has a loopback address of another host"
    if through is not None and listener.is_quic:
        return f"{NOT_CHECKED}the host is behind a bastion, and SSH does not forward UDP"
    try:
        chain = _digests(presented(listener, through))
    except HandshakeFailed as error:
        return str(error)
    if not chain:
        return "the web server presents no certificate"
    if chain[0] != wanted[0]:
        return f"the web server presents another certificate (SHA-256 {chain[0][:16]}…)"
    if chain != wanted:
        return (
            f"the web server presents the certificate with {len(chain) - 1} instead of {len(wanted) - 1} chain "
            "certificates"
        )
    return ""
