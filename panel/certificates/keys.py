"""Private keys and certificate signing requests (PKCS #10). Pure: no I/O."""

from __future__ import annotations

import datetime as dt
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from panel.certificates.choices import KeyType
from panel.core.errors import ApplicationError
from panel.websites.certificates import bundle_read

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def key_make(kind: KeyType) -> str:
    """Generate a private key; return it as PKCS #8 in PEM."""
    key: Key
    match kind:
        case KeyType.P384:
            key = ec.generate_private_key(ec.SECP384R1())
        case KeyType.RSA2048:
            key = rsa.generate_private_key(65537, 2048)
        case KeyType.RSA4096:
            key = rsa.generate_private_key(65537, 4096)
        case _:
            key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def key_read(pem: str) -> Key:
    key = serialization.load_pem_private_key(pem.encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey)
    return key


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def request_make(names: list[str], key_pem: str) -> x509.CertificateSigningRequest:
    """Build a certificate signing request for domain names and IP addresses, without a subject (RFC 8555 section
    7.4).
    """
    found = [x509.IPAddress(ipaddress.ip_address(name)) if is_address(name) else x509.DNSName(name) for name in names]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    builder = builder.add_extension(x509.SubjectAlternativeName(found), critical=True)
    return builder.sign(key_read(key_pem), hashes.SHA256())


def chain_check(chain: str, key_pem: str, *, now: dt.datetime) -> None:
    """Raise ApplicationError unless `chain` from a certificate authority is a valid chain for the key."""
    try:
        bundle_read(chain, key_pem, now=now)
    except ApplicationError as error:
        words = "The certificate authority sent a certificate that Paddock cannot use"
        raise ApplicationError(f"{words}: {error.message}") from error
