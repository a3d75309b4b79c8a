"""Certificates for IP addresses (RFC 8738)."""

from __future__ import annotations

import socket
import ssl

import pytest

from panel.certificates.models import DnsAccount
from panel.core.errors import ApplicationError
from panel.hosts.models import Engine
from tests.certificates.conftest import Make, World
from tests.support.http_client import ask

ADDRESS = "127.0.0.1"


def trusted(world: World) -> bool:
    """Return whether a client that trusts only the authority accepts the certificate for the address."""
    assert world.pebble is not None
    context = ssl.create_default_context(cadata=world.pebble.root_pem())
    plain = socket.create_connection((ADDRESS, world.https_port), 5)
    with context.wrap_socket(plain, server_hostname=ADDRESS) as secure:  # without SNI, as RFC 6066 section 3 wants
        return ("IP Address", ADDRESS) in dict(secure.getpeercert() or {})["subjectAltName"]


@pytest.mark.parametrize("engine", [Engine.NGINX, Engine.APACHE, Engine.NATIVE])
def test_certificate_for_an_address_is_presented_without_a_name(make_world: Make, engine: Engine) -> None:
    world = make_world(engine)
    site = world.site(domains=[ADDRESS, "shop.example"])
    order = world.run(world.enable(site, world.authority(), profile="shortlived"))
    assert order.status == "succeeded", order.error
    assert order.names == [ADDRESS, "shop.example"]
    assert trusted(world)
    assert {item["name"] for item in order.seen} == {ADDRESS, "shop.example"}
    assert not any(item["problem"] for item in order.seen)


def test_address_whose_site_is_not_the_default_server_keeps_its_former_configuration(world: World) -> None:
    account = world.authority()
    first = world.run(world.enable(world.site("aaa"), account))
    assert first.status == "succeeded", first.error
    site = world.site("zzz", domains=[ADDRESS])
    order = world.run(world.enable(site, account, profile="shortlived"))
    assert order.status == "failed"
    assert f"for {ADDRESS}: it presents another certificate" in order.error
    assert ask(world.machine.port, host=ADDRESS).text == "this is zzz"


def test_address_is_refused_with_a_dns_account(world: World) -> None:
    dns = DnsAccount.objects.create(name="dns", team=world.people.team, kind="rfc2136")
    with pytest.raises(ApplicationError, match=f"HTTP-01.*{ADDRESS}"):
        world.enable(world.site(domains=[ADDRESS]), world.authority(), dns=dns)
