"""Open SSH transports to hosts. The host key is checked before any account data is sent."""

from __future__ import annotations

import datetime as dt
import logging
import random
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

import paramiko
from paramiko.ssh_exception import IncompatiblePeer

from panel.remote import host_certificates
from panel.remote.bastions import Bastions, Stream
from panel.remote.bounds import BoundedPacketizer
from panel.remote.errors import (
    AuthenticationRefused,
    HostCertificateRefused,
    HostKeyChanged,
    HostKeyUnknown,
    HostUnreachable,
)
from panel.remote.keys import (
    ALL_SIGNATURES,
    SIGNATURES,
    fingerprint,
    key_line,
    load_private_keys,
    parse_key_line,
    same_key,
)
from panel.remote.target import Target
from panel.remote.user_certificates import signed_key

CONNECT_TIMEOUT_S = 10.0
KEEPALIVE_S = 20
ATTEMPTS = 4
# The post-quantum exchange is preferred, SHA-1 is never used. P-256 comes before X25519, which is equally strong:
# OpenSSH computes X25519 in plain C, 3 ms per connection on the host, and P-256 with OpenSSL's assembler code.
KEX = (
    "mlkem768x25519-sha256",
    "ecdh-sha2-nistp256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
    "diffie-hellman-group16-sha512",
    "diffie-hellman-group-exchange-sha256",
    "diffie-hellman-group14-sha256",
)
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
DIGESTS = ("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512")

# Paramiko logs tracebacks of errors that are raised anyway with messages for people.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class Offered:
    """The host key that a host offers, and whether a trusted authority signed it."""

    line: str
    is_certified: bool = False


def offered_key(target: Target) -> Offered:
    """Return the host key that a host offers. Only the key exchange runs, without authentication. Raises
    HostUnreachable.
    """
    certified = _certified_key(target) if target.authorities else ""
    if certified:
        return Offered(certified, is_certified=True)
    transport = _negotiated(target, ())
    try:
        return Offered(key_line(transport.get_remote_server_key()))
    finally:
        transport.close()


def _certified_key(target: Target) -> str:
    """Return the offered host key if a trusted authority signed it; "" otherwise."""
    try:
        transport = _negotiated(target, (*host_certificates.TYPES, *ALL_SIGNATURES))
    except IncompatiblePeer:
        return ""
    try:
        key = transport.get_remote_server_key()
        return key_line(key) if certificate_fault(target, key) == "" else ""
    finally:
        transport.close()


def certificate_fault(target: Target, key: paramiko.PKey) -> str | None:
    """Return the reason why the certificate of an offered host key is not valid for the target; "" if it is valid; None
    if the key has no certificate.
    """
    certificate = host_certificates.certificate_of(key)
    if not certificate:
        return None
    return host_certificates.refusal(certificate, target.authorities, target.names, dt.datetime.now(dt.UTC))


def connect(target: Target) -> paramiko.Transport:
    """Open an SSH transport to a host and sign in. The host key must be the pinned one, or signed by a trusted
    authority. Raises RemoteError.
    """
    if not target.host_key and not target.authorities:
        raise HostKeyUnknown(target.name)
    transport = (_certified(target) if target.authorities else None) or _pinned(target)
    try:
        _authenticate(transport, target)
        transport.set_keepalive(KEEPALIVE_S)
    except BaseException:
        transport.close()
        raise
    return transport


def _certified(target: Target) -> paramiko.Transport | None:
    """Open a transport to a host whose key an authority signed or the panel pinned. Return None if the host offered
    neither, but may have the pinned key too: then the caller tries again with the type of the pinned key only.

    Raises HostKeyUnknown, HostCertificateRefused, HostUnreachable.
    """
    plain = SIGNATURES[parse_key_line(target.host_key)[0]] if target.host_key else ALL_SIGNATURES
    try:
        transport = _negotiated(target, (*host_certificates.TYPES, *plain))
    except IncompatiblePeer:
        if target.host_key:
            return None
        raise HostKeyUnknown(target.name) from None
    key = transport.get_remote_server_key()
    fault = certificate_fault(target, key)
    if fault == "" or (target.host_key and same_key(target.host_key, key)):
        return transport
    transport.close()
    if not target.host_key:
        if fault:
            raise HostCertificateRefused(target.name, fault)
        raise HostKeyUnknown(target.name)
    return None


def _pinned(target: Target) -> paramiko.Transport:
    """Open a transport to a host with the pinned host key. Raises HostKeyChanged for any other key."""
    kind, _ = parse_key_line(target.host_key)
    try:
        transport = _negotiated(target, SIGNATURES[kind])
    except IncompatiblePeer:
        raise _changed(target, offered_key(target).line) from None
    key = transport.get_remote_server_key()
    if not same_key(target.host_key, key):
        transport.close()
        raise _changed(target, key_line(key))
    return transport


def _changed(target: Target, offered: str) -> HostKeyChanged:
    pinned = fingerprint(target.host_key)
    return HostKeyChanged(target.name, offered, pinned=pinned, found=fingerprint(offered))


def _negotiated(target: Target, key_types: tuple[str, ...]) -> paramiko.Transport:
    """Open a transport and finish its key exchange, with host keys of `key_types` only; an empty tuple permits all
    types.

    sshd randomly rejects connections when many arrive at once (MaxStartups), so failed attempts are repeated with
    growing random delays. Raises HostUnreachable, and IncompatiblePeer if the host has no key of `key_types`.
    """
    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(random.uniform(0.05, 0.25) * 2**attempt)  # noqa: S311 - jitter, not a secret
        stream = _bastions.stream(target) if target.via else _socket(target)
        transport = paramiko.Transport(stream, packetizer_class=BoundedPacketizer)  # type: ignore[arg-type]
        try:
            _restrict(transport, key_types)
            transport.start_client(timeout=CONNECT_TIMEOUT_S)
        except IncompatiblePeer:
            transport.close()
            if key_types:
                raise
            reason = "the SSH server shares no key exchange, cipher, or host key type with the panel"
            break
        except (paramiko.SSHException, OSError, EOFError) as error:
            transport.close()
            reason = str(error) or "the SSH server closed the connection"
        else:
            if transport.initial_kex_done:
                return transport
            transport.close()  # start_client() reports no error for an open port that sends nothing
            reason = f"the port accepts connections but sends nothing within {CONNECT_TIMEOUT_S:.0f} s"
            break
    raise HostUnreachable(target.name, target.endpoint, reason)


def _socket(target: Target) -> socket.socket:
    try:
        stream = socket.create_connection((target.address, target.port), timeout=CONNECT_TIMEOUT_S)
    except OSError as error:
        raise HostUnreachable(target.name, target.endpoint, error.strerror or str(error)) from None
    # Otherwise the small messages of authentication wait for delayed acknowledgements: 43 ms per connection.
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def _restrict(transport: paramiko.Transport, key_types: tuple[str, ...]) -> None:
    options = transport.get_security_options()
    for name, wanted in (("kex", KEX), ("ciphers", CIPHERS), ("digests", DIGESTS)):
        known = getattr(options, name)
        setattr(options, name, tuple(item for item in wanted if item in known))
    if key_types:
        options.key_types = key_types


def _authenticate(transport: paramiko.Transport, target: Target) -> None:
    """Sign in with a key or a password; with both if the host requires both. Raises AuthenticationRefused or
    HostUnreachable.
    """
    tried: list[str] = []
    still_asked = ["publickey", "password"]
    try:
        for words, key in _keys_of(target):
            tried.append(words)
            try:
                still_asked = transport.auth_publickey(target.username, key)
            except paramiko.AuthenticationException:
                continue
            break
        else:
            if tried:
                raise paramiko.AuthenticationException
        if not transport.is_authenticated() and target.password and _takes_password(still_asked):
            tried.append("the password")
            transport.auth_password(target.username, target.password)
    except paramiko.AuthenticationException:
        raise AuthenticationRefused(target.name, target.username, _offers(tried)) from None
    except (paramiko.SSHException, OSError, EOFError) as error:
        reason = str(error) or "the SSH server closed the connection during authentication"
        raise HostUnreachable(target.name, target.endpoint, reason) from None
    if not transport.is_authenticated():
        raise AuthenticationRefused(target.name, target.username, _offers(tried) or "a login without key or password")


def _keys_of(target: Target) -> Iterator[tuple[str, paramiko.PKey]]:
    """Yield (name for error messages, key) for each key to sign in with, in the order in which to try them."""
    if target.authority_key:
        now = dt.datetime.now(dt.UTC)
        signed = signed_key(target.authority_key, target.username, target.name, forwards=target.forwards, now=now)
        yield "the certificate", signed
    if target.private_key:
        keys = load_private_keys(target.private_key)
        for number, key in enumerate(keys, 1):
            yield "the key" if len(keys) == 1 else f"key {number}", key


def _offers(tried: list[str]) -> str:
    return " and ".join(tried)


def _takes_password(still_asked: list[str]) -> bool:
    return bool({"password", "keyboard-interactive"} & set(still_asked))


_bastions = Bastions(connect, CONNECT_TIMEOUT_S)


def connect_behind(target: Target) -> Stream:
    """Open a TCP connection to the target's address and port through its bastion. Raises HostUnreachable."""
    return _bastions.stream(target)
