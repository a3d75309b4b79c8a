"""A certificate that a site uses is named before it expires, once for each step."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest
from django.conf import LazySettings
from django.utils import timezone

from panel.alerts.selectors import alerts
from panel.alerts.services import alerts_send
from panel.certificates.models import AcmeAccount, AutomaticCertificate
from panel.deployments.models import Revision, SiteState
from panel.deployments.planning.services import deployment_plan
from panel.websites import certificates
from panel.websites import services as websites
from panel.websites.models import Certificate, CertificateSource, ServerBlock, Site
from tests.alerts.test_mails import subjects, wants
from tests.deployments.sample_plans import shop
from tests.support.cast import Cast, cast
from tests.support.client_certificates import DAY, Authority
from tests.support.mailbox import Mailbox, mail_server


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


@pytest.fixture
def mailbox(settings: LazySettings) -> Iterator[Mailbox]:
    with mail_server(settings) as box:
        yield box


@pytest.fixture
def certificate(people: Cast) -> Certificate:
    """Used by the site shop."""
    made = websites.certificate_self_sign(
        actor=people.owner, team=people.team, name="shop-cert", names=["shop.example"]
    )
    ServerBlock.objects.filter(site=shop(people)).update(certificate=made)
    return made


def ends_in(certificate: Certificate, days: float, lifetime: float = 90) -> None:
    now = timezone.now()
    end = now + dt.timedelta(days=days)
    Certificate.objects.filter(pk=certificate.pk).update(not_after=end, not_before=end - dt.timedelta(days=lifetime))


def told_at(mailbox: Mailbox, certificate: Certificate, days: float, lifetime: float = 90) -> list[str]:
    """Subjects of the mails that arrive when the certificate has this many days left."""
    before = len(mailbox.messages)
    ends_in(certificate, days, lifetime)
    for _ in range(2):
        alerts_send()
    return [subject.partition(": ")[2] for subject in subjects(mailbox)[before:]]


def test_each_step_before_the_end_is_mailed_once(people: Cast, mailbox: Mailbox, certificate: Certificate) -> None:
    wants(people.owner)
    alerts_send()
    assert told_at(mailbox, certificate, 31) == []
    assert told_at(mailbox, certificate, 29.5) == ["Expires within 30 days"]
    assert told_at(mailbox, certificate, 20) == []
    assert told_at(mailbox, certificate, 13) == ["Expires within 14 days"]
    assert told_at(mailbox, certificate, 6.5) == ["Expires within 7 days"]
    assert told_at(mailbox, certificate, 2.5) == ["Expires within 3 days"]
    assert told_at(mailbox, certificate, 0.5) == ["Expires within a day"]
    assert told_at(mailbox, certificate, -0.1) == ["Expired"]
    assert told_at(mailbox, certificate, 80) == ["Certificate shop-cert: Expired"], "resolved"


def test_steps_longer_than_a_third_of_the_lifetime_are_left_out(
    people: Cast, mailbox: Mailbox, certificate: Certificate
) -> None:
    wants(people.owner)
    assert told_at(mailbox, certificate, 5.9, lifetime=6) == []
    assert told_at(mailbox, certificate, 2.5, lifetime=6) == []
    assert told_at(mailbox, certificate, 0.9, lifetime=6) == ["Expires within a day"]


def test_certificate_that_no_site_uses_is_not_mailed(people: Cast, mailbox: Mailbox, certificate: Certificate) -> None:
    wants(people.owner)
    ServerBlock.objects.update(certificate=None)
    assert told_at(mailbox, certificate, 0.5) == []


def test_file_of_a_host_has_two_weeks_to_be_renewed_there(
    people: Cast, mailbox: Mailbox, certificate: Certificate
) -> None:
    wants(people.owner)
    Certificate.objects.update(source=CertificateSource.HOST, host=people.host, certificate_path="/a", key_path="/b")
    assert told_at(mailbox, certificate, 29) == []
    assert told_at(mailbox, certificate, 13) == ["Expires within 14 days"]


def test_automatic_certificate_is_named_when_its_renewal_is_overdue(
    people: Cast, mailbox: Mailbox, certificate: Certificate
) -> None:
    wants(people.owner)
    account = AcmeAccount.objects.create(team=people.team, name="le", issuer="letsencrypt")
    row = AutomaticCertificate.objects.create(
        site=Site.objects.get(name="shop"),
        account=account,
        certificate=certificate,
        next_at=timezone.now() + dt.timedelta(days=1),
    )
    assert told_at(mailbox, certificate, 13) == []
    AutomaticCertificate.objects.filter(pk=row.pk).update(next_at=timezone.now() - dt.timedelta(days=1))
    assert told_at(mailbox, certificate, 13) == ["Expires within 14 days"]


def test_replaced_certificate_that_is_not_deployed_is_still_named(people: Cast, certificate: Certificate) -> None:
    site = Site.objects.get(name="shop")
    listens = [{"port": 80}, {"port": 443, "tls": True}]
    websites.block_update(actor=people.owner, block=site.blocks.get(), listens=listens)
    short = certificates.self_signed(["shop.example"], now=timezone.now(), days=5)
    replace = {"certificate_pem": short.certificate_pem, "private_key_pem": short.private_key_pem}
    websites.certificate_replace(actor=people.owner, certificate=certificate, **replace)
    (plan,) = deployment_plan(actor=people.owner, sites=[site])
    revision = plan.items.get().revision
    assert revision is not None and revision.certificate_ends_at == short.not_after
    SiteState.objects.update_or_create(site=site, defaults={"status": "live", "revision": revision})
    long = certificates.self_signed(["shop.example"], now=timezone.now(), days=300)
    replace = {"certificate_pem": long.certificate_pem, "private_key_pem": long.private_key_pem}
    websites.certificate_replace(actor=people.owner, certificate=certificate, **replace)
    (alert,) = [row for row in alerts(people.owner) if row.status == "expiring"]
    assert (alert.subject, alert.title) == ("site", "shop") and "still get the earlier certificate" in str(alert.detail)
    assert not [row for row in alerts(people.outsider) if row.status == "expiring"]
    (plan,) = deployment_plan(actor=people.owner, sites=[site])
    SiteState.objects.update(revision=plan.items.get().revision)
    assert not [row for row in alerts(people.owner) if row.status == "expiring"]


@pytest.mark.parametrize(
    ("days", "label", "status"),
    [(4, "", ""), (2, "Revocation list expires", "expiring"), (-1, "Revocation list expired", "expired")],
)
def test_end_of_a_live_revocation_list_is_named_before(people: Cast, days: int, label: str, status: str) -> None:
    site, clients = shop(people), Authority("clients")
    made = websites.certificate_self_sign(actor=people.owner, team=people.team, name="cert", names=["shop.example"])
    listens = [{"port": 443, "tls": True}]
    checks = {"client_verify": "required", "client_ca": clients.pem, "client_crl": clients.crl(ends=5 * DAY)}
    websites.block_update(actor=people.owner, block=site.blocks.get(), listens=listens, certificate=made, **checks)
    (plan,) = deployment_plan(actor=people.owner, sites=[site])
    revision = plan.items.get().revision
    assert revision is not None and revision.revocations_end_at is not None
    ends_in_s = (revision.revocations_end_at - timezone.now()).total_seconds()
    assert abs(ends_in_s - 5 * DAY.total_seconds()) < 60
    SiteState.objects.update_or_create(site=site, defaults={"status": "live", "revision": revision})
    Revision.objects.update(revocations_end_at=timezone.now() + days * DAY)
    found = [
        (row.status, row.label) for row in alerts(people.owner) if row.title == "shop" and "evocation" in row.label
    ]
    assert found == ([(status, label)] if label else [])
    assert not [row for row in alerts(people.outsider) if "evocation" in str(row.label)]
