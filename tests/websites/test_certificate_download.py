"""A certificate is downloaded with its chain, and with its key only by somebody who confirmed the password."""

from __future__ import annotations

import base64
import json
import time

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
from django.test import Client

from panel.api.models import IdempotencyRecord
from panel.audit.models import AuditEntry
from panel.websites import services
from panel.websites.models import Certificate, CertificateSource
from tests.support.cast import Cast, signed_in

PASSWORD = "a long enough password"
PAGE = "/sites/+certificates/shop-cert/"
API = "/api/v1/certificates/shop-cert/pkcs12/"


@pytest.fixture
def certificate(people: Cast) -> Certificate:
    return services.certificate_self_sign(
        actor=people.owner, team=people.team, name="shop-cert", names=["shop.example"]
    )


def confirmed(person: Client) -> Client:
    kept = person.session
    kept["sudo_at"] = int(time.time())
    kept.save()
    return person


def unconfirmed(person: Client) -> Client:
    kept = person.session
    kept["sudo_at"] = 0
    kept.save()
    return person


def test_every_member_downloads_the_certificate_without_key(people: Cast, certificate: Certificate) -> None:
    answer = signed_in(people.viewer).get(f"{PAGE}pem/")
    assert answer["Content-Disposition"] == 'attachment; filename="shop-cert.pem"'
    assert answer.content.decode() == certificate.certificate_pem and b"PRIVATE" not in answer.content
    assert signed_in(people.outsider).get(f"{PAGE}pem/").status_code == 404


def test_key_is_downloaded_as_encrypted_file_and_audited(people: Cast, certificate: Certificate) -> None:
    person = confirmed(signed_in(people.owner))
    answer = person.post(f"{PAGE}pkcs12/", {"password": PASSWORD})
    assert answer["Content-Type"] == "application/x-pkcs12" and answer["Cache-Control"].startswith("no-store")
    found = load_pkcs12(answer.content, PASSWORD.encode())
    assert found.cert is not None and found.key is not None
    assert found.cert.certificate.fingerprint(hashes.SHA256()).hex() == certificate.fingerprint
    with pytest.raises(ValueError, match="password"):
        load_pkcs12(answer.content, b"another password")
    entry = AuditEntry.objects.get(action="certificate.export")
    assert entry.actor == people.owner and "PRIVATE" not in json.dumps([entry.before, entry.after])


def test_key_needs_a_confirmed_password_and_the_right_to_change(people: Cast, certificate: Certificate) -> None:
    answer = unconfirmed(signed_in(people.owner)).post(f"{PAGE}pkcs12/", {"password": PASSWORD})
    assert answer.status_code == 302 and "/confirm/" in answer["Location"]
    assert confirmed(signed_in(people.viewer)).post(f"{PAGE}pkcs12/", {"password": PASSWORD}).status_code == 403
    assert confirmed(signed_in(people.outsider)).post(f"{PAGE}pkcs12/", {"password": PASSWORD}).status_code == 404
    assert not AuditEntry.objects.filter(action="certificate.export").exists()


def test_short_password_is_refused(people: Cast, certificate: Certificate) -> None:
    answer = confirmed(signed_in(people.owner)).post(f"{PAGE}pkcs12/", {"password": "short"})
    assert answer.status_code == 422 and "at least 12 characters" in answer.content.decode()


def test_key_of_a_host_is_not_offered(people: Cast, certificate: Certificate) -> None:
    Certificate.objects.update(source=CertificateSource.HOST, host=people.host, private_key_pem="")
    person = confirmed(signed_in(people.owner))
    assert "Download with key" not in person.get(PAGE).content.decode()
    answer = person.post(f"{PAGE}pkcs12/", {"password": PASSWORD})
    assert answer.status_code == 422 and f"is only on {people.host.name}" in answer.content.decode()


def test_api_exports_for_confirmed_sessions_alone(people: Cast, certificate: Certificate) -> None:
    body = json.dumps({"password": PASSWORD})
    refused = unconfirmed(signed_in(people.owner)).post(API, body, content_type="application/json")
    assert refused.status_code == 403
    told = confirmed(signed_in(people.owner)).post(API, body, content_type="application/json").json()
    assert load_pkcs12(base64.b64decode(told["pkcs12"]), PASSWORD.encode()).key is not None


def test_repeated_call_returns_no_key_and_the_panel_keeps_no_file(people: Cast, certificate: Certificate) -> None:
    """An Idempotency-Key stores the response; a repetition needs no confirmed password."""
    body = json.dumps({"password": PASSWORD})
    person = confirmed(signed_in(people.owner))
    once = {"Idempotency-Key": "export-1"}
    first = person.post(API, body, content_type="application/json", headers=once).json()["pkcs12"]
    assert first[:200] not in json.dumps(list(IdempotencyRecord.objects.values_list("body", flat=True)), default=str)
    again = unconfirmed(person).post(API, body, content_type="application/json", headers=once)
    assert first not in again.content.decode()
