"""Certificates that a listener presents in a TLS handshake over TCP or a QUIC handshake over UDP.

The certificates are compared, not trusted.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from aioquic.asyncio.client import connect
from aioquic.quic.configuration import QuicConfiguration
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from OpenSSL import SSL

from panel.certificates.keys import is_address
from panel.certificates.listeners import Listener

TIMEOUT_S = 5.0
AT_ONCE = 16
CHALLENGE_PROTOCOL = b"acme-tls/1"  # RFC 8737 section 6.2
CHALLENGE_OID = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.31")
T = TypeVar("T")
Digests = list[str]  # SHA-256 of each certificate's DER in hex, the leaf first


class HandshakeFailed(Exception):
    """The reason in words. `is_tls`: the listener was reached and refused the TLS handshake."""

    def __init__(self, words: str, *, is_tls: bool = False) -> None:
        super().__init__(words)
        self.is_tls = is_tls


def chain_of(pem: str) -> Digests:
    return _digests(x509.load_pem_x509_certificates(pem.encode()))


def _digests(certificates: Iterable[x509.Certificate]) -> Digests:
    return [item.fingerprint(SHA256()).hex() for item in certificates]


def presented(listener: Listener) -> list[x509.Certificate]:
    """The chain that the listener presents for its name. Raises HandshakeFailed."""
    return _in_words(lambda: _over_quic(listener) if listener.is_quic else _certificates(listener))


def _in_words(call: Callable[[], T]) -> T:
    try:
        return call()
    except HandshakeFailed:
        raise
    except SSL.Error as error:
        raise HandshakeFailed(f"the TLS handshake failed: {_reason(error)}", is_tls=True) from error
    except TimeoutError as error:
        raise HandshakeFailed("no response within 5 s") from error
    except OSError as error:
        raise HandshakeFailed(f"no connection: {error.strerror or type(error).__name__}") from error


def _reason(error: SSL.Error) -> str:
    parts: Any = error.args[0] if error.args else ()
    return str(parts[0][-1]) if isinstance(parts, list) and parts else "the connection was closed"


def challenge_shown(listener: Listener) -> bytes:
    """The digest that the listener shows for a TLS-ALPN-01 challenge (RFC 8737 section 3); b"" for another certificate.
    Raises HandshakeFailed.
    """
    chain = _in_words(lambda: _certificates(listener, [CHALLENGE_PROTOCOL]))
    if not chain:
        return b""
    try:
        extension = chain[0].extensions.get_extension_for_oid(CHALLENGE_OID).value
    except x509.ExtensionNotFound:
        return b""
    return extension.value[2:] if isinstance(extension, x509.UnrecognizedExtension) else b""


def _certificates(listener: Listener, protocols: Sequence[bytes] = ()) -> list[x509.Certificate]:
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_verify(SSL.VERIFY_NONE)
    if protocols:
        context.set_alpn_protos(list(protocols))
    with socket.create_connection((listener.address, listener.port), TIMEOUT_S) as plain:
        plain.settimeout(None)
        connection = SSL.Connection(context, plain)
        if not is_address(listener.name):  # an address is never sent as a name (RFC 6066 section 3)
            connection.set_tlsext_host_name(listener.name.encode())
        connection.set_connect_state()
        plain.setblocking(False)
        _shake(connection, plain)
        found = connection.get_peer_cert_chain() or []
        with contextlib.suppress(SSL.Error):
            connection.shutdown()
    return [item.to_cryptography() for item in found]


def _shake(connection: SSL.Connection, plain: socket.socket) -> None:
    """The handshake with an end: a server that sends a byte now and then must not hold the check up."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            connection.do_handshake()
            return
        except SSL.WantReadError:
            wanted: tuple[list[Any], list[Any]] = ([plain], [])
        except SSL.WantWriteError:
            wanted = ([], [plain])
        left = deadline - time.monotonic()
        if left <= 0 or not any(select.select(*wanted, [], left)[:2]):
            raise TimeoutError


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


def problems(listeners: Sequence[Listener], pem: str) -> list[dict[str, str]]:
    """Result of each listener: {"listener", "name", "problem"}, `problem` "" when it presents exactly `pem`."""
    wanted = chain_of(pem)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda item: _problem(item, wanted), listeners))
    return [
        {"listener": item.label, "name": item.name, "problem": problem}
        for item, problem in zip(listeners, found, strict=True)
    ]


def _problem(listener: Listener, wanted: Digests) -> str:
    if not listener.address:
        return "not checked: it is a loopback address of another host"
    try:
        chain = _digests(presented(listener))
    except HandshakeFailed as error:
        return str(error)
    if not chain:
        return "it presents no certificate"
    if chain[0] != wanted[0]:
        return f"it presents another certificate (SHA-256 {chain[0][:16]}…)"
    if chain != wanted:
        return f"it presents the certificate with {len(chain) - 1} instead of {len(wanted) - 1} chain certificates"
    return ""
