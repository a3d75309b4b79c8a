"""What live sites present to visitors, and whether CAA records allow the next renewal: looked at, shown, alerted."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtensionOID, NameOID
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from panel.alerts.selectors import mailed_alerts
from panel.certificates import services, watching
from panel.certificates.models import CertificateWatch
from panel.deployments.models import SiteState
from panel.hosts.models import Engine, WebServer
from panel.websites import certificates
from panel.websites import services as websites
from panel.websites.models import Certificate, Site
from tests.certificates.conftest import Make, World
from tests.support.cast import signed_in
from tests.support.dns_servers import ZONE, Knot
from tests.support.ports import free_port
from tests.support.waiting import eventually


def at_once(seconds: float) -> None:
    pass


def look() -> int:
    return watching.look(pause=at_once)


def told(world: World) -> list[tuple[str, str]]:
    labels = ("Wrong certificate", "Renewal forbidden by CAA records")
    found = mailed_alerts(world.people.admin, 10)
    return [(str(item.label), str(item.detail)) for item in found if item.label in labels]


def secured(world: World, **options: Any) -> Site:
    """A live site with a certificate of the authority: a leaf and the certificate of its issuer."""
    site = world.site()
    order = world.run(world.enable(site, world.authority(**options)))
    assert order.status == "succeeded", order.error
    WebServer.objects.update(is_running=True)
    return site


def replaced(world: World, text: str, key: str = "") -> None:
    """Somebody replaces the files of the certificate on the host and reloads the web server."""
    folder = world.machine.root / "paddock" / "shop"
    (certificate,) = [path for path in folder.rglob("*") if path.suffix in (".crt", ".pem")]
    certificate.write_text(text)
    if key:
        (path,) = folder.rglob("*.key")
        path.write_text(key)
    world.server.run("-s", "reload")


@pytest.mark.parametrize("engine", [Engine.NGINX, Engine.NATIVE])
def test_site_that_presents_its_certificate_has_no_alert(make_world: Make, engine: Engine) -> None:
    world = make_world(engine)
    site = secured(world)
    assert look() == 1 and told(world) == []
    page = signed_in(world.people.admin).get(reverse("websites:tls", args=[site.name])).content.decode()
    assert "Every TLS address that the panel reaches presented the deployed certificate." in page


def test_certificate_that_somebody_replaced_on_the_host_raises_an_alert_until_it_is_back(world: World) -> None:
    site = secured(world)
    own = Certificate.objects.get()
    other = certificates.self_signed(["other.example"], now=timezone.now() - dt.timedelta(days=30), days=20)
    replaced(world, other.certificate_pem, other.private_key_pem)
    assert eventually(lambda: bool(look() and told(world)))
    ((label, detail),) = told(world)
    end = f"{timezone.now() - dt.timedelta(days=10):%Y-%m-%d}"
    assert label == "Wrong certificate" and detail == (
        f"shop.example (TCP *:{world.https_port}): Visitors get a different certificate than the deployed one: for "
        f"other.example, valid until {end}. Visitors get a certificate that is not valid for this domain name. "
        "The presented certificate has expired."
    )
    page = signed_in(world.people.admin).get(reverse("websites:tls", args=[site.name])).content.decode()
    assert "Visitors do not get the deployed certificate." in page and "for other.example" in page
    since = CertificateWatch.objects.get().problems_since
    look()
    assert CertificateWatch.objects.get().problems_since == since
    replaced(world, own.certificate_pem, own.private_key_pem)
    assert eventually(lambda: bool(look()) and told(world) == [])


def test_sites_with_problems_and_sites_whose_health_changed_are_checked_again(world: World) -> None:
    """Otherwise a page would say for an hour what another page knows to be over."""
    site = secured(world)
    client = signed_in(world.people.admin)

    def page() -> str:
        return " ".join(client.get(reverse("websites:tls", args=[site.name])).content.decode().split())

    assert look() == 1 and watching.look_again(pause=at_once) == 0
    assert "presented the deployed certificate" in page()
    own, other = Certificate.objects.get(), certificates.self_signed(["other.example"], now=timezone.now(), days=90)
    replaced(world, other.certificate_pem, other.private_key_pem)

    def seen_again() -> bool:
        SiteState.objects.update(health_since=timezone.now())
        assert "presented the deployed certificate" not in page() and "observes them again" in page()
        return watching.look_again(pause=at_once) == 1 and "Visitors do not get" in page()

    assert eventually(seen_again)
    replaced(world, own.certificate_pem, own.private_key_pem)
    assert eventually(lambda: watching.look_again(pause=at_once) == 1 and "presented the deployed" in page())
    assert watching.look_again(pause=at_once) == 0


def test_certificate_that_cannot_be_read_stops_no_round(world: World) -> None:
    """A hostile host presents a certificate whose alternative names are not in their format."""
    secured(world)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x" * 64)])
    now = timezone.now()
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + dt.timedelta(days=9))
    broken = x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, b"\x30\x05\x82\x09aaa")
    leaf = builder.add_extension(broken, critical=False).sign(key, hashes.SHA256())
    pkcs8 = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    replaced(world, leaf.public_bytes(Encoding.PEM).decode(), pkcs8.decode())
    assert eventually(lambda: bool(look() and told(world)))
    assert told(world)[0][1].endswith(
        "Visitors do not get the deployed certificate, but another one that Paddock cannot read."
    )


def test_chain_without_its_issuer_raises_an_alert(world: World) -> None:
    secured(world)
    leaf = Certificate.objects.get().certificate_pem.split("-----END CERTIFICATE-----")[0]
    replaced(world, f"{leaf}-----END CERTIFICATE-----\n")
    assert eventually(lambda: bool(look() and told(world)))
    assert "the certificate with 0 chain certificates, but 1 are deployed" in told(world)[0][1]


def test_certificate_that_was_renewed_on_the_host_without_a_reload_raises_an_alert(world: World) -> None:
    """What certbot does without a deploy hook: the file is new, and visitors get the former certificate."""
    folder = world.machine.root / "letsencrypt"
    folder.mkdir()
    paths = str(folder / "fullchain.pem"), str(folder / "privkey.pem")
    first, second = (certificates.self_signed(["shop.example"], now=timezone.now(), days=days) for days in (20, 90))
    Path(paths[0]).write_text(first.certificate_pem)
    Path(paths[1]).write_text(first.private_key_pem)
    people = world.people
    row = websites.certificate_refer(
        actor=people.admin,
        team=people.team,
        name="certbot",
        host=world.machine.host,
        paths=paths,
        certificate_pem=first.certificate_pem,
    )
    site = world.site()
    listens = [{"port": world.machine.port}, {"port": world.https_port, "tls": True}]
    websites.block_update(actor=people.admin, block=site.blocks.get(), certificate=row, listens=listens)
    world.machine.deploy(site)
    WebServer.objects.update(is_running=True)
    assert look() == 1 and told(world) == []
    Path(paths[0]).write_text(second.certificate_pem)
    Path(paths[1]).write_text(second.private_key_pem)
    assert websites.certificate_observed(row, second.certificate_pem)
    look()
    assert "Visitors get a different certificate than the deployed one: for shop.example" in told(world)[0][1]
    world.server.run("-s", "reload")
    assert eventually(lambda: bool(look()) and told(world) == [])


def test_listener_that_refuses_the_handshake_raises_an_alert_and_one_that_is_away_does_not(world: World) -> None:
    secured(world)
    world.server.stop()
    assert look() == 1 and told(world) == []
    config = world.server.main_config
    kept = config.read_text()
    server = f"server {{ listen {world.https_port} ssl; ssl_reject_handshake on; }}"
    main = f"pid {world.server.root}/run/nginx.pid; error_log {world.server.root}/error.log; events {{}}"
    config.write_text(f"{main} http {{ access_log off; {server} }}")
    world.server.start()
    assert eventually(lambda: bool(look() and told(world)))
    assert "the TLS handshake failed: tlsv1 unrecognized name" in told(world)[0][1]
    world.server.stop()
    config.write_text(kept)
    world.server.start()


def test_site_that_changes_meanwhile_is_not_judged(world: World) -> None:
    site = secured(world)
    own = Certificate.objects.get()
    other = certificates.self_signed(["other.example"], now=timezone.now())
    replaced(world, other.certificate_pem, other.private_key_pem)

    pauses: list[float] = []

    def deployed(seconds: float) -> None:
        """While the watch pauses before it asks again, the site gets another revision."""
        pauses.append(seconds)
        replaced(world, own.certificate_pem, own.private_key_pem)
        websites.block_update(actor=world.people.admin, block=site.blocks.get(), hsts_max_age_s=60)
        world.machine.deploy(site)
        replaced(world, other.certificate_pem, other.private_key_pem)

    def paused() -> bool:
        """An old worker may respond with the deployed certificate after a reload: then nothing is asked again."""
        CertificateWatch.objects.all().delete()
        watching.look(pause=deployed)
        return bool(pauses)

    assert eventually(paused) and not CertificateWatch.objects.exists()


def test_record_that_forbids_the_next_renewal_raises_an_alert(
    world: World, server_root: Path, settings: Settings
) -> None:
    server = Knot(server_root, free_port())
    zone = server.root / f"{ZONE}.zone"
    settings.DNS_RESOLVERS = [f"{server.address}:{server.port}"]
    with server:
        secured(world, caa_identities=["ca.example"])
        look()
        assert told(world) == []
    zone.write_text(zone.read_text() + f'{ZONE}. 5 CAA 0 issue "digicert.com"\n')
    with server:
        look()
        assert told(world) == [], "CAA records are looked up once a day"
        CertificateWatch.objects.update(permission_at=timezone.now() - dt.timedelta(hours=21))
        look()
    ((label, detail),) = told(world)
    assert label == "Renewal forbidden by CAA records"
    assert "The CAA record of example allows only digicert.com" in detail
    pebble = world.pebble
    assert pebble is not None
    before = pebble.orders()
    with server:
        order = world.run(services.certificate_order(actor=world.people.admin, site=Site.objects.get()))
    assert order.status == "failed" and "The CAA record of example allows only digicert.com" in order.error
    assert pebble.orders() == before, "the authority was not asked"
