"""An authority, a clock, a disk or a domain name that is not as it should be: visitors keep a valid certificate, one
alert tells why, and the next order succeeds once the cause is gone.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator

import pytest
from django.utils import timezone

from panel.alerts.certificates import order_alerts
from panel.certificates import ordering
from panel.certificates.models import AcmeAccount, AutomaticCertificate, Order
from panel.remote import pool
from panel.websites.models import Site
from tests.certificates.conftest import World
from tests.certificates.test_orders import trusted
from tests.certificates.test_renewals import due, fingerprints
from tests.support.authority_proxy import AuthorityProxy, Reply

RATE_LIMITED = {"type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many certificates"}


class Live:
    """A site with a certificate, whose authority is reached through a proxy from now on."""

    def __init__(self, world: World, proxy: AuthorityProxy) -> None:
        self.world, self.proxy = world, proxy
        self.site = Site.objects.get(name="shop")
        self.before = fingerprints()
        self.files = self.served_files()

    def renew(self, change: object = None) -> Order:
        """Begin a renewal, and carry it out as far as it goes; `change` is what the proxy does meanwhile."""
        if callable(change):
            self.proxy.change = change
        due(self.site)
        self.world.turn(3)
        return Order.objects.order_by("-pk")[0]

    def served_files(self) -> dict[str, bytes]:
        folder = self.world.machine.root / "paddock"
        return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def assert_unchanged(self, words: str, alerts: int = 1) -> None:
        """Visitors have the former certificate, its files are the same byte for byte, and there is one alert."""
        assert trusted(self.world)
        assert self.served_files() == self.files
        assert fingerprints() == self.before
        found = order_alerts(self.world.people.owner, 6)
        assert len(found) == alerts and all(words in str(alert.detail) for alert in found)

    def assert_mended(self) -> None:
        """The next order, without the cause, succeeds, and the alert ends."""
        self.proxy.change = lambda reply: None
        AcmeAccount.objects.update(paused_until=None)
        if not Order.objects.filter(status="queued").exists():
            due(self.site)
        self.world.turn()
        assert Order.objects.order_by("-pk")[0].status == "succeeded"
        assert fingerprints() != self.before and trusted(self.world)
        assert order_alerts(self.world.people.owner, 6) == []


@pytest.fixture
def live(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    monkeypatch.setattr(ordering, "ISSUE_TIMEOUT_S", 2.0)
    account = world.authority()
    assert world.pebble is not None
    with AuthorityProxy(world.pebble) as proxy:
        AcmeAccount.objects.filter(pk=account.pk).update(directory_url=proxy.directory)
        account.refresh_from_db()
        order = world.run(world.enable(world.site(), account))
        assert order.status == "succeeded", order.error
        yield Live(world, proxy)


def test_order_stuck_in_processing_is_waited_for(live: Live) -> None:
    def stuck(reply: Reply) -> None:
        if reply.path.startswith("/my-order/") and b'"certificate"' in reply.body:
            body = json.loads(reply.body) | {"status": "processing"}
            body.pop("certificate")
            reply.body = json.dumps(body).encode()

    order = live.renew(stuck)
    assert order.status == "queued" and "still issuing" in order.progress
    live.assert_unchanged("", alerts=0)
    assert Order.objects.count() == 2
    live.assert_mended()
    assert Order.objects.count() == 2  # the same order went on


@pytest.mark.parametrize("what", ["text", "cut", "other", "order"])
def test_broken_certificate_of_the_authority_is_not_deployed(live: Live, what: str) -> None:
    first = next(path for path in live.files if path.endswith(".crt"))
    former = live.files[first]

    def broken(reply: Reply) -> None:
        if not reply.path.startswith("/certZ/"):
            return
        parts = [part + b"-----END CERTIFICATE-----\n" for part in reply.body.split(b"-----END CERTIFICATE-----\n")]
        choices = {
            "text": b"<html>maintenance</html>",
            "cut": reply.body[:200],
            "other": former,  # a valid certificate of another key
            "order": b"".join(reversed(parts[:2])),
        }
        reply.body = choices[what]

    order = live.renew(broken)
    assert order.status == "failed"
    assert order.error.startswith("The certificate authority sent a certificate that Paddock cannot use:")
    live.assert_unchanged("sent a certificate that Paddock cannot use")
    live.assert_mended()


def test_rate_limit_is_waited_for_as_long_as_the_authority_says(live: Live) -> None:
    def limited(reply: Reply) -> None:
        if reply.path == "/order-plz":
            reply.status, reply.body = 429, json.dumps(RATE_LIMITED).encode()
            reply.headers |= {"Content-Type": "application/problem+json", "Retry-After": "7200"}

    order = live.renew(limited)
    soon = timezone.now() + dt.timedelta(seconds=7000)
    assert order.status == "queued" and order.records.filter(text__contains="too many certificates").exists()
    account = AcmeAccount.objects.get()
    assert account.paused_until is not None and account.paused_until > soon
    asked = live.proxy.requests["/order-plz"]
    live.world.turn(3)  # its retry time is taken away, but the account stays paused
    assert live.proxy.requests["/order-plz"] == asked
    live.assert_unchanged("", alerts=0)
    live.assert_mended()


# Responses of a proxy before the authority, by the path whose response they replace.
PROXY_PAGES = [
    ("/dir", Reply("", 503, {"Content-Type": "text/html", "Retry-After": "7200"}, b"<h1>Maintenance</h1>")),
    ("/dir", Reply("", 200, {"Content-Type": "text/html; charset=utf-8"}, b"<h1>Sign in</h1>")),
    ("/dir", Reply("", 200, {"Content-Type": "application/json"}, b"[]")),
    ("/nonce-plz", Reply("", 200, {}, b"")),
    ("/order-plz", Reply("", 302, {"Location": "https://status.example/", "Content-Type": "text/plain"}, b"")),
    ("/order-plz", Reply("", 403, {"Content-Type": "text/html"}, b"<h1>Blocked</h1>")),
    ("/order-plz", Reply("", 502, {"Content-Type": "text/html"}, b"<h1>Bad gateway</h1>")),
    ("/order-plz", Reply("", 503, {"Content-Type": "application/json"}, b'{"message": "busy"}')),
    ("/certZ/", Reply("", 200, {"Content-Type": "text/html"}, b"<h1>Maintenance</h1>")),
]


def test_error_page_of_a_proxy_before_the_authority_is_retried_and_described(live: Live) -> None:
    order = live.renew(lambda reply: None if reply.path != "/dir" else _replace(reply, PROXY_PAGES[0][1]))
    assert order.retry_at is not None and order.retry_at > timezone.now() + dt.timedelta(seconds=7000)
    for path, page in PROXY_PAGES:

        def change(reply: Reply, path: str = path, page: Reply = page) -> None:
            if reply.path.startswith(path):
                _replace(reply, page)

        live.proxy.change = change
        live.world.turn(1)
        order.refresh_from_db()
        kind = page.headers.get("Content-Type", "").partition(";")[0]
        received = f"status {page.status}, {f'content type {kind}' if kind else 'no content type'}."
        assert (order.status, order.progress) == (
            "queued",
            f"The certificate authority at {live.proxy.directory} did not respond as ACME requires: {received}",
        ), (path, page)
    live.assert_unchanged("", alerts=0)
    live.assert_mended()
    assert Order.objects.count() == 2  # the same order went on


def _replace(reply: Reply, page: Reply) -> None:
    reply.status, reply.headers, reply.body = page.status, dict(page.headers), page.body


@pytest.mark.parametrize("hours", [-24, 24])
def test_clock_of_the_panel_that_is_wrong_by_a_day_orders_once(
    live: Live, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    real = timezone.now
    AutomaticCertificate.objects.update(ari_at=None)
    with monkeypatch.context() as wrong:
        wrong.setattr(timezone, "now", lambda: real() + dt.timedelta(hours=hours))
        order = live.renew()
        assert order.status == "succeeded", order.error
    assert trusted(live.world)
    live.world.turn(3)  # the clock is right again
    assert Order.objects.count() == 2
    automatic = AutomaticCertificate.objects.get()
    assert automatic.next_at is not None and automatic.certificate is not None
    assert real() < automatic.next_at < automatic.certificate.not_after


def test_authority_that_is_away_for_a_day_raises_one_alert_and_is_asked_again(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(reply: Reply) -> None:
        raise ConnectionAbortedError

    real = timezone.now
    order = live.renew(away)
    for hours in (1, 7, 13, 19, 23):
        monkeypatch.setattr(timezone, "now", lambda hours=hours: real() + dt.timedelta(hours=hours))
        live.world.turn(2)
        order.refresh_from_db()
        assert order.status == "queued" and "does not respond" in order.progress, hours
    live.assert_unchanged("", alerts=0)
    monkeypatch.setattr(timezone, "now", lambda: real() + dt.timedelta(hours=25))
    live.world.turn(2)
    order.refresh_from_db()
    assert order.status == "failed" and "does not respond" in order.error
    live.assert_unchanged("does not respond")
    live.assert_mended()


def test_domain_that_was_given_away_keeps_its_certificate_until_it_ends(live: Live) -> None:
    assert live.world.pebble is not None
    live.world.pebble.resolve("shop.example", "240.0.0.1")  # reserved (RFC 1112): nobody responds there
    order = live.renew()
    assert order.status == "failed" and "shop.example" in order.error
    live.assert_unchanged("shop.example")
    automatic = AutomaticCertificate.objects.get()
    assert automatic.next_at is not None and automatic.next_at > timezone.now() + dt.timedelta(minutes=4)
    live.world.pebble.resolve_as_usual("shop.example")
    live.assert_mended()


def test_full_disk_between_certificate_and_key_changes_nothing(far_world: World) -> None:
    world = far_world
    assert world.machine.sshd is not None
    order = world.run(world.enable(world.site(), world.authority()))
    assert order.status == "succeeded", order.error
    folder = world.machine.root / "paddock"
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    _restart(world, PADDOCK_AGENT_TEST="1", PADDOCK_AGENT_FAULT="full:switch-1")
    AutomaticCertificate.objects.update(next_at=timezone.now())
    world.turn(3)
    failed = Order.objects.order_by("-pk")[0]
    assert failed.status == "failed" and "No space left on device" in failed.error
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == files
    assert trusted(world)
    assert ["No space left on device" in str(alert.detail) for alert in order_alerts(world.people.owner, 6)] == [True]
    _restart(world, PADDOCK_AGENT_TEST="", PADDOCK_AGENT_FAULT="")
    AutomaticCertificate.objects.update(next_at=timezone.now())
    world.turn()
    assert Order.objects.order_by("-pk")[0].error == ""
    assert trusted(world) and order_alerts(world.people.owner, 6) == []


def _restart(world: World, **environment: str) -> None:
    """Start sshd again, so that agents get this environment."""
    assert world.machine.sshd is not None
    pool.close()
    world.machine.sshd.stop()
    world.machine.sshd.environment.update(environment)
    world.machine.sshd.start()
