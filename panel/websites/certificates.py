"""Certificates as data: parse uploaded certificates, and create self-signed ones. No database access here."""

from __future__ import annotations

import datetime
import ipaddress
import itertools
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from panel.core.errors import ApplicationError
from panel.websites.certificate_faults import MIN_RSA_BITS, faults_of

ServerKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey

# Days before the end at which an alert mentions a certificate; steps longer than a third of its lifetime do not count.
EXPIRY_STEPS = (30, 14, 7, 3, 1)


@dataclass(frozen=True)
class Bundle:
    """A validated certificate with its chain and key: PEM texts in a normalized form, and times with a time zone.

    `fingerprint` is the SHA-256 of the leaf's DER encoding in hex.
    """

    certificate_pem: str
    private_key_pem: str = field(repr=False)
    names: list[str]
    issuer: str
    fingerprint: str
    not_before: datetime.datetime
    not_after: datetime.datetime
    faults: list[str]  # certificate_faults.WORDS


def bundle_read(certificate_pem: str, private_key_pem: str, *, now: datetime.datetime) -> Bundle:
    """Validate an uploaded certificate and return it. The chain must begin with the leaf, each certificate must be
    followed by its issuer, and the key must belong to the leaf.

    Raises ApplicationError with the `field` certificate_pem or private_key_pem.
    """
    chain = _chain(certificate_pem)
    key = _key(private_key_pem)
    leaf = chain[0]
    if _public_bytes(leaf.public_key()) != _public_bytes(key.public_key()):
        raise ApplicationError(
            f"This private key does not match the first certificate ({_subject(leaf)}). Paste the key of "
            "that certificate, and put the site's own certificate before its chain.",
            field="private_key_pem",
        )
    _check_order(chain)
    if leaf.not_valid_after_utc <= now:
        raise ApplicationError(
            f"This certificate expired on {leaf.not_valid_after_utc:%Y-%m-%d}. Upload the renewed certificate.",
            field="certificate_pem",
        )
    return _bundle(chain, key)


def pkcs12(certificate_pem: str, private_key_pem: str, name: str, password: str) -> bytes:
    """Return the certificate with its key and chain as PKCS #12 (RFC 7292), encrypted with the password."""
    chain, key = _chain(certificate_pem), _key(private_key_pem)
    encryption = serialization.BestAvailableEncryption(password.encode())
    return serialize_key_and_certificates(name.encode(), key, chain[0], chain[1:] or None, encryption)


def public_read(certificate_pem: str) -> Bundle:
    """Validate and return a certificate whose key stays on its host. The certificate may have expired.

    The text must contain the leaf first, and each certificate must be followed by its issuer. Raises ApplicationError
    with the `field` certificate_pem.
    """
    chain = _chain(certificate_pem)
    _check_order(chain)
    return _bundle(chain, None)


def self_signed(names: list[str], *, now: datetime.datetime, days: int = 397) -> Bundle:
    """Return a new P-256 key with a self-signed certificate for DNS names and IP addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))  # for hosts with a slow clock
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _bundle([certificate], key)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        return x509.DNSName(name)


def _chain(pem: str) -> list[x509.Certificate]:
    if "PRIVATE KEY" in pem:
        raise ApplicationError(
            "This field contains a private key. Paste the key in the field Private key, and only certificates "
            "in this field.",
            field="certificate_pem",
        )
    try:
        return x509.load_pem_x509_certificates(pem.encode())
    except ValueError as error:
        raise ApplicationError(
            "This is not a PEM certificate. Paste everything from -----BEGIN CERTIFICATE----- to "
            "-----END CERTIFICATE-----, the site's own certificate first, then its chain.",
            field="certificate_pem",
        ) from error


def _key(pem: str) -> ServerKey:
    try:
        key = serialization.load_pem_private_key(pem.encode(), password=None)
    except TypeError as error:
        raise ApplicationError(
            "This private key has a passphrase, which web servers cannot enter. Remove the passphrase with "
            "openssl pkey -in locked.key -out server.key and paste the result.",
            field="private_key_pem",
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ApplicationError(
            "This is not a PEM private key. Paste everything from -----BEGIN PRIVATE KEY----- to the END line.",
            field="private_key_pem",
        ) from error
    if not isinstance(key, ServerKey):
        raise ApplicationError(
            "This key type is not supported. Use an RSA, EC, or Ed25519 key.", field="private_key_pem"
        )
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size < MIN_RSA_BITS:
        raise ApplicationError(
            f"This RSA key has {key.key_size} bits; web servers require at least {MIN_RSA_BITS}.",
            field="private_key_pem",
        )
    return key


def _public_bytes(key: object) -> bytes:
    assert hasattr(key, "public_bytes")
    data: bytes = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return data


def _subject(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string() or "no subject"


def _check_order(chain: list[x509.Certificate]) -> None:
    for lower, upper in itertools.pairwise(chain):
        try:
            lower.verify_directly_issued_by(upper)
        except (ValueError, TypeError, InvalidSignature) as error:
            raise ApplicationError(
                f"The chain is in the wrong order: {_subject(upper)} did not issue {_subject(lower)}. "
                "Put the site's certificate first, then its issuer, and so on.",
                field="certificate_pem",
            ) from error


def names_of(leaf: x509.Certificate) -> list[str]:
    """Return the DNS names and IP addresses in a certificate."""
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def _bundle(chain: list[x509.Certificate], key: ServerKey | None) -> Bundle:
    leaf = chain[0]
    return Bundle(
        certificate_pem="".join(item.public_bytes(serialization.Encoding.PEM).decode() for item in chain),
        private_key_pem=_key_pem(key) if key else "",
        names=names_of(leaf),
        issuer=(leaf.issuer.rfc4514_string() or "no name")[:300],
        fingerprint=leaf.fingerprint(hashes.SHA256()).hex(),
        not_before=leaf.not_valid_before_utc,
        not_after=leaf.not_valid_after_utc,
        faults=faults_of(chain),
    )


def _key_pem(key: ServerKey) -> str:
    form, unlocked = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, unlocked).decode()


def expiry_step(
    not_before: datetime.datetime, not_after: datetime.datetime, now: datetime.datetime, *, most: int = EXPIRY_STEPS[0]
) -> int | None:
    """Return the smallest of EXPIRY_STEPS (days before the end) that a certificate has reached; 0 after its end, None
    before the first step.

    Steps above `most` are ignored, and steps longer than a third of the certificate's lifetime.
    """
    if not_after <= now:
        return 0
    third = (not_after - not_before) / 3
    reached = [days for days in EXPIRY_STEPS if not_after - now <= datetime.timedelta(days=days) and days <= most]
    return min((days for days in reached if datetime.timedelta(days=days) <= third), default=None)


def covers(names: list[str], server_name: str) -> bool:
    """Return whether a certificate for `names` covers one server name (RFC 6125 section 6.4.3). Regular expressions and
    names such as www.* count as covered.
    """
    server_name = server_name.strip("[]")  # an IPv6 address has no brackets in a certificate
    if server_name.startswith("~") or server_name.endswith(".*"):
        return True
    if server_name.startswith("."):
        return covers(names, server_name[1:]) and covers(names, "*" + server_name)
    if server_name in names:
        return True
    rest = server_name.partition(".")[2]
    return bool(rest) and not server_name.startswith("*.") and f"*.{rest}" in names


def certificate_end(text: str) -> datetime.datetime | None:
    """Return the end of the certificate if `text`, the content of a file, is a PEM certificate; None for other
    files.
    """
    if not text.startswith("-----BEGIN CERTIFICATE-----"):
        return None
    try:
        return x509.load_pem_x509_certificates(text.encode())[0].not_valid_after_utc
    except ValueError:
        return None
