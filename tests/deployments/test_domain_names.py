"""A plan names domain names that do not lead to its host, as a real DNS server tells."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from panel.deployments.planning import services
from panel.hosts.models import HostStatus
from panel.websites import services as websites
from panel.websites.models import Site
from tests.support.cast import Cast
from tests.support.dns_servers import Knot
from tests.support.ports import free_port

ZONE = "corp.internal"


@pytest.fixture(autouse=True)
def names(server_root: Path, settings: Settings) -> Iterator[Knot]:
    server = Knot(server_root, free_port(), zone=ZONE)
    zone = next(server.root.glob("*.zone"))
    records = f"right.{ZONE}. 5 A 9.9.9.9\nwrong.{ZONE}. 5 A 8.8.8.8\n"
    zone.write_text(zone.read_text() + records)
    settings.DNS_RESOLVERS = [f"{server.address}:{server.port}"]
    with server:
        yield server


@pytest.fixture
def site(people: Cast) -> Site:
    people.host.address, people.host.facts = "9.9.9.9", {"addresses": ["127.0.0.1", "10.0.0.5"]}
    people.host.save()
    return websites.site_create(
        actor=people.owner,
        team=people.team,
        name="shop",
        domains=[f"right.{ZONE}", f"wrong.{ZONE}", f"missing.{ZONE}", "shop.example"],
        web_server=people.nginx,
        root="/srv/www/shop",
    )


def observed(people: Cast, site: Site) -> list[str]:
    (plan,) = services.deployment_plan(actor=people.owner, sites=[Site.objects.get(pk=site.pk)])
    return [note.text for note in plan.plan.warnings if "domain name" in note.text]


def test_plan_names_domain_names_that_point_elsewhere_or_nowhere(people: Cast, site: Site) -> None:
    assert people.host.status == HostStatus.UNREACHABLE, "DNS is asked by the panel"
    assert observed(people, site) == [
        f"The domain name wrong.{ZONE} points to 8.8.8.8, not to web-1 (9.9.9.9).",
        f"The domain name missing.{ZONE} has no address in DNS.",
    ]


def test_names_of_a_host_behind_a_nat_are_only_named_when_they_do_not_exist(people: Cast, site: Site) -> None:
    people.host.address = "10.0.0.5"
    people.host.save()
    assert observed(people, site) == [f"The domain name missing.{ZONE} has no address in DNS."]


def test_plan_does_not_wait_for_a_dns_server_that_is_silent(people: Cast, site: Site, settings: Settings) -> None:
    settings.DNS_RESOLVERS = ["127.0.0.3:9"]
    began = time.monotonic()
    assert observed(people, site) == []
    assert time.monotonic() - began < 20
