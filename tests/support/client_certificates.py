"""A small authority for certificates of clients and servers: intermediates, expired and revoked certificates, and
revocation lists.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = dt.timedelta(days=1)


def _name(common: str) -> x509.Name:
    organization = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example, Inc.")
    return x509.Name([organization, x509.NameAttribute(NameOID.COMMON_NAME, common)])


@dataclass
class Authority:
    """Signs with its own key; `chain` holds its intermediate certificates in PEM, nearest first."""

    common: str
    parent: Authority | None = None
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    certificate: x509.Certificate = field(init=False)
    revoked: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        signer = self.parent or self
        issuer = self.parent.certificate.subject if self.parent else _name(self.common)
        self.certificate = _signed(_name(self.common), issuer, self.key, signer.key, is_authority=True, ends=300 * DAY)

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def chain(self) -> str:
        return self.pem + self.parent.chain if self.parent else ""

    def client(self, path: Path, common: str, *, ends: dt.timedelta = 30 * DAY) -> Client:
        """A client's certificate with its chain and key in one file."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = _signed(_name(common), self.certificate.subject, key, self.key, is_authority=False, ends=ends)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM) + self.chain.encode())
        return Client(path, made)

    def server(self, name: str) -> tuple[str, str]:
        """A server's certificate with its chain, and the key, in PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = self.certificate.subject
        made = _signed(_name(name), subject, key, self.key, is_authority=False, ends=30 * DAY, names=[name])
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return made.public_bytes(serialization.Encoding.PEM).decode() + self.chain, private.decode()

    def crl(self, *, ends: dt.timedelta = 10 * DAY, has_extensions: bool = True) -> str:
        """Revocation list in PEM; one without extensions is valid for OpenSSL, but not by RFC 5280, 5.2."""
        now = dt.datetime.now(dt.UTC)
        builder = x509.CertificateRevocationListBuilder().issuer_name(self.certificate.subject)
        builder = builder.last_update(now - 30 * DAY).next_update(now + ends)
        for serial in self.revoked:
            entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now - DAY).build()
            builder = builder.add_revoked_certificate(entry)
        if has_extensions:
            builder = builder.add_extension(x509.CRLNumber(7), critical=False)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


@dataclass(frozen=True)
class Client:
    path: Path
    certificate: x509.Certificate

    @property
    def serial(self) -> str:
        """As nginx and Apache print it."""
        text = f"{self.certificate.serial_number:X}"
        return text if len(text) % 2 == 0 else f"0{text}"


def _signed(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool,
    ends: dt.timedelta,
    names: Sequence[str] = (),
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - 60 * DAY).not_valid_after(now + ends)
    builder = builder.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    if names:
        alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
        builder = builder.add_extension(alternatives, critical=False)
    return builder.sign(signer, hashes.SHA256())
