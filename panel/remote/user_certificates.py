"""Create SSH user certificates with which the panel signs in to hosts: a new key for each connection, signed by an
authority that the hosts trust, and valid for minutes (OpenSSH's PROTOCOL.certkeys).
"""

from __future__ import annotations

import datetime as dt
import io
import secrets

import paramiko
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    SSHCertificateBuilder,
    SSHCertificateType,
    load_ssh_private_key,
)

TOLERANCE = dt.timedelta(minutes=15)  # of the host's clock


def signed_key(authority_key: str, username: str, name: str, *, forwards: bool, now: dt.datetime) -> paramiko.PKey:
    """Create a private key with a certificate for `username`, signed by `authority_key`, a private Ed25519 key in
    OpenSSH format.

    sshd logs `name`. The certificate does not allow a terminal; it allows port forwarding only if `forwards` is set,
    for a bastion.
    """
    authority = load_ssh_private_key(authority_key.encode(), None)
    assert isinstance(authority, Ed25519PrivateKey)
    key = Ed25519PrivateKey.generate()
    builder = (
        SSHCertificateBuilder()
        .public_key(key.public_key())
        .serial(secrets.randbits(63))
        .type(SSHCertificateType.USER)
        .key_id(f"paddock {name}".encode())
        .valid_principals([username.encode()])
        .valid_after((now - TOLERANCE).timestamp())
        .valid_before((now + TOLERANCE).timestamp())
    )
    if forwards:
        builder = builder.add_extension(b"permit-port-forwarding", b"")
    text = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    signed = paramiko.Ed25519Key.from_private_key(io.StringIO(text))
    signed.load_certificate(builder.sign(authority).public_bytes().decode())
    return signed
