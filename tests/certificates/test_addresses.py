"""Certificates for IP addresses (RFC 8738)."""

from __future__ import annotations

import ipaddress
import socket
import ssl

import pytest
from django.core.exceptions import ValidationError

from panel.certificates.models import DnsAccount
from panel.core.errors import ApplicationError
from panel.hosts.models import Engine
from panel.websites import services as websites
from panel.websites.models import Site
from tests.certificates.conftest import Make, World
from tests.support.http_client import ask

ADDRESS = "127.0.0.1"


def trusted(world: World, address: str = ADDRESS) -> bool:
    """Return whether a client that trusts only the authority accepts the certificate for the address."""
    assert world.pebble is not None
    context = ssl.create_default_context(cadata=world.pebble.root_pem())
    plain = socket.create_connection((address, world.https_port), 5)
    with context.wrap_socket(plain, server_hostname=address) as secure:  # without SNI, as RFC 6066 section 3 wants
        names = dict(secure.getpeercert() or {})["subjectAltName"]
        return ipaddress.ip_address(address) in [
            ipaddress.ip_address(value) for kind, value in names if kind == "IP Address"
        ]


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
    assert f"for {ADDRESS}: the web server presents another certificate" in order.error
    assert ask(world.machine.port, host=ADDRESS).text == "this is zzz"


def test_address_is_refused_with_a_dns_account(world: World) -> None:
    dns = DnsAccount.objects.create(name="dns", team=world.people.team, kind="rfc2136")
    with pytest.raises(ApplicationError, match=f"DNS record cannot prove an IP address, and .*{ADDRESS}"):
        world.enable(world.site(domains=[ADDRESS]), world.authority(), dns=dns)


def at_ipv6(world: World, **values: object) -> Site:
    """A site whose name is the IPv6 loopback address, at which it listens too."""
    site = world.site(domains=["[0:0::1]", "shop.example"], **values)
    listens = [{"port": world.machine.port}, {"port": world.machine.port, "address": "::"}]
    websites.block_update(actor=world.people.admin, block=site.blocks.get(), listens=listens)
    return site


@pytest.mark.parametrize("engine", [Engine.NGINX, Engine.APACHE, Engine.NATIVE])
def test_certificate_for_an_ipv6_address(make_world: Make, engine: Engine) -> None:
    world = make_world(engine)
    site = at_ipv6(world)
    order = world.run(world.enable(site, world.authority(), profile="shortlived"))
    assert order.status == "succeeded", [str(row) for row in order.records.all()]
    assert order.names == ["::1", "shop.example"]
    assert trusted(world, "::1")
    assert not any(item["problem"] for item in order.seen)


@pytest.mark.parametrize("name", ["[::1", "[::g]", "[fe80::1%eth0]", "[127.0.0.1]", "::1"])
def test_name_that_is_no_ipv6_address_in_brackets_is_refused(world: World, name: str) -> None:
    with pytest.raises(ValidationError):
        world.site(domains=[name])
