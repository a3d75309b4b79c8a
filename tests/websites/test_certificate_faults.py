"""Faults of certificates that browsers refuse although they are valid."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID, NameOID
from django.urls import reverse
from django.utils import timezone

from panel.alerts.certificates import fault_alerts
from panel.websites import services
from panel.websites.certificate_faults import _public_roots, faults_of
from panel.websites.models import Certificate
from panel.websites.services.certificates import certificates_judge
from tests.api.caller import caller_of
from tests.support.cast import Cast, cast, signed_in

NOW = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
AIA = x509.AuthorityInformationAccess(
    [
        x509.AccessDescription(
            AuthorityInformationAccessOID.CA_ISSUERS, x509.UniformResourceIdentifier("http://ca.example/ca.der")
        )
    ]
)
# The structure of RFC 6962, section 3.3, without a list of timestamps: only its presence is looked at.
SCT = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2"), b"\x04\x02\x00\x00")


def named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Authority:
    """An authority that signs what it is asked to sign."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = self._builder(named("Root"), self.key.public_key(), dt.timedelta(days=3650))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(usage, critical=True)
        own = x509.SubjectKeyIdentifier.from_public_key(self.key.public_key())
        self.root = builder.add_extension(own, critical=False).sign(self.key, hashes.SHA256())

    def _builder(self, subject: x509.Name, key: Any, lifetime: dt.timedelta) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(named("Root")).public_key(key)
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(NOW).not_valid_after(NOW + lifetime)

    def issue(
        self,
        *extensions: x509.ExtensionType,
        days: int = 90,
        key: Any = None,
        digest: Any = hashes.SHA256,
        has_names: bool = True,
    ) -> x509.Certificate:
        key = key or ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(named("shop.example"), key.public_key(), dt.timedelta(days=days))
        if has_names:
            names = x509.SubjectAlternativeName([x509.DNSName("shop.example")])
            builder = builder.add_extension(names, critical=False)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        builder = builder.add_extension(usage, critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(self.key, digest())


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def test_certificate_of_a_private_authority_has_no_faults(authority: Authority) -> None:
    assert faults_of([authority.issue()]) == []
    assert faults_of([authority.issue(days=3000), authority.root]) == []


def test_self_signed_certificate_has_no_faults(authority: Authority) -> None:
    assert faults_of([authority.root]) == []


def test_public_certificate_needs_transparency_and_a_short_life(authority: Authority) -> None:
    roots = [authority.root]
    assert faults_of([authority.issue()], roots) == ["no_sct"]
    assert faults_of([authority.issue(days=399)], roots) == ["too_long", "no_sct"]
    assert faults_of([authority.issue(SCT, days=398)], roots) == []


def test_small_keys_missing_names_and_missing_issuers_are_found(authority: Authority) -> None:
    small = rsa.generate_private_key(65537, 1024)
    assert faults_of([authority.issue(key=small)]) == ["weak_key"]
    assert faults_of([authority.issue(has_names=False)]) == ["no_names"]
    assert faults_of([authority.issue(AIA)]) == ["no_issuer"]
    assert faults_of([authority.issue(AIA), authority.root]) == []
    assert faults_of([authority.issue(AIA, SCT)], [authority.root]) == []  # its issuer is known to every browser


def test_public_authorities_are_known() -> None:
    assert len(_public_roots()) > 50


def test_faults_are_shown_and_alerted_and_found_for_older_rows(db: None, authority: Authority) -> None:
    people: Cast = cast()
    key = ec.generate_private_key(ec.SECP256R1())
    pem = authority.issue(AIA, key=key).public_bytes(Encoding.PEM).decode()
    row = Certificate.objects.create(
        name="shop",
        team=people.team,
        source="uploaded",
        certificate_pem=pem,
        names=["shop.example"],
        issuer="CN=Root",
        fingerprint="0" * 64,
        not_before=NOW,
        not_after=timezone.now() + dt.timedelta(days=60),
    )
    values = {"team": people.team, "name": "shop", "domains": ["shop.example"], "web_server": people.nginx}
    site = services.site_create(actor=people.admin, root="/srv/www/shop", **values)
    listens = [{"port": 443, "tls": True}]
    services.block_update(actor=people.admin, block=site.blocks.get(), listens=listens, certificate=row)
    assert fault_alerts(people.owner, 6) == []
    certificates_judge()
    words = "The certificate of the issuer is missing from the chain, so some clients cannot verify the chain."
    assert [alert.detail for alert in fault_alerts(people.owner, 6)] == [words]
    assert fault_alerts(people.outsider, 6) == []
    row_page = reverse("websites:certificate", args=["shop"])
    assert words in signed_in(people.owner).get(row_page).content.decode()
    assert json.loads(caller_of(people.owner).get("certificates/").content)["results"][0]["faults"] == [words]
