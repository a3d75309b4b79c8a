"""Services for certificates: upload, create, issue, refer to a host's file, replace, export, delete."""

from __future__ import annotations

from dataclasses import asdict

from django.db import transaction
from django.db.models import ProtectedError
from django.utils import timezone

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record
from panel.core.errors import ApplicationError
from panel.hosts.models import Host
from panel.websites import certificates, validators
from panel.websites.models import Certificate, CertificateSource
from panel.websites.services.base import at, described, fresh, remove, store
from panel.websites.versions import certificate_count, plans_outdate, sites_with_certificate

MIN_EXPORT_PASSWORD = 12
JUDGED_AT_ONCE = 1000


def _values(
    bundle: certificates.Bundle, source: CertificateSource, host: Host | None = None, paths: tuple[str, str] = ("", "")
) -> dict[str, object]:
    """Return {column: value} for a stored certificate.

    `host` and `paths` (certificate, key) are set only for a certificate file that stays on its host.
    """
    place = {"host": host, "certificate_path": paths[0], "key_path": paths[1]}
    return {**asdict(bundle), "source": source, "revoked_at": None, **place}


def _create(
    actor: User, certificate: Certificate, bundle: certificates.Bundle, source: CertificateSource, action: str
) -> Certificate:
    values = _values(bundle, source)
    store(actor=actor, team=certificate.team, instance=certificate, action=action, values=values)
    return certificate


def certificate_upload(
    *, actor: User, team: Team, name: str, certificate_pem: str, private_key_pem: str
) -> Certificate:
    """Store an uploaded certificate with its chain and key, after checking that they match and have not expired."""
    bundle = certificates.bundle_read(certificate_pem, private_key_pem, now=timezone.now())
    row = Certificate(team=team, name=name)
    return _create(actor, row, bundle, CertificateSource.UPLOADED, "certificate.upload")


def certificate_replace(
    *,
    actor: User,
    certificate: Certificate,
    certificate_pem: str,
    private_key_pem: str,
    expected_version: int | None = None,
) -> Certificate:
    """Replace a certificate under the same name. Sites use the new certificate from their next deployment on."""
    bundle = certificates.bundle_read(certificate_pem, private_key_pem, now=timezone.now())
    store(
        actor=actor,
        team=certificate.team,
        instance=certificate,
        action="certificate.replace",
        values=_values(bundle, CertificateSource.UPLOADED),
        expected_version=expected_version,
        children=lambda: certificate_count(certificate),
    )
    return certificate


def certificate_export(*, actor: User, certificate: Certificate, password: str) -> bytes:
    """Return the certificate with its private key as PKCS #12, encrypted with `password`; write an audit row."""
    require(actor, Action.CHANGE, certificate.team)
    if not certificate.private_key_pem:
        words = f"The private key of {certificate} is only on {certificate.host}. Copy the key on that host."
        raise ApplicationError(words)
    if len(password) < MIN_EXPORT_PASSWORD:
        message = f"Enter a password of at least {MIN_EXPORT_PASSWORD} characters. The password protects the key."
        raise ApplicationError(message, field="password")
    made = certificates.pkcs12(certificate.certificate_pem, certificate.private_key_pem, certificate.name, password)
    audit_record(actor=actor, action="certificate.export", target=certificate)
    return made


def certificate_refer(
    *, actor: User, team: Team, name: str, host: Host, paths: tuple[str, str], certificate_pem: str
) -> Certificate:
    """Store a reference to a certificate and its key, `paths` on a host, where another program renews them.
    Administrators only.
    """
    require(actor, Action.ADMINISTER)
    values = _values(certificates.public_read(certificate_pem), CertificateSource.HOST, host, paths)
    row = Certificate(team=team, name=name)
    store(actor=actor, team=team, instance=row, action="certificate.refer", values=values)
    return row


@transaction.atomic
def certificate_observed(certificate: Certificate, certificate_pem: str) -> bool:
    """Store the current content of a certificate file on a host; return whether the certificate was renewed.

    Existing plans do not become outdated.
    """
    bundle = certificates.public_read(certificate_pem)
    if bundle.fingerprint == certificate.fingerprint:
        return False
    before = described(fresh(certificate))
    for field, value in asdict(bundle).items():
        setattr(certificate, field, value)
    certificate.save(update_fields=[*asdict(bundle), "updated_at"])
    audit_record(
        actor=None, action="certificate.observe", target=certificate, before=before, after=described(certificate)
    )
    return True


@transaction.atomic
def certificate_revoked(*, actor: User, certificate: Certificate, reason: str) -> None:
    """Record that the certificate authority revoked the certificate."""
    require(actor, Action.CHANGE, certificate.team)
    Certificate.objects.filter(pk=certificate.pk).update(revoked_at=timezone.now())
    certificate.refresh_from_db()
    audit_record(actor=actor, action="certificate.revoke", target=certificate, after={"reason": reason})


@transaction.atomic
def certificate_issue(
    *, actor: User | None, team: Team, name: str, certificate: Certificate | None, chain: str, key: str
) -> Certificate:
    """Store a certificate that a certificate authority issued: a new one, or the renewal of `certificate`.
    `actor` is None for a renewal: permission was checked when automatic HTTPS was enabled.
    """
    bundle = certificates.bundle_read(chain, key, now=timezone.now())
    row = certificate or Certificate(team=team, name=name)
    before = described(fresh(row)) if row.pk else None
    for field, value in _values(bundle, CertificateSource.ACME).items():
        setattr(row, field, value)
    row.full_clean()
    row.save()
    plans_outdate(set(sites_with_certificate(row).values_list("pk", flat=True)))
    audit_record(actor=actor, action="certificate.issue", target=row, before=before, after=described(row))
    return row


def certificate_self_sign(*, actor: User, team: Team, name: str, names: list[str], days: int = 397) -> Certificate:
    """Create a self-signed certificate for `names` (domain names, `*.` wildcards, IP addresses), valid for
    `days` days.
    """
    if not names:
        raise ApplicationError("Enter at least one domain name for the certificate.", field="names")
    if not 1 <= days <= 3650:
        raise ApplicationError("Enter a validity of 1 to 3650 days.", field="days")
    good = []
    for position, item in enumerate(names):
        with at(f"names/{position}"):
            good.append(_certificate_name(item))
    bundle = certificates.self_signed(good, now=timezone.now(), days=days)
    row = Certificate(team=team, name=name)
    return _create(actor, row, bundle, CertificateSource.SELF_SIGNED, "certificate.self_sign")


def _certificate_name(name: str) -> str:
    if ":" in name:
        validators.validate_listen_address(name)
        return name
    prefix = "*." if name.startswith("*.") else ""
    return prefix + validators.domain_normalized(name.removeprefix("*."))


def certificates_judge() -> None:
    """Store the faults of certificates that older versions of the panel stored without checking for faults.

    A call handles at most JUDGED_AT_ONCE certificates.
    """
    for row in Certificate.objects.filter(faults__isnull=True).only("pk", "certificate_pem")[:JUDGED_AT_ONCE]:
        found = certificates.public_read(row.certificate_pem).faults
        Certificate.objects.filter(pk=row.pk).update(faults=found)


@transaction.atomic
def certificate_delete(*, actor: User, certificate: Certificate, expected_version: int | None = None) -> None:
    try:
        remove(
            actor=actor,
            team=certificate.team,
            instance=certificate,
            action="certificate.delete",
            expected_version=expected_version,
        )
    except ProtectedError as error:
        users = ", ".join(sorted(str(item) for item in error.protected_objects))
        raise ApplicationError(
            f"{certificate} is used by {users}. Choose another certificate there first.",
            code="in_use",
        ) from error
