"""Rate limits of Let's Encrypt: counted as it counts them, known before an order, and said."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from panel.alerts.certificates import order_alerts
from panel.certificates import choices, limiting, services
from panel.certificates.choices import Issuer, LimitKind
from panel.certificates.limits import LIMITS, WEEK, Limit, buckets, counted_kinds, most_names, registered_domain
from panel.certificates.models import AcmeAccount, Order, RateLimit
from panel.hosts.models import Engine
from tests.certificates.conftest import Make, World
from tests.certificates.test_renewals import due
from tests.support.ports import free_port

NOW = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
WEEKLY = Limit(LimitKind.DOMAIN, 50, WEEK)


@pytest.mark.parametrize(
    ("name", "domain"),
    [
        ("example.com", "example.com"),
        ("new.blog.example.co.uk", "example.co.uk"),
        ("*.shop.example.com", "example.com"),
        ("team.github.io", "team.github.io"),  # a private suffix of the list
        ("localhost", "localhost"),
        ("co.uk", "co.uk"),
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:0:1::7", "2001:db8:0:1::/64"),
    ],
)
def test_registered_domain_is_what_let_s_encrypt_counts_by(name: str, domain: str) -> None:
    assert registered_domain(name) == domain


def test_bucket_gives_a_burst_and_then_one_token_after_each_interval() -> None:
    full_at = None
    for used in range(50):
        assert WEEKLY.used(full_at, NOW) == used and WEEKLY.opens_at(full_at, NOW) == NOW
        full_at = WEEKLY.spent(full_at, NOW)
    opens = WEEKLY.opens_at(full_at, NOW)
    assert WEEKLY.used(full_at, NOW) == 50 and opens - NOW == WEEK / 50
    full_at = WEEKLY.spent(full_at, opens)
    assert WEEKLY.opens_at(full_at, opens) == opens + WEEK / 50
    assert WEEKLY.used(full_at, opens + WEEK) == 0


@given(st.lists(st.floats(0, 10), max_size=200))
def test_requests_at_their_times_never_exceed_count_and_refill(waits: list[float]) -> None:
    limit = Limit(LimitKind.FAILURES, 5, dt.timedelta(hours=1))
    now, full_at, taken = NOW, None, []
    for wait in waits:
        now = max(now + dt.timedelta(minutes=wait), limit.opens_at(full_at, now))
        full_at = limit.spent(full_at, now)
        taken.append(now)
    for first, at in enumerate(taken):
        for last in range(first, len(taken)):
            allowed = 5 + (taken[last] - at) / limit.interval
            assert last - first + 1 <= allowed + 1e-6


def test_kinds_of_an_order_follow_the_exemptions_of_let_s_encrypt() -> None:
    assert counted_kinds(is_replacement=True, is_same=True) == {LimitKind.FAILURES}
    assert LimitKind.DOMAIN not in counted_kinds(is_replacement=False, is_same=True)
    assert counted_kinds(is_replacement=False, is_same=False) == set(LimitKind)


def test_authority_without_published_limits_has_no_buckets() -> None:
    assert buckets(Issuer.ZEROSSL, "main", ["shop.example"], LimitKind) == []
    assert set(LIMITS) == {Issuer.LETSENCRYPT, Issuer.LETSENCRYPT_STAGING}


def test_profile_with_fewer_names_lowers_the_number_of_names() -> None:
    assert most_names(Issuer.LETSENCRYPT, "shortlived", 100) == 25
    assert most_names(Issuer.LETSENCRYPT, "", 100) == 100
    assert most_names(Issuer.OTHER, "shortlived", 100) == 100


Limited = Callable[..., World]


@pytest.fixture
def limit_pebble(monkeypatch: pytest.MonkeyPatch) -> Limited:
    """Give a world an account at Let's Encrypt, of which Pebble is the directory."""

    def change(world: World, **options: Any) -> World:
        account = world.authority(**options)
        assert world.pebble is not None
        monkeypatch.setitem(choices.DIRECTORIES, Issuer.LETSENCRYPT, world.pebble.directory)
        AcmeAccount.objects.filter(pk=account.pk).update(issuer=Issuer.LETSENCRYPT)
        return world

    return change


@pytest.fixture
def limited(world: World, limit_pebble: Limited) -> World:
    return limit_pebble(world)


def _use_up(kind: LimitKind, key: str, count: int) -> None:
    limit = next(item for item in LIMITS[Issuer.LETSENCRYPT] if item.kind == kind)
    full_at = timezone.now() + limit.interval * count
    RateLimit.objects.create(issuer=Issuer.LETSENCRYPT, kind=kind, key=key, full_at=full_at)


def test_certificate_is_counted_for_account_domain_and_names(limited: World, client: Client) -> None:
    site = limited.site(domains=["shop.example.com"])
    order = limited.run(limited.enable(site, AcmeAccount.objects.get()))
    assert order.status == "succeeded", order.error
    assert {row.kind: row.key for row in RateLimit.objects.exclude(kind="names")} == {
        "orders": "pebble",
        "domain": "example.com",
    }
    assert RateLimit.objects.filter(kind="names").count() == 1
    client.force_login(limited.people.owner)
    page = client.get(reverse("certificates:site", args=[site.name])).content.decode()
    assert "Let&#x27;s Encrypt issues 50 certificates for example.com in 7 days." in page and "Used: 1." in page
    found = client.get("/api/v1/automatic-https/").json()["results"][0]["rate_limits"]
    assert {"kind": "domain", "subject": "example.com", "used": 1, "count": 50, "period_s": 604800}.items() <= next(
        item for item in found if item["kind"] == "domain"
    ).items()


def test_order_beyond_a_limit_is_not_placed_and_says_when_it_goes_on(limited: World) -> None:
    _use_up(LimitKind.DOMAIN, "example.com", 50)
    order = limited.run(limited.enable(limited.site(domains=["shop.example.com"]), AcmeAccount.objects.get()))
    assert order.status == "queued" and order.url == "" and order.started_at is None
    assert order.progress == (
        "Let's Encrypt issues 50 certificates for example.com in 7 days. The account has reached this limit."
    )
    assert order.retry_at is not None
    assert dt.timedelta(minutes=190) < order.retry_at - timezone.now() < dt.timedelta(minutes=203)
    assert order_alerts(limited.people.owner, 6) == []


def test_order_that_waited_for_a_limit_longer_than_a_day_is_not_given_up(limited: World) -> None:
    _use_up(LimitKind.DOMAIN, "example.com", 50)
    order = limited.enable(limited.site(domains=["shop.example.com"]), AcmeAccount.objects.get())
    limited.run(order)
    RateLimit.objects.update(full_at=timezone.now())
    past = timezone.now() - dt.timedelta(days=3)
    Order.objects.filter(pk=order.pk).update(retry_at=None, created_at=past)
    order = limited.run(order)
    assert order.status == "succeeded", order.error


def test_renewal_that_names_the_replaced_certificate_waits_for_no_limit(limited: World) -> None:
    site = limited.site(domains=["shop.example.com"])
    assert limited.run(limited.enable(site, AcmeAccount.objects.get())).status == "succeeded"
    RateLimit.objects.all().delete()
    _use_up(LimitKind.DOMAIN, "example.com", 50)
    _use_up(LimitKind.ORDERS, "pebble", 300)
    due(site)
    limited.turn()
    order = Order.objects.order_by("-pk")[0]
    assert order.replaces and order.status == "succeeded", order.error


def test_name_with_five_failed_challenges_in_an_hour_is_not_ordered(make_world: Make, limit_pebble: Limited) -> None:
    world = limit_pebble(make_world(Engine.NGINX), http_port=free_port())  # where the authority meets nobody
    site = world.site(domains=["shop.example.com"])
    account = AcmeAccount.objects.get()
    order = world.run(world.enable(site, account))
    for _ in range(4):
        assert order.status == "failed" and order.step == "challenge"
        order = world.run(services.certificate_order(actor=world.people.admin, site=site))
    assert order.status == "failed"
    order = world.run(services.certificate_order(actor=world.people.admin, site=site))
    assert order.status == "queued" and order.url == ""
    assert order.progress.startswith("Let's Encrypt accepts 5 failed challenges for shop.example.com in 1 hour.")


def test_full_buckets_are_forgotten(limited: World) -> None:
    _use_up(LimitKind.DOMAIN, "example.com", 50)
    _use_up(LimitKind.DOMAIN, "old.example", 0)
    limiting.forget()
    assert [row.key for row in RateLimit.objects.all()] == ["example.com"]
