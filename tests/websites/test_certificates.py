"""Uploaded certificates are checked; generated certificates are valid."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from panel.audit.models import AuditEntry
from panel.core.errors import ApplicationError
from panel.websites import certificates, services
from panel.websites.models import Certificate
from tests.support.cast import Cast

NOW = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)


def issued(name: str, key: ec.EllipticCurvePrivateKey, issuer: str, by: ec.EllipticCurvePrivateKey, days: int) -> str:
    common = x509.NameAttribute
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([common(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([common(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - datetime.timedelta(days=400))
        .not_valid_after(NOW + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(by, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, password: bytes | None = None) -> str:
    encryption: serialization.KeySerializationEncryption = (
        serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    )
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()


KEY, CA = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
LEAF = issued("shop.example", KEY, "ca", CA, 90)
ROOT = issued("ca", CA, "ca", CA, 900)


def test_certificate_leaf_chain_and_key_are_read() -> None:
    bundle = certificates.bundle_read(LEAF + ROOT, pem(KEY), now=NOW)
    assert bundle.names == ["shop.example"]
    assert bundle.issuer == "CN=ca"
    assert bundle.not_after == NOW + datetime.timedelta(days=90)
    assert bundle.certificate_pem.count("BEGIN CERTIFICATE") == 2


@pytest.mark.parametrize(
    ("certificate", "key", "field", "words"),
    [
        (LEAF, pem(CA), "private_key_pem", "does not match the first certificate"),
        (ROOT + LEAF, pem(KEY), "private_key_pem", "own certificate before its chain"),
        (LEAF + LEAF, pem(KEY), "certificate_pem", "wrong order"),
        (issued("x.example", KEY, "ca", CA, -1), pem(KEY), "certificate_pem", "expired on 2026-05-31"),
        ("hello", pem(KEY), "certificate_pem", "not a PEM certificate"),
        (LEAF + pem(KEY), pem(KEY), "certificate_pem", "contains a private key"),
        (LEAF, "hello", "private_key_pem", "not a PEM private key"),
        (LEAF, pem(KEY, b"locked"), "private_key_pem", "passphrase"),
        (LEAF, pem(rsa.generate_private_key(65537, 1024)), "private_key_pem", "1024 bits"),
    ],
)
def test_mismatched_certificate_and_key_are_rejected_with_message(
    certificate: str, key: str, field: str, words: str
) -> None:
    with pytest.raises(ApplicationError, match=words) as caught:
        certificates.bundle_read(certificate, key, now=NOW)
    assert caught.value.field == field


def test_self_signed_certificate_covers_its_names_and_hides_key(people: Cast) -> None:
    row = services.certificate_self_sign(
        actor=people.owner, team=people.team, name="mine", names=["Shop.Example", "*.shop.example", "192.0.2.7", "::1"]
    )
    stored = Certificate.objects.get()
    assert stored.names == ["shop.example", "*.shop.example", "192.0.2.7", "::1"]
    again = certificates.bundle_read(row.certificate_pem, row.private_key_pem, now=row.not_before)
    assert again.fingerprint == stored.fingerprint
    entry = AuditEntry.objects.get()
    assert "PRIVATE KEY" not in str(entry.after)
    assert entry.after is not None
    assert entry.after["private_key_pem"] == "(secret)"


@pytest.mark.parametrize(
    ("names", "server_name", "good"),
    [
        (["a.example"], "a.example", True),
        (["a.example"], "b.example", False),
        (["*.a.example"], "x.a.example", True),
        (["*.a.example"], "a.example", False),
        (["*.a.example"], "*.a.example", True),
        (["*.a.example"], ".a.example", False),
        (["a.example", "*.a.example"], ".a.example", True),
        ([], "~x", True),
    ],
)
def test_certificate_covers_expected_names(names: list[str], server_name: str, good: bool) -> None:
    assert certificates.covers(names, server_name) is good
