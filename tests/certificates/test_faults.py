"""What goes wrong between the panel, the authority and the host: the site stays as it was, and the cause fixes it."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from panel.certificates import acme_client, ordering, scheduling, services
from panel.certificates.choices import OrderStep
from panel.certificates.models import AutomaticCertificate, Order
from panel.core.errors import ApplicationError
from panel.remote import pool
from panel.websites.models import Certificate, Site
from tests.certificates.conftest import World
from tests.certificates.test_orders import trusted
from tests.support.http_client import ask
from tests.support.ports import free_port


def test_nonces_rejected_half_of_the_time_only_cost_time(world: World) -> None:
    order = world.run(world.enable(world.site(), world.authority(nonce_reject=50)))
    assert order.status == "succeeded", order.error
    assert trusted(world)


def test_refused_challenge_fails_the_order_and_leaves_the_site_on_http(world: World) -> None:
    site = world.site()
    order = world.run(world.enable(site, world.authority(http_port=free_port())))
    assert order.status == "failed"
    assert "shop.example" in order.error and "refused" in order.error
    assert ask(world.machine.port, host="shop.example").text == "this is shop"
    assert not Certificate.objects.exists()
    assert not any(listen.tls for listen in site.blocks.get().listens.all())
    assert list((world.machine.root / "paddock" / "_acme-challenge").iterdir()) == []
    automatic = AutomaticCertificate.objects.get()
    assert automatic.problem == order.error
    assert automatic.next_at is not None and automatic.next_at > timezone.now() + dt.timedelta(minutes=4)


def test_authority_that_is_away_is_waited_for(world: World) -> None:
    account = world.authority()
    assert world.pebble is not None
    world.pebble._authority.stop()
    order = world.run(world.enable(world.site(), account))
    assert (order.status, order.step) == ("queued", OrderStep.ACCOUNT)
    assert "does not respond" in order.progress
    assert order.retry_at is not None and order.retry_at > timezone.now()
    assert ask(world.machine.port, host="shop.example").text == "this is shop"
    world.pebble._authority.start().wait_for_port(world.pebble.port)
    world.turn()
    order.refresh_from_db()
    assert order.status == "succeeded", order.error
    assert trusted(world)


def test_untrusted_authority_is_named(world: World) -> None:
    world.authority()
    assert world.pebble is not None
    account = world.account("untrusted", ca_pem="")
    order = world.run(world.enable(world.site(), account))
    assert order.status == "queued"
    assert "is not trusted" in order.progress


def test_external_account_is_bound(world: World) -> None:
    key = base64.urlsafe_b64encode(b"k" * 32).decode().rstrip("=")
    world.authority(eab={"kid-1": key})
    account = world.account("bound", eab_key_id="kid-1", eab_key=key)
    order = world.run(world.enable(world.site(), account))
    assert order.status == "succeeded", order.error
    account.refresh_from_db()
    assert account.status == "valid"


class Killed(BaseException):
    """The end of a worker: nothing that it would do afterwards is done."""


@pytest.mark.parametrize("at", range(2, 22, 2))
def test_order_goes_on_after_its_worker_was_killed(world: World, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Killed before its `at`-th record is written, and once more at the same place by the next worker."""
    order = world.enable(world.site(), world.authority())
    for deadline in (at, 1):
        kill_at_record(monkeypatch, deadline)
        try:
            ordering.order_execute(order.uuid)
        except Killed:
            Order.objects.update(heartbeat_at=None)
        monkeypatch.undo()
    world.turn()
    order.refresh_from_db()
    assert order.status == "succeeded", order.error
    assert trusted(world)
    assert Certificate.objects.count() == 1
    assert world.pebble is not None
    assert world.pebble.orders() <= 2
    assert list((world.machine.root / "paddock" / "_acme-challenge").iterdir()) == []


def kill_at_record(monkeypatch: pytest.MonkeyPatch, left: int) -> None:
    save: Callable[..., None] = ordering.Course.save

    def dying(course: ordering.Course, **values: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        save(course, **values)

    monkeypatch.setattr(ordering.Course, "save", dying)


def test_host_that_is_away_at_the_switch_gets_its_certificate_later(far_world: World) -> None:
    world = far_world
    assert world.machine.sshd is not None
    order = world.run(world.enable(world.site(), world.authority()))
    assert order.status == "succeeded", order.error
    before = Certificate.objects.get().fingerprint
    AutomaticCertificate.objects.update(next_at=timezone.now())
    scheduling.look()
    renewal = world.run(Order.objects.first() or order)
    assert (renewal.status, renewal.step) == ("queued", OrderStep.DEPLOY), renewal.progress
    world.machine.sshd.stop()
    pool.close()
    world.turn(2)
    renewal.refresh_from_db()
    assert (renewal.status, renewal.step) == ("queued", OrderStep.DEPLOY)
    assert trusted(world)
    world.machine.sshd.start()
    world.turn()
    renewal.refresh_from_db()
    assert renewal.status == "succeeded", renewal.error
    assert Certificate.objects.get().fingerprint != before
    assert trusted(world)
    assert Order.objects.count() == 2


def test_names_that_cannot_be_proven_are_refused(world: World) -> None:
    site = world.site(domains=["*.shop.example"])
    account = world.authority()
    with pytest.raises(ApplicationError, match="exact domain names"):
        world.enable(site, account)
    assert not Site.objects.get().answers_challenges


def test_key_of_an_account_is_deactivated_at_the_authority(world: World) -> None:
    account = world.authority()
    site = world.site()
    assert world.run(world.enable(site, account)).status == "succeeded"
    account.refresh_from_db()
    services.automatic_disable(actor=world.people.admin, site=site)
    services.account_deactivate(actor=world.people.admin, account=account)
    with acme_client.session(ordering.endpoint_of(account)) as authority, pytest.raises(acme_client.AcmeProblem):
        authority.order(["shop.example"], "", "")
