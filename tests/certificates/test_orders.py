"""From the switch to the padlock: a real authority, real web servers, and what every listener presents."""

from __future__ import annotations

import socket
import ssl

import pytest

from panel.certificates import handshakes
from panel.certificates.models import Order
from panel.hosts.models import Engine
from panel.websites.models import Certificate, CertificateSource
from tests.certificates.conftest import Make, World
from tests.support.http_client import ask


def trusted(world: World, name: str = "shop.example") -> bool:
    """Whether a client that trusts the authority's root alone takes what the site presents."""
    assert world.pebble is not None
    context = ssl.create_default_context(cadata=world.pebble.root_pem())
    plain = socket.create_connection(("127.0.0.1", world.https_port), 5)
    with context.wrap_socket(plain, server_hostname=name) as secure:
        return secure.version() in ("TLSv1.2", "TLSv1.3")


@pytest.mark.parametrize("engine", [Engine.NGINX, Engine.APACHE, Engine.NATIVE])
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
    assert kinds == ({"TCP", "UDP"} if engine == Engine.NATIVE else {"TCP"})
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
