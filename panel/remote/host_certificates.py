"""Check SSH certificates of hosts: an authority that the panel trusts must have signed the host's key (OpenSSH's
PROTOCOL.certkeys). Pure functions, without input or output.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Collection

import paramiko
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    SSHCertificateType,
    load_ssh_public_identity,
)

from panel.remote.keys import ALL_SIGNATURES

SUFFIX = "-cert-v01@openssh.com"
TYPES = tuple(f"{name}{SUFFIX}" for name in ALL_SIGNATURES)


def certificate_of(key: paramiko.PKey) -> bytes:
    """Return the certificate of a host key in OpenSSH's format, "TYPE BASE64" as bytes; b"" for a key without a
    certificate.
    """
    blob = key.public_blob
    if blob is None or not str(blob.key_type).endswith(SUFFIX):
        return b""
    return f"{blob.key_type} ".encode() + base64.b64encode(blob.key_blob)


def refusal(certificate: bytes, authorities: Collection[str], names: Collection[str], now: dt.datetime) -> str:
    """Return the reason why a host certificate is invalid, as part of a sentence; "" if it is valid. The certificate
    must be for one of `names`, and signed by one of `authorities`, public keys such as "ssh-ed25519 AAAA...".
    """
    try:
        found = load_ssh_public_identity(certificate)
    except (ValueError, UnsupportedAlgorithm):
        return "Paddock cannot read the certificate"
    if not isinstance(found, SSHCertificate):
        return "the host presents a plain key, not a certificate"
    return _fault_of_signature(found, authorities) or _fault_of_content(found, names, now)


def _fault_of_signature(found: SSHCertificate, authorities: Collection[str]) -> str:
    if found.type is not SSHCertificateType.HOST:
        return "the certificate is for users, not for hosts"
    try:
        signer = found.signature_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
        if signer not in {" ".join(line.split()[:2]) for line in authorities}:
            return "another authority signed the certificate"
        found.verify_cert_signature()
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return "the signature of the certificate is not valid"
    return ""


def _fault_of_content(found: SSHCertificate, names: Collection[str], now: dt.datetime) -> str:
    if found.critical_options:
        return "the certificate has critical options, which Paddock does not support"
    if not found.valid_after <= now.timestamp() < found.valid_before:
        is_early = now.timestamp() < found.valid_after
        return "the certificate is not valid yet" if is_early else "the certificate has expired"
    principals = {item.decode("utf-8", "replace").lower() for item in found.valid_principals}
    if not principals & {name.lower() for name in names}:  # without any, OpenSSH too rejects it
        return f"the certificate is not for {' or '.join(names)}"
    return ""
