"""Live sites whose domain names leave their host raise an alert, as a real DNS server tells."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings

from panel.alerts.selectors import alerts, mailed_alerts
from panel.deployments.domain_names import watching
from panel.deployments.models import NameWatch, SiteState, SiteStatus
from panel.websites import services as websites
from panel.websites.models import Site
from tests.deployments.sample_plans import live
from tests.support.cast import Cast
from tests.support.dns_servers import Knot
from tests.support.ports import free_port

ZONE = "corp.internal"
OWN, OTHER = "9.9.9.9", "8.8.8.8"


class Names:
    """A real DNS server whose records can be changed."""

    def __init__(self, server: Knot) -> None:
        self.server = server
        self.zone = next(server.root.glob("*.zone"))
        lines = self.zone.read_text().splitlines(keepends=True)
        self.first = "".join(line for line in lines if not line.startswith("*"))

    def set(self, **records: str) -> None:
        """Addresses by name; a name without one has no record. The server is started again to read them."""
        self.server.process.stop()
        lines = "".join(f"{name}.{ZONE}. 5 A {address}\n" for name, address in records.items() if address)
        self.zone.write_text(self.first + lines)
        self.server.start()


@pytest.fixture
def names(server_root: Path, settings: Settings) -> Iterator[Names]:
    server = Knot(server_root, free_port(), zone=ZONE)
    settings.DNS_RESOLVERS = [f"{server.address}:{server.port}"]
    found = Names(server)
    server.start()
    yield found
    server.process.stop()


@pytest.fixture
def site(people: Cast) -> Site:
    people.host.address, people.host.facts = OWN, {"addresses": ["10.0.0.5"]}
    people.host.save()
    found = websites.site_create(
        actor=people.owner,
        team=people.team,
        name="shop",
        domains=[f"www.{ZONE}", f"store.{ZONE}", f"cdn.{ZONE}", "shop.example"],
        web_server=people.nginx,
        root="/srv/www/shop",
    )
    live(people, found)
    return found


def told(people: Cast) -> list[str]:
    return [str(alert.detail) for alert in alerts(people.owner) if str(alert.label) == "Domain name points elsewhere"]


def test_name_that_leaves_the_host_raises_an_alert_until_it_is_back(people: Cast, site: Site, names: Names) -> None:
    names.set(www=OWN, store=OWN, cdn=OTHER)
    assert watching.look() == 1
    assert told(people) == [], "cdn never led to the host: a proxy may stand in front"
    names.set(www=OTHER, store="", cdn=OTHER)
    watching.look()
    (words,) = told(people)
    assert f"www.{ZONE} now points to {OTHER}, no longer to web-1 ({OWN})." in words
    assert f"store.{ZONE} no longer has an address in DNS" in words and "cdn" not in words
    assert [alert.title for alert in mailed_alerts(people.owner, 6) if alert.status == "missed"] == ["shop"]
    since = NameWatch.objects.get().gone_since
    watching.look()
    assert NameWatch.objects.get().gone_since == since
    assert not [alert for alert in alerts(people.outsider) if alert.title == "shop"]
    names.set(www=OWN, store=OWN)
    watching.look()
    assert told(people) == [] and NameWatch.objects.get().gone_since is None


def test_silent_dns_server_changes_nothing(people: Cast, site: Site, names: Names) -> None:
    names.set(www=OWN, store=OTHER)
    watching.look()
    names.server.process.stop()
    watching.look()
    assert told(people) == [] and NameWatch.objects.get().here == [f"www.{ZONE}"]
    names.set(www=OTHER)
    watching.look()
    assert len(told(people)) == 1
    names.server.process.stop()
    watching.look()
    assert len(told(people)) == 1, "what was known stays"


def test_name_that_stays_elsewhere_for_two_weeks_is_taken_as_intended(people: Cast, site: Site, names: Names) -> None:
    names.set(www=OWN)
    watching.look()
    names.set(www=OTHER)
    watching.look()
    assert told(people)
    NameWatch.objects.update(gone_since=timezone.now() - watching.TAKEN_AS_INTENDED - dt.timedelta(hours=1))
    watching.look()
    assert told(people) == []
    watching.look()
    assert told(people) == []


def test_disabled_site_and_removed_name_raise_no_alert(people: Cast, site: Site, names: Names) -> None:
    names.set(www=OWN, store=OWN)
    watching.look()
    names.set(www=OTHER, store=OTHER)
    watching.look()
    assert told(people)
    SiteState.objects.filter(site=site).update(status=SiteStatus.DISABLED)
    assert told(people) == []
    assert watching.look() == 0


def test_sites_not_looked_up_for_longest_come_first(
    people: Cast, site: Site, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    names.set(www=OWN)
    other = websites.site_create(
        actor=people.owner,
        team=people.team,
        name="blog",
        domains=[f"blog.{ZONE}"],
        web_server=people.nginx,
        root="/srv/www/blog",
    )
    live(people, other)
    monkeypatch.setattr(watching, "MOST_SITES", 1)
    assert watching.look() == 1 and watching.look() == 1
    assert NameWatch.objects.count() == 2
