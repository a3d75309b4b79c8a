"""An SSH transport to one host. The host key is compared before any account data is sent."""

from __future__ import annotations

import logging
import random
import socket
import time

import paramiko
from paramiko.ssh_exception import IncompatiblePeer

from panel.remote.bastions import Bastions, Stream
from panel.remote.bounds import BoundedPacketizer
from panel.remote.errors import AuthenticationRefused, HostKeyChanged, HostKeyUnknown, HostUnreachable
from panel.remote.keys import SIGNATURES, fingerprint, key_line, load_private_key, parse_key_line, same_key
from panel.remote.target import Target

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


def offered_key(target: Target) -> str:
    """The key line that the host offers, read by a key exchange only. Raises HostUnreachable."""
    transport = _negotiated(target, ())
    try:
        return key_line(transport.get_remote_server_key())
    finally:
        transport.close()


def connect(target: Target) -> paramiko.Transport:
    """An authenticated transport to the host with the pinned key; every error is a RemoteError."""
    if not target.host_key:
        raise HostKeyUnknown(target.name)
    kind, _ = parse_key_line(target.host_key)
    try:
        transport = _negotiated(target, SIGNATURES[kind])
    except IncompatiblePeer:
        raise _changed(target, offered_key(target)) from None
    try:
        key = transport.get_remote_server_key()
        if not same_key(target.host_key, key):
            raise _changed(target, key_line(key))
        _authenticate(transport, target)
        transport.set_keepalive(KEEPALIVE_S)
    except BaseException:
        transport.close()
        raise
    return transport


def _changed(target: Target, offered: str) -> HostKeyChanged:
    pinned = fingerprint(target.host_key)
    return HostKeyChanged(target.name, offered, pinned=pinned, found=fingerprint(offered))


def _negotiated(target: Target, key_types: tuple[str, ...]) -> paramiko.Transport:
    """A transport after its key exchange. sshd randomly rejects connections when many arrive at once (MaxStartups), so
    such attempts are repeated with growing random delays.
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
    """Authenticate by key, by password, or by both if the host requires both."""
    tried: list[str] = []
    still_asked = ["publickey", "password"]
    try:
        if target.private_key:
            tried.append("the key")
            still_asked = transport.auth_publickey(target.username, load_private_key(target.private_key))
        if not transport.is_authenticated() and target.password and _takes_password(still_asked):
            tried.append("the password")
            transport.auth_password(target.username, target.password)
    except paramiko.AuthenticationException:
        raise AuthenticationRefused(target.name, target.username, " and ".join(tried)) from None
    except (paramiko.SSHException, OSError, EOFError) as error:
        reason = str(error) or "the SSH server closed the connection during authentication"
        raise HostUnreachable(target.name, target.endpoint, reason) from None
    if not transport.is_authenticated():
        raise AuthenticationRefused(
            target.name, target.username, " and ".join(tried) or "a login without key or password"
        )


def _takes_password(still_asked: list[str]) -> bool:
    return bool({"password", "keyboard-interactive"} & set(still_asked))


_bastions = Bastions(connect, CONNECT_TIMEOUT_S)


def connect_behind(target: Target) -> Stream:
    """A TCP connection to the target's address and port through its bastion. Raises HostUnreachable."""
    return _bastions.stream(target)
