"""From the switch to the padlock: a real authority, real web servers, and what every listener presents."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from django.utils import timezone

from panel.certificates import handshakes, ordering
from panel.certificates.choices import AccountStatus, OrderStep
from panel.certificates.models import Order
from panel.hosts.models import Engine
from panel.websites import certificates
from panel.websites import services as websites
from panel.websites.models import Certificate, CertificateSource
from tests.certificates.conftest import ENGINES, Make, World
from tests.support.http_client import ask


def trusted(world: World, name: str = "shop.example") -> bool:
    """Whether a client that trusts the authority's root alone takes what the site presents."""
    assert world.pebble is not None
    context = ssl.create_default_context(cadata=world.pebble.root_pem())
    plain = socket.create_connection(("127.0.0.1", world.https_port), 5)
    with context.wrap_socket(plain, server_hostname=name) as secure:
        return secure.version() in ("TLSv1.2", "TLSv1.3")


@pytest.mark.parametrize("engine", ENGINES)
def test_automatic_https_is_seen_on_every_listener(make_world: Make, engine: Engine) -> None:
    world = make_world(engine)
    site = world.site(domains=["shop.example", "www.shop.example"])
    order = world.run(world.enable(site, world.authority()))
    assert order.status == "succeeded", [str(row) for row in order.records.all()]
    assert trusted(world) and trusted(world, "www.shop.example")
    moved = ask(world.machine.port, "/a", host="shop.example")
    assert (moved.status, moved.headers["location"]) == (301, f"https://shop.example:{world.https_port}/a")
    assert ask(world.https_port, host="shop.example", tls=True).text == "this is shop"
    certificate = Certificate.objects.get()
    assert certificate.source == CertificateSource.ACME
    assert sorted(certificate.names) == ["shop.example", "www.shop.example"]
    kinds = {item["listener"].split()[0] for item in order.seen}
    assert kinds == ({"TCP", "UDP"} if engine in (Engine.NATIVE, Engine.OPENLITESPEED) else {"TCP"})
    automatic = order.automatic
    automatic.refresh_from_db()
    assert (
        automatic.seen_at and automatic.next_at and certificate.not_before < automatic.next_at < certificate.not_after
    )
    assert order.tokens == [] and order.key_pem == ""
    folder = world.machine.root / "paddock" / "_acme-challenge"
    assert list(folder.iterdir()) == []
    keys = list((world.machine.root / "paddock" / "shop").glob("*.key"))
    assert [path.stat().st_mode & 0o777 for path in keys] == [0o600]
    assert handshakes.chain_of(certificate.certificate_pem)[0] == certificate.fingerprint
    assert Order.objects.count() == 1


def test_automatic_https_takes_over_a_certificate_that_was_renewed_on_the_host(world: World) -> None:
    bundle = certificates.self_signed(["shop.example"], now=timezone.now(), days=20)
    folder = world.machine.root / "letsencrypt"
    folder.mkdir()
    paths = str(folder / "fullchain.pem"), str(folder / "privkey.pem")
    Path(paths[0]).write_text(bundle.certificate_pem)
    Path(paths[1]).write_text(bundle.private_key_pem)
    people = world.people
    former = websites.certificate_refer(
        actor=people.admin,
        team=people.team,
        name="certbot",
        host=world.machine.host,
        paths=paths,
        certificate_pem=bundle.certificate_pem,
    )
    site = world.site()
    listens = [{"port": world.machine.port}, {"port": world.https_port, "tls": True}]
    websites.block_update(actor=people.admin, block=site.blocks.get(), certificate=former, listens=listens)
    world.machine.deploy(site)
    order = world.run(world.enable(site, world.authority()))
    assert order.status == "succeeded", [str(row) for row in order.records.all()]
    assert trusted(world)
    former.refresh_from_db()
    assert former.host == world.machine.host and not former.blocks.exists()
    assert Path(paths[0]).read_text() == bundle.certificate_pem, "the file of the host stays as it is"


@pytest.mark.parametrize("engine", ENGINES)
def test_hsts_is_sent_over_https_once_it_is_wanted(make_world: Make, engine: Engine) -> None:
    world = make_world(engine)
    site = world.site()
    order = world.run(world.enable(site, world.authority(), hsts_max_age_s=86_400))
    assert order.status == "succeeded", order.error
    assert world.pebble is not None
    secure = ask(world.https_port, "/", host="shop.example", tls=True)
    assert secure.headers["strict-transport-security"] == "max-age=86400"
    plain = world.machine.get("shop")
    assert plain.status == 301 and "strict-transport-security" not in plain.headers


def test_two_first_orders_of_one_account_register_it_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the first order is at its first step, the other one registers the account and is done."""
    account = world.authority()
    first = world.enable(world.site("shop"), account)
    second = world.enable(world.site("blog"), account)
    prepare = ordering.STEP[OrderStep.PREPARE]

    def meanwhile(course: ordering.Course) -> None:
        prepare(course)
        if course.order.pk == first.pk:
            assert world.run(second).status == "succeeded", second.error

    monkeypatch.setitem(ordering.STEP, OrderStep.PREPARE, meanwhile)
    assert world.run(first).status == "succeeded", first.error
    account.refresh_from_db()
    assert account.status == AccountStatus.VALID


@pytest.mark.parametrize(
    ("key_type", "kind", "bits"),
    [
        ("p384", ec.EllipticCurvePublicKey, 384),
        ("rsa2048", rsa.RSAPublicKey, 2048),
        ("rsa4096", rsa.RSAPublicKey, 4096),
    ],
)
def test_certificate_has_the_chosen_kind_of_key(world: World, key_type: str, kind: type, bits: int) -> None:
    order = world.run(world.enable(world.site(), world.authority(), key_type=key_type))
    assert order.status == "succeeded", order.error
    assert world.pebble is not None
    context = ssl.create_default_context(cadata=world.pebble.root_pem())
    plain = socket.create_connection(("127.0.0.1", world.https_port), 5)
    with context.wrap_socket(plain, server_hostname="shop.example") as secure:
        presented = x509.load_der_x509_certificate(secure.getpeercert(binary_form=True) or b"")
    key = presented.public_key()
    assert isinstance(key, kind)
    assert key.key_size == bits


def test_one_certificate_has_all_names_of_a_site(world: World) -> None:
    names = [f"shop-{number}.example" for number in range(25)]
    order = world.run(world.enable(world.site(domains=names), world.authority()))
    assert order.status == "succeeded", order.error
    assert sorted(Certificate.objects.get().names) == sorted(names)
    assert trusted(world, names[0]) and trusted(world, names[-1])
