"""Domain names proven over TLS (TLS-ALPN-01, RFC 8737) with gallop: the authority never reaches port 80."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.urls import reverse

from agents.host.install import modules
from panel.certificates import challenge_files, handshakes, proving
from panel.certificates.acme_client import Challenge
from panel.certificates.choices import ChallengeKind
from panel.certificates.listeners import Listener
from panel.certificates.models import AcmeAccount, DnsAccount, Order
from panel.core.errors import ApplicationError
from panel.deployments.models import Deployment
from panel.deployments.planning.selectors import live_revision
from panel.deployments.revisions.rendered import spec_of
from panel.hosts.models import Connection, Engine, Host, HostStatus, Layout, WebServer
from panel.rendering.capabilities import differences
from panel.websites import services as websites
from panel.websites.models import Site
from panel.websites.web_server_specs import web_server_spec
from tests.certificates.conftest import Make, World
from tests.certificates.test_addresses import ADDRESS, at_ipv6
from tests.certificates.test_addresses import trusted as address_is_trusted
from tests.certificates.test_orders import trusted
from tests.certificates.test_renewals import due
from tests.support.cast import signed_in
from tests.support.gallop import GallopInstance, gallop_binary
from tests.support.http_client import ask
from tests.support.ports import free_port


@pytest.fixture
def gallop(make_world: Make) -> World:
    world = make_world(Engine.NATIVE)
    world.web_server.modules = modules(gallop_binary())
    world.web_server.save()
    return world


def authority(world: World, tls_port: int = 0) -> AcmeAccount:
    """Its requests over HTTP reach nobody."""
    return world.authority(free_port(), tls_port=tls_port or world.https_port)


def enabled(world: World, site: Site, tls_port: int = 0, **values: object) -> Order:
    return world.run(world.enable(site, authority(world, tls_port), tls_challenges=True, **values))


def folder(world: World) -> Path:
    return Path(world.server.paths["config_root"]) / "paddock" / "_acme-challenge"


def test_first_certificate_of_a_site_without_tls_needs_no_port_80(gallop: World) -> None:
    site = gallop.site(domains=["shop.example", "www.shop.example"])
    order = enabled(gallop, site)
    assert order.status == "succeeded", [str(row) for row in order.records.all()]
    assert trusted(gallop) and trusted(gallop, "www.shop.example")
    assert ask(gallop.https_port, host="shop.example", tls=True).text == "this is shop"
    assert order.tokens == [] and list(folder(gallop).iterdir()) == []


def test_renewal_proves_the_names_beside_the_certificate_in_use(gallop: World) -> None:
    site = gallop.site()
    assert enabled(gallop, site).status == "succeeded"
    before = handshakes.presented(Listener("shop.example", ADDRESS, gallop.https_port, False, ""))
    due(site)
    gallop.turn()
    renewal = Order.objects.first()
    assert renewal is not None and Order.objects.count() == 2
    assert renewal.status == "succeeded", [str(row) for row in renewal.records.all()]
    after = handshakes.presented(Listener("shop.example", ADDRESS, gallop.https_port, False, ""))
    assert after != before and trusted(gallop)
    assert Deployment.objects.count() == 3, "challenges, certificate, renewed certificate"


def test_address_is_proven_by_its_name_for_reverse_lookups(gallop: World) -> None:
    order = enabled(gallop, gallop.site(domains=[ADDRESS, "shop.example"]), profile="shortlived")
    assert order.status == "succeeded", [str(row) for row in order.records.all()]
    assert address_is_trusted(gallop)


def test_ipv6_address_is_proven_by_its_name_for_reverse_lookups(gallop: World) -> None:
    order = enabled(gallop, at_ipv6(gallop), profile="shortlived")
    assert order.status == "succeeded", [str(row) for row in order.records.all()]
    assert address_is_trusted(gallop, "::1")


def test_visitors_get_no_certificate_of_a_challenge(gallop: World) -> None:
    site = gallop.site()
    order = gallop.enable(site, authority(gallop, free_port()), tls_challenges=True)  # it asks another port
    gallop.run(order)
    assert order.status == "failed" and order.tokens == [], order.error
    with pytest.raises(ssl.SSLError):
        ask(gallop.https_port, host="shop.example", tls=True)
    assert gallop.machine.get("shop").text == "this is shop"


def test_site_that_does_not_show_the_challenge_fails_before_the_authority_asks(gallop: World) -> None:
    site = gallop.site()
    assert enabled(gallop, site).status == "succeeded"
    live = live_revision(site)
    assert live is not None
    waiting = Challenge(ChallengeKind.TLS, "shop.example", "", "", "token.thumbprint", "missing")
    problem = challenge_files.unanswered(spec_of(live), gallop.machine.host, waiting)
    assert problem.startswith(f"shop.example on port {gallop.https_port} of ")
    assert "does not present the certificate of the challenge (the TLS handshake failed: tlsv1 alert no" in problem


def test_site_on_another_web_server_is_refused(world: World) -> None:
    with pytest.raises(ApplicationError, match="Only gallop proves domain names over TLS") as refused:
        world.enable(world.site(), world.authority(), tls_challenges=True)
    assert refused.value.field == "tls_challenges"


def test_older_gallop_and_dns_account_are_refused(make_world: Make) -> None:
    world = make_world(Engine.NATIVE)
    site, account = world.site(), world.authority()
    with pytest.raises(ApplicationError, match="Install gallop again"):
        world.enable(site, account, tls_challenges=True)
    dns = DnsAccount.objects.create(name="dns", team=world.people.team, kind="rfc2136")
    with pytest.raises(ApplicationError, match="Choose no DNS account"):
        world.enable(site, account, tls_challenges=True, dns=dns)


def test_difference_is_named_when_the_site_moves_to_another_web_server(gallop: World) -> None:
    site = gallop.site()
    assert enabled(gallop, site).status == "succeeded"
    live = live_revision(site)
    assert live is not None
    found = {
        engine: [item.what for item in differences(spec_of(live), server) if item.field == "/tls_challenge_port"]
        for engine, server in {
            "native": web_server_spec(gallop.web_server),
            "nginx": web_server_spec(WebServer(host=gallop.machine.host, engine="nginx", paths=gallop.server.paths)),
        }.items()
    }
    assert found == {
        "native": [],
        "nginx": ["of all web servers, only gallop proves domain names over TLS (TLS-ALPN-01)"],
    }


def test_live_site_proves_its_names_over_tls_while_its_draft_moves(gallop: World) -> None:
    site = gallop.site()
    assert enabled(gallop, site).status == "succeeded"
    live = live_revision(site)
    assert proving.kind_wanted(site.automatic, live) == ChallengeKind.TLS
    site.automatic.site.web_server = WebServer(host=gallop.machine.host, engine="nginx", paths=gallop.server.paths)
    assert proving.kind_wanted(site.automatic, live) == ChallengeKind.TLS
    assert proving.kind_wanted(site.automatic, None) == ChallengeKind.HTTP


@pytest.fixture
def second(gallop: World, server_root: Path) -> Iterator[Site]:
    """The same name on the gallop of another host, which has another address."""
    values = {"name": "node-2", "connection": Connection.LOCAL, "status": HostStatus.READY}
    host = Host.objects.create(**values, site_roots=[str(gallop.machine.root / "www")])
    with GallopInstance(server_root / "second") as server:
        known = {"layout": Layout.CONF_D, "modules": modules(gallop_binary())}
        row = WebServer.objects.create(host=host, engine=Engine.NATIVE, paths=server.paths, **known)
        site = gallop.machine.site("shop-2", row, domains=["shop.example"])
        at_address(gallop, site, "127.0.0.2")
        yield site


def at_address(world: World, site: Site, address: str) -> None:
    listens = [{"port": world.machine.port, "address": address}]
    websites.block_update(actor=world.people.admin, block=site.blocks.get(), listens=listens)
    world.machine.deploy(site)


def test_challenge_is_shown_by_every_host_of_the_name(gallop: World, second: Site) -> None:
    site = gallop.site()
    at_address(gallop, site, ADDRESS)
    account = authority(gallop)
    assert gallop.pebble is not None
    gallop.pebble.resolve("shop.example", "127.0.0.2")  # the authority asks the second host only
    order = gallop.run(gallop.enable(site, account, tls_challenges=True))
    assert order.status == "succeeded", [str(row) for row in order.records.all()]
    assert trusted(gallop)
    left = [path for path in gallop.machine.root.rglob("_acme-challenge/*") if path.is_file()]
    assert left == []


def test_web_page_offers_the_choice_for_gallop_only(gallop: World) -> None:
    client = signed_in(gallop.people.admin)
    account = authority(gallop)
    site = gallop.site()
    page = client.get(reverse("certificates:site", args=[site.name]))
    assert "Prove the names over TLS" in page.content.decode()
    values = {"account": account.pk, "tls_challenges": "on", "key_type": "p256"}
    client.post(reverse("certificates:site", args=[site.name]), values | {"https_port": gallop.https_port})
    site.refresh_from_db()
    assert site.automatic.tls_challenges and site.tls_challenge_port == gallop.https_port
    WebServer.objects.filter(pk=gallop.web_server.pk).update(engine=Engine.NGINX)
    other = gallop.site("blog")
    assert (
        "Prove the names over TLS" not in client.get(reverse("certificates:site", args=[other.name])).content.decode()
    )
