"""Renewals by themselves: when the authority says so, one reload for many, never twice, and nothing of the draft."""

from __future__ import annotations

import datetime as dt
import re
import socket
import ssl
import threading
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone

from panel.alerts.certificates import order_alerts
from panel.certificates import scheduling, services
from panel.certificates.models import AutomaticCertificate, Order
from panel.deployments.models import Deployment, DeploymentKind
from panel.deployments.planning.services import deployment_plan
from panel.websites import services as websites
from panel.websites.models import Certificate, Site
from panel.websites.versions import IS_PENDING
from tests.certificates.conftest import World
from tests.certificates.test_orders import trusted
from tests.support.http_client import ask


def stamp(when: dt.datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def presented(port: int, name: str) -> bytes:
    """The certificate that a listener presents for a name, as DER."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(socket.create_connection(("127.0.0.1", port), 5), server_hostname=name) as secure:
        found = secure.getpeercert(binary_form=True)
    assert found
    return found


def due(site: Site) -> None:
    AutomaticCertificate.objects.filter(site=site).update(next_at=timezone.now() - dt.timedelta(hours=9))


def fingerprints() -> dict[str, str]:
    return dict(Certificate.objects.values_list("name", "fingerprint"))


def test_moved_renewal_window_renews_a_short_lived_certificate(world: World) -> None:
    site = world.site()
    order = world.run(world.enable(site, world.authority(), profile="shortlived"))
    assert order.status == "succeeded", order.error
    certificate = Certificate.objects.get()
    assert certificate.not_after - certificate.not_before < dt.timedelta(days=7)
    automatic = AutomaticCertificate.objects.get()
    assert automatic.next_at is not None and automatic.next_at > timezone.now() + dt.timedelta(days=2)
    now = timezone.now()
    assert world.pebble is not None
    world.pebble.suggest(certificate.certificate_pem, stamp(now - dt.timedelta(hours=3)), stamp(now))
    AutomaticCertificate.objects.update(ari_at=now)
    world.turn()
    renewed = Certificate.objects.get()
    assert renewed.fingerprint != certificate.fingerprint
    assert trusted(world)
    second = Order.objects.first()
    assert second is not None and second.replaces
    assert (second.status, Order.objects.count()) == ("succeeded", 2)


def test_renewals_of_one_host_need_one_reload_and_leave_the_draft_alone(world: World) -> None:
    account = world.authority()
    sites = [world.site(name) for name in ("shop", "blog", "wiki")]
    for site in sites:
        order = world.run(world.enable(site, account))
        assert order.status == "succeeded", order.error
    before = fingerprints()
    block = sites[0].blocks.get()
    websites.block_update(actor=world.people.admin, block=block, index=["other.html"])
    for site in sites:
        due(site)
    world.turn()
    after = fingerprints()
    assert set(before) == set(after)
    assert all(before[name] != after[name] for name in before)
    renewals = Deployment.objects.filter(kind=DeploymentKind.CERTIFICATE)
    assert [(row.status, row.items.count()) for row in renewals] == [("succeeded", 3)]
    assert ask(world.https_port, host="shop.example", tls=True).text == "this is shop"  # not the draft's other.html
    assert [site.name for site in Site.objects.filter(IS_PENDING)] == ["shop"]  # whose draft waits still
    assert Order.objects.filter(status="succeeded").count() == 6


def test_two_workers_order_once(world: World) -> None:
    site = world.site()
    order = world.run(world.enable(site, world.authority()))
    assert order.status == "succeeded", order.error
    due(site)
    pk = AutomaticCertificate.objects.get().pk
    found: list[Order | None] = []

    def begin() -> None:
        try:
            found.append(scheduling.order_begin(pk, timezone.now()))
        finally:
            connection.close()

    threads = [threading.Thread(target=begin) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(item is not None for item in found) == 1
    with pytest.raises(Exception, match="already orders a certificate"):
        services.certificate_order(actor=world.people.admin, site=site)


def test_renewal_returns_to_the_old_certificate_when_a_listener_presents_another(world: World) -> None:
    """A file that somebody left on the host has the same name with the old certificate; nginx takes the first one."""
    site = world.site()
    order = world.run(world.enable(site, world.authority()))
    assert order.status == "succeeded", order.error
    before = fingerprints()
    files = sorted((world.machine.root / "paddock" / "shop").iterdir())
    texts = [path.read_text() for path in files]
    due(site)
    leave_old_server(world, files)
    world.turn()
    order = Order.objects.order_by("-pk")[0]
    assert order.status == "failed"
    assert f"TCP *:{world.https_port} for shop.example: the web server presents another certificate" in order.error
    assert "Paddock restored the previous configuration" in order.error
    assert fingerprints() == before
    assert [path.read_text() for path in files] == texts
    assert trusted(world)
    automatic = AutomaticCertificate.objects.get()
    assert automatic.failures == 1 and automatic.problem == order.error
    assert automatic.next_at is not None and automatic.next_at > timezone.now()


def leave_old_server(world: World, files: list[Path]) -> None:
    root = world.machine.root
    for path in files:
        (root / f"old{path.suffix}").write_text(path.read_text())
    (root / "conf.d" / "00-old.conf").write_text(
        f"server {{ listen {world.https_port} ssl; server_name shop.example;"
        f" ssl_certificate {root}/old.crt; ssl_certificate_key {root}/old.key; return 200 old; }}"
    )


@pytest.mark.parametrize(("what", "shop"), [("sites-available/*shop*", "succeeded"), ("paddock/shop/*.crt", "queued")])
def test_edited_file_of_one_site_stops_no_other_renewal(world: World, what: str, shop: str) -> None:
    """A renewal leaves an edited configuration as it is, and never replaces an edited certificate."""
    account = world.authority()
    sites = [world.site(name) for name in ("shop", "blog")]
    for site in sites:
        order = world.run(world.enable(site, account))
        assert order.status == "succeeded", order.error
    before = presented(world.https_port, "blog.example")
    (edited,) = world.machine.root.glob(what)
    text = edited.read_text() + "\n# an edit by hand\n"
    edited.write_text(text)
    for site in sites:
        due(site)
    world.turn()
    orders = Order.objects.filter(automatic__seen_at__isnull=False).order_by("-pk")[:2]
    found = {order.automatic.site.name: order.status for order in orders}
    assert found == {"shop": shop, "blog": "succeeded"}, [(order.error, order.progress) for order in orders]
    assert presented(world.https_port, "blog.example") != before
    assert edited.read_text() == text
    waiting = [order.progress for order in orders if order.status == "queued"]
    assert all(words.startswith("These files were edited on the host") for words in waiting)
    assert not Deployment.objects.filter(status="planned").exists()


def pin_key(conf: Path, kept: Path) -> None:
    """Let a site's file name a copy of its present key, so that nginx rejects its next certificate."""
    text = conf.read_text()
    (key,) = re.findall(r"ssl_certificate_key (\S+);", text)
    kept.write_text(Path(key).read_text())
    conf.write_text(text.replace(f"ssl_certificate_key {key};", f"ssl_certificate_key {kept};"))


def test_site_whose_renewal_is_rolled_back_stops_no_other_renewal(world: World) -> None:
    account = world.authority()
    sites = [world.site(name) for name in ("shop", "blog", "wiki")]
    for site in sites:
        order = world.run(world.enable(site, account))
        assert order.status == "succeeded", order.error
    before = {site.name: presented(world.https_port, f"{site.name}.example") for site in sites}
    (conf,) = world.machine.root.glob("sites-available/*shop*")
    pin_key(conf, world.machine.root / "kept.key")
    for turn in (1, 2):
        for site in sites:
            due(site)
        world.turn()
        found = {order.automatic.site.name: order for order in Order.objects.order_by("pk")}
        assert {name: order.status for name, order in found.items()} == {
            "shop": "failed",
            "blog": "succeeded",
            "wiki": "succeeded",
        }, turn
        assert "key values mismatch" in found["shop"].error
        after = {site.name: presented(world.https_port, f"{site.name}.example") for site in sites}
        assert [name for name in after if after[name] == before[name]] == ["shop"]
        before = after
    renewals = Deployment.objects.filter(kind=DeploymentKind.CERTIFICATE).order_by("pk")
    found_rows = [(row.status, sorted(item.site.name for item in row.items.all())) for row in renewals]
    assert found_rows[0] == ("rolled_back", ["blog", "shop", "wiki"])
    assert sorted(found_rows[1:4]) == [("rolled_back", ["shop"]), ("succeeded", ["blog"]), ("succeeded", ["wiki"])]
    # The next renewal of the other two is one deployment again, and the bad site is not part of it.
    assert sorted(found_rows[4:]) == [("rolled_back", ["shop"]), ("succeeded", ["blog", "wiki"])]
    assert Order.objects.count() == 9  # a rolled-back deployment orders no second certificate


def test_certificate_is_renewed_though_the_authority_does_not_accept_a_replacement(world: World) -> None:
    """Because it has no record of the certificate, or because another account requested it."""
    account = world.authority()
    shop, blog = world.site("shop"), world.site("blog")
    for site, its_account in ((shop, account), (blog, world.account("other"))):
        order = world.run(world.enable(site, its_account))
        assert order.status == "succeeded", order.error
    others = scheduling.replaces_of(AutomaticCertificate.objects.get(site=blog))
    unknown = others.split(".")[0] + ".AO3Ds7B6MBY"
    for replaces, words in ((unknown, "could not find an order"), (others, "did not request the certificate")):
        before = fingerprints()
        due(shop)
        scheduling.look()
        Order.objects.filter(status="queued").update(replaces=replaces)
        world.turn()
        order = Order.objects.order_by("-pk")[0]
        assert (order.status, order.replaces) == ("succeeded", ""), (order.error, order.progress)
        assert order.records.filter(text__contains=words).exists()
        assert fingerprints() != before and trusted(world)


def test_disabled_site_is_renewed_once_it_is_deployed_again(world: World) -> None:
    site = world.site()
    order = world.run(world.enable(site, world.authority()))
    assert order.status == "succeeded", order.error
    site.refresh_from_db()
    (plan,) = deployment_plan(actor=world.people.owner, sites=[site], kind=DeploymentKind.DISABLE)
    assert world.machine.run(plan).status == "succeeded"
    due(site)
    world.turn()
    assert Order.objects.count() == 1 and order_alerts(world.people.owner, 6) == []
    before = fingerprints()
    site.refresh_from_db()
    websites.site_enable(actor=world.people.owner, site=site, enabled=True)
    world.machine.deploy(site)
    world.turn()
    assert Order.objects.count() == 2 and fingerprints() != before
    assert trusted(world)


def test_key_stays_with_renewals_if_wanted_and_is_replaced_after_a_revocation(world: World) -> None:
    site = world.site()
    order = world.run(world.enable(site, world.authority(), reuse_key=True))
    assert order.status == "succeeded", order.error
    first = Certificate.objects.get()
    due(site)
    world.turn()
    second = Certificate.objects.get()
    assert second.fingerprint != first.fingerprint and second.private_key_pem == first.private_key_pem
    services.certificate_revoke(actor=world.people.admin, site=site, reason="key_compromise")
    world.turn()
    third = Certificate.objects.get()
    assert third.fingerprint != second.fingerprint and third.private_key_pem != second.private_key_pem
