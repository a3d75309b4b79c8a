"""The life of a certificate and of its account: revocation, new keys, CAA, next actions, and keys that stay secret."""

from __future__ import annotations

import datetime as dt
import logging
from pathlib import Path

import pytest
from cryptography import x509
from django.apps import apps
from django.db import models
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from panel.alerts.selectors import alerts
from panel.audit.models import AuditEntry
from panel.certificates import services
from panel.certificates.acme_client import AcmeProblem, Authority, Binding, Endpoint
from panel.certificates.dns.caa import CaaRecord, forbidden, refusal
from panel.certificates.models import AcmeAccount, Order
from panel.core.errors import ApplicationError, Conflict
from panel.deployments.models import Deployment
from panel.websites import certificates
from panel.websites import services as websites
from panel.websites.models import Certificate
from tests.certificates.conftest import World
from tests.certificates.test_orders import trusted
from tests.support.dns_servers import ZONE, Knot
from tests.support.ports import free_port


@pytest.fixture
def live(world: World) -> World:
    """A site with an automatic certificate in use."""
    order = world.run(world.enable(world.site(), world.authority()))
    assert order.status == "succeeded", [row.text for row in order.records.all()]
    return world


# --- revocation ---


def test_revoked_certificate_is_shown_and_replaced_at_once(live: World, client: Client) -> None:
    before = Certificate.objects.get()
    client.force_login(live.people.owner)
    page = client.post("/certificates/sites/shop/revoke", {"reason": "key_compromise", "order_new": "on"})
    assert page.status_code == 302, page.content.decode()
    assert live.pebble is not None
    serial = f"{x509.load_pem_x509_certificate(before.certificate_pem.encode()).serial_number:x}"
    status = live.pebble.managed(f"/cert-status-by-serial/{serial}").decode()
    assert '"Status":"Revoked"' in status.replace(" ", ""), status
    assert Certificate.objects.get().revoked_at is not None
    assert any(row.label == "Revoked" for row in alerts(live.people.owner))
    assert AuditEntry.objects.filter(action="certificate.revoke").exists()
    with pytest.raises(Conflict, match="is already revoked"):
        services.certificate_revoke(actor=live.people.owner, site=before.automatic.site, reason="unspecified")
    live.turn()
    after = Certificate.objects.get()
    assert after.revoked_at is None and after.fingerprint != before.fingerprint
    assert after.private_key_pem != before.private_key_pem and trusted(live)


def test_other_team_cannot_revoke(live: World, client: Client) -> None:
    client.force_login(live.people.outsider)
    assert client.post("/certificates/sites/shop/revoke", {"reason": "unspecified"}).status_code == 404
    client.force_login(live.people.viewer)
    assert client.post("/certificates/sites/shop/revoke", {"reason": "unspecified"}).status_code == 403
    assert Certificate.objects.get().revoked_at is None


# --- accounts ---


def test_account_key_is_changed_and_orders_go_on_with_the_new_one(live: World, client: Client) -> None:
    account = AcmeAccount.objects.get()
    old = account.key_pem
    client.force_login(live.people.owner)
    assert client.post(f"/certificates/accounts/{account.name}/change-key").status_code == 302
    account.refresh_from_db()
    assert account.key_pem != old and account.next_key_pem == ""
    order = services.certificate_order(actor=live.people.owner, site=Certificate.objects.get().automatic.site)
    live.turn()
    order.refresh_from_db()
    assert order.status == "succeeded", [row.text for row in order.records.all()]


def test_key_change_whose_response_was_lost_is_finished_by_the_next_attempt(
    live: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, real = AcmeAccount.objects.get(), Authority.change_key
    old = account.key_pem

    def loses_the_response(authority: Authority, key_pem: str) -> None:
        real(authority, key_pem)
        raise AcmeProblem("no response", is_unreachable=True)

    monkeypatch.setattr(Authority, "change_key", loses_the_response)
    with pytest.raises(ApplicationError, match="no response"):
        services.account_key_change(actor=live.people.owner, account=account)
    account.refresh_from_db()
    assert account.key_pem == old and account.next_key_pem
    monkeypatch.undo()
    changed = services.account_key_change(actor=live.people.owner, account=account)
    assert changed.key_pem != old and changed.next_key_pem == ""
    services.account_key_change(actor=live.people.owner, account=changed)


def test_account_is_deactivated_from_its_page(world: World, client: Client) -> None:
    account = world.authority()
    order = world.run(world.enable(world.site(), account))
    services.automatic_disable(actor=world.people.owner, site=order.automatic.site)
    client.force_login(world.people.owner)
    page = client.get(f"/certificates/accounts/{account.name}/deactivate")
    assert "cannot be activated again" in page.content.decode()
    client.post(f"/certificates/accounts/{account.name}/deactivate", {"confirm": account.name})
    account.refresh_from_db()
    assert account.status == "deactivated"


# --- CAA ---


@pytest.mark.parametrize(
    ("name", "records", "is_refused"),
    [
        ("shop.example", [], False),
        ("shop.example", [("issue", "letsencrypt.org")], False),
        ("shop.example", [("issue", "digicert.com; policy=ev")], True),
        ("shop.example", [("issue", "digicert.com"), ("issue", "letsencrypt.org; validationmethods=dns-01")], False),
        ("shop.example", [("issue", ";")], True),
        ("shop.example", [("issuewild", ";")], False),
        ("*.shop.example", [("issue", "letsencrypt.org"), ("issuewild", ";")], True),
        ("*.shop.example", [("issue", "letsencrypt.org")], False),
        ("shop.example", [("iodef", "mailto:a@shop.example")], False),
    ],
)
def test_caa_records_that_forbid_an_authority(name: str, records: list[tuple[str, str]], is_refused: bool) -> None:
    words = refusal(name, "shop.example", [CaaRecord(*row) for row in records], ["letsencrypt.org"])
    assert bool(words) == is_refused
    assert not is_refused or "Add letsencrypt.org to the CAA record" in words


def test_caa_record_of_a_parent_counts(server_root: Path, settings: Settings) -> None:
    server = Knot(server_root, free_port())
    zone = server.root / f"{ZONE}.zone"
    records = f'{ZONE}. 5 CAA 0 issue "digicert.com"\nfree.{ZONE}. 5 CAA 0 issue "ca.example"\n'
    zone.write_text(zone.read_text() + records)
    settings.DNS_RESOLVERS = [f"{server.address}:{server.port}"]
    with server:
        (words,) = forbidden(["www.shop.example"], ["ca.example"])
        assert "The CAA record of example allows only digicert.com" in words
        assert forbidden(["www.free.example"], ["ca.example"]) == []
        assert forbidden(["www.shop.example"], []) == []


# --- what is next ---


def test_calendar_lists_renewals_and_ends_of_used_certificates(live: World, client: Client) -> None:
    people = live.people
    for name, days in (("used", 40), ("unused", 41)):
        websites.certificate_self_sign(actor=people.owner, team=people.team, name=name, names=["b.example"], days=days)
    other = live.site("blog")
    listens = [{"port": live.machine.port}, {"port": free_port(), "tls": True}]
    block = other.blocks.get()
    websites.block_update(
        actor=people.owner, block=block, certificate=Certificate.objects.get(name="used"), listens=listens
    )
    client.force_login(people.owner)
    text = client.get("/certificates/calendar").content.decode()
    assert "auto-shop" in text and "Paddock orders a new certificate" in text
    assert "used" in text and "Expires; upload a renewed certificate" in text and "unused" not in text
    assert f"{timezone.now() + dt.timedelta(days=40):%Y-%m-%d}" in text
    client.force_login(people.outsider)
    assert "auto-shop" not in client.get("/certificates/calendar").content.decode()


# --- keys ---


def _texts_of_rows() -> list[str]:
    """Every stored value of every table that is not encrypted."""
    found = []
    for model in apps.get_models():
        columns = [
            field.attname
            for field in model._meta.concrete_fields
            if isinstance(field, models.CharField | models.TextField | models.JSONField)
        ]
        encrypted = {field.attname for field in model._meta.concrete_fields if "Encrypted" in type(field).__name__}
        found += [str(row) for row in model._default_manager.values_list(*(set(columns) - encrypted) or {"pk"})]
    return found


def _middle(key_pem: str) -> str:
    """A line of the key that appears nowhere else."""
    return key_pem.strip().splitlines()[1][10:50]


def test_private_keys_are_in_no_row_page_answer_log_or_repr(
    world: World, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    people = world.people
    bundle = certificates.self_signed(["shop.example"], now=timezone.now())
    client.force_login(people.owner)
    values = {"certificate_pem": bundle.certificate_pem, "private_key_pem": bundle.private_key_pem}
    client.post("/sites/+certificates/+upload/", {"team": people.team.pk, "name": "mine", **values})
    uploaded = Certificate.objects.get(name="mine")
    site = world.site()
    listens = [{"port": world.machine.port}, {"port": world.https_port, "tls": True}]
    websites.block_update(actor=people.owner, block=site.blocks.get(), certificate=uploaded, listens=listens)
    deployment = world.machine.deploy(site)
    order = world.run(world.enable(site, world.authority()))
    assert order.status == "succeeded"
    world.pebble.stop()  # type: ignore[union-attr]
    services.certificate_order(actor=people.owner, site=site)
    world.turn(1)
    account = AcmeAccount.objects.get()
    keys = [bundle.private_key_pem, Certificate.objects.get(name="auto-shop").private_key_pem, account.key_pem]
    secrets = [_middle(key) for key in keys]
    paths = [
        "/sites/+certificates/mine/",
        "/sites/+certificates/auto-shop/",
        f"/deployments/{deployment.uuid}",
        "/audit/",
    ]
    paths += ["/certificates/accounts", "/certificates/sites/shop", "/api/v1/certificates/", "/api/v1/acme-accounts/"]
    paths += ["/api/v1/automatic-https/", "/api/v1/deployments/", "/api/v1/revisions/", "/api/v1/audit/"]
    paths += [f"/api/v1/deployments/{row.uuid}/steps/" for row in Deployment.objects.all()]
    pages = []
    for path in paths:
        answer = client.get(path)
        assert answer.status_code == 200, path
        pages.append(answer.content.decode())
    shown = [
        repr(bundle),
        repr(Endpoint("https://ca.example", account.key_pem)),
        repr(Binding("id", account.key_pem)),
        caplog.text,
        *_texts_of_rows(),
        *pages,
    ]
    assert len(shown) > 200
    for secret in secrets:
        assert not [text[:200] for text in shown if secret in text]


def test_failed_order_keeps_no_key(live: World) -> None:
    site = Certificate.objects.get().automatic.site
    order = services.certificate_order(actor=live.people.owner, site=site)
    live.machine.site("other", live.web_server)
    Order.objects.filter(pk=order.pk).update(names=["not a name"])
    live.turn(3)
    order.refresh_from_db()
    assert order.status == "failed", [row.text for row in order.records.all()]
    assert (order.key_pem, order.previous_key_pem) == ("", "")
