"""DNS-01: wildcard certificates proven on real DNS servers, and records that are always removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from panel.certificates import scheduling
from panel.certificates.dns import lookups, records
from panel.certificates.dns.services import dns_account_create, dns_account_delete, dns_account_test
from panel.certificates.models import ChallengeRecord, DnsAccount, Order
from panel.core import resolvers
from panel.core.errors import ApplicationError
from panel.websites.models import Certificate
from tests.certificates.conftest import World
from tests.certificates.test_orders import trusted
from tests.support.dns_servers import KEY, KEY_NAME, Bind, DnsServer, Knot, PowerDns
from tests.support.ports import free_port
from tests.support.waiting import eventually

CHALLENGE = "_acme-challenge.shop.example"


@dataclass
class Names:
    """A zone with a primary server that takes updates and a secondary server."""

    primary: DnsServer
    secondary: DnsServer

    @property
    def place(self) -> str:
        return f"{self.primary.address}:{self.primary.port}"

    def are_empty(self) -> bool:
        """Whether the record is gone, soon, from both servers."""
        return eventually(lambda: not [*self.primary.texts(CHALLENGE), *self.secondary.texts(CHALLENGE)])


def names_of(root: Path, settings: Settings, primary: type[DnsServer], secondary: type[DnsServer]) -> Iterator[Names]:
    port = free_port()
    settings.DNS_RESOLVERS, settings.DNS_PORT = [f"{primary.address}:{port}"], port
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    with ExitStack() as stack:
        yield Names(
            stack.enter_context(primary(root, port, others=(secondary.address,))),
            stack.enter_context(secondary(root, port, primary=primary.address)),
        )


@pytest.fixture(params=[(Bind, Knot), (Knot, Bind)], ids=["bind9", "knot"])
def names(request: pytest.FixtureRequest, server_root: Path, settings: Settings) -> Iterator[Names]:
    yield from names_of(server_root, settings, *request.param)


@pytest.fixture
def bind(server_root: Path, settings: Settings) -> Iterator[Names]:
    yield from names_of(server_root, settings, Bind, Knot)


def account(world: World, names: Names, **values: str) -> DnsAccount:
    given = {"server": names.place, "key_name": KEY_NAME, "secret": KEY, **values}
    people = world.people
    return dns_account_create(actor=people.owner, team=people.team, name="dns", kind="rfc2136", settings=given)


def ordered(world: World, names: Names, *domains: str) -> Order:
    site = world.site(domains=list(domains))
    authority = world.authority(dns=names.place)
    return world.enable(site, authority, dns=account(world, names))


def test_wildcard_certificate_is_issued_and_presented(world: World, names: Names) -> None:
    order = world.run(ordered(world, names, "shop.example", "*.shop.example"))
    assert order.status == "succeeded", [row.text for row in order.records.all()]
    assert sorted(Certificate.objects.get().names) == ["*.shop.example", "shop.example"]
    assert trusted(world) and trusted(world, "anything.shop.example")
    assert {item["name"] for item in order.seen} == {"shop.example", "paddock-check.shop.example"}
    assert names.are_empty() and not ChallengeRecord.objects.exists()


def test_name_that_is_delegated_by_cname_is_proven_at_its_target(world: World, bind: Names) -> None:
    order = world.run(ordered(world, bind, "moved.example"))
    assert order.status == "succeeded", [row.text for row in order.records.all()]


def test_authority_is_asked_only_when_every_authoritative_server_has_the_record(
    world: World, bind: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "SEEN_TIMEOUT_S", 2.0)
    bind.secondary.stop()
    order = world.run(ordered(world, bind, "shop.example"))
    assert order.status == "queued" and "ns1.example (127.0.0.2) does not respond" in order.progress
    assert bind.primary.texts(CHALLENGE), "the record waits for the other server"
    bind.secondary.start()
    Order.objects.update(retry_at=None)
    assert world.run(order).status == "succeeded", [row.text for row in order.records.all()]
    assert bind.are_empty()


def test_wrong_key_is_told_and_leaves_no_record(world: World, bind: Names) -> None:
    site = world.site(domains=["shop.example"])
    authority = world.authority(dns=bind.place)
    wrong = account(world, bind, secret="d3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmc=")
    order = world.run(world.enable(site, authority, dns=wrong))
    assert order.status == "failed" and f"refused the key {KEY_NAME}" in order.error
    assert bind.are_empty()


def test_record_of_a_killed_worker_is_removed(world: World, bind: Names) -> None:
    order = ordered(world, bind, "shop.example")
    records.put(order, account_of(order), {"shop.example": ["left-behind"]})
    Order.objects.update(status="running", claimed_by="gone")
    records.clear()
    assert bind.primary.texts(CHALLENGE) == ["left-behind"], "its order may go on"
    Order.objects.update(status="failed")
    records.clear()
    assert bind.primary.texts(CHALLENGE) == [] and not ChallengeRecord.objects.exists()


def test_record_is_removed_later_when_the_server_is_away(world: World, bind: Names) -> None:
    order = ordered(world, bind, "shop.example")
    records.put(order, account_of(order), {"shop.example": ["left-behind"]})
    Order.objects.update(status="failed")
    bind.primary.stop()
    records.clear()
    assert ChallengeRecord.objects.count() == 1
    with pytest.raises(ApplicationError, match="still has to remove DNS records"):
        dns_account_delete(actor=world.people.owner, account=account_of(order))
    bind.primary.start()
    ChallengeRecord.objects.update(try_at=order.created_at)
    scheduling.look()
    assert bind.primary.texts(CHALLENGE) == [] and not ChallengeRecord.objects.exists()


def account_of(order: Order) -> DnsAccount:
    found = order.automatic.dns
    assert found is not None
    return found


def test_account_is_tested_with_a_record_that_is_removed(world: World, names: Names) -> None:
    tested = dns_account_test(actor=world.people.owner, account=account(world, names), domain="shop.example")
    assert tested.problem == "" and tested.tested_at is not None
    assert names.are_empty()
    tested = dns_account_test(actor=world.people.owner, account=tested, domain="shop.unknown")
    assert "zone" in tested.problem or "cannot look up" in tested.problem


def test_private_server_is_refused_unless_the_operator_allows_its_network(
    world: World, bind: Names, settings: Settings
) -> None:
    settings.WEBHOOK_NETWORKS = []
    tested = dns_account_test(actor=world.people.owner, account=account(world, bind), domain="shop.example")
    assert "not a public address" in tested.problem
    assert bind.are_empty()


def test_program_writes_records_when_the_operator_allows_it(
    world: World, bind: Names, settings: Settings, tmp_path: Path
) -> None:
    people, folder = world.people, tmp_path / "hooks"
    values = {"actor": people.admin, "team": people.team, "name": "hook", "kind": "hook"}
    with pytest.raises(Exception, match="Your role"):
        dns_account_create(**(values | {"actor": people.owner}), settings={"program": "write"})
    hook = dns_account_create(**values, settings={"program": "write"})
    assert "PADDOCK_DNS_HOOKS" in dns_account_test(actor=people.admin, account=hook, domain="shop.example").problem
    folder.mkdir(mode=0o755)
    settings.DNS_HOOKS = str(folder)
    program = folder / "write"
    program.write_text(
        f"#!/bin/sh\n[ $1 = add ] && verb=add || verb=delete\n"
        f"nsupdate -y hmac-sha256:{KEY_NAME}:{KEY} <<END\nserver 127.0.0.1 {bind.primary.port}\nzone $2\n"
        f'update $verb $3. 5 TXT "$4"\nsend\nEND\n'
    )
    program.chmod(0o777)
    assert "may change it" in _tested(world, hook)
    program.chmod(0o755)
    assert _tested(world, hook) == ""
    assert bind.are_empty()


def _tested(world: World, row: DnsAccount) -> str:
    return dns_account_test(actor=world.people.admin, account=row, domain="shop.example").problem


def test_provider_of_the_library_writes_both_records_of_a_wildcard(
    world: World, server_root: Path, settings: Settings
) -> None:
    """PowerDNS's API stands for the providers that dns-lexicon drives; the others cannot run here."""
    people = world.people
    with PowerDns(server_root) as server:
        settings.DNS_RESOLVERS, settings.DNS_PORT = [f"127.0.0.1:{server.port}"], server.port
        settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
        given = {"url": server.url, "token": server.key}
        made = dns_account_create(actor=people.owner, team=people.team, name="pdns", kind="powerdns", settings=given)
        rows = records.put(None, made, {"shop.example": ["one", "two"]})
        assert sorted(server.texts(CHALLENGE)) == ["one", "two"] and records.unseen(rows) == []
        assert records.remove(rows[:1]) == [] and server.texts(CHALLENGE) == ["two"]
        records.clear()
        assert server.texts(CHALLENGE) == []
        site = world.site(domains=["shop.example", "*.shop.example"])
        authority = world.authority(dns=f"127.0.0.1:{server.port}")
        order = world.run(world.enable(site, authority, dns=made))
        assert order.status == "succeeded", [row.text for row in order.records.all()]
        assert server.texts(CHALLENGE) == []
        wrong = dns_account_create(
            actor=people.owner, team=people.team, name="wrong", kind="powerdns", settings=given | {"token": "wrong-key"}
        )
        problem = dns_account_test(actor=people.owner, account=wrong, domain="shop.example").problem
        assert "PowerDNS refused the change" in problem and "wrong-key" not in problem


def test_other_team_cannot_use_or_test_the_account(world: World, bind: Names) -> None:
    mine = account(world, bind)
    with pytest.raises(Exception, match="team"):
        dns_account_test(actor=world.people.outsider, account=mine, domain="shop.example")


def test_names_of_challenges() -> None:
    assert lookups.challenge_name("*.Shop.example.") == "_acme-challenge.shop.example"
    assert resolvers.place_of("[::1]:5353", 53) == ("::1", 5353)
    assert resolvers.place_of("2001:db8::1", 53) == ("2001:db8::1", 53)
    assert resolvers.place_of("ns.example", 53) == ("ns.example", 53)


def test_pages_add_test_and_use_an_account_and_never_show_its_key(world: World, bind: Names, client: Client) -> None:
    people = world.people
    client.force_login(people.owner)
    values = {"name": "dns", "team": people.team.pk, "server": bind.place, "key_name": KEY_NAME, "secret": KEY}
    page = client.post("/certificates/dns/add/rfc2136", values | {"algorithm": "hmac-sha256"})
    assert page.headers.get("Location") == "/certificates/dns/dns", page.content.decode()
    page = client.post("/certificates/dns/dns/test", {"domain": "shop.example"}, follow=True)
    assert "saw the record on every authoritative DNS server" in page.content.decode()
    texts = [client.get(path).content.decode() for path in ("/certificates/dns", "/certificates/dns/dns", "/audit/")]
    assert not any(KEY in text for text in texts)
    client.force_login(people.outsider)
    assert client.get("/certificates/dns/dns").status_code == 404
    assert client.post("/certificates/dns/dns/test", {"domain": "shop.example"}).status_code == 404
    assert client.post("/certificates/dns/dns/delete", {"confirm": "dns"}).status_code == 404


def test_api_turns_wildcards_on_and_never_sends_the_key(world: World, bind: Names, client: Client) -> None:
    people = world.people
    client.force_login(people.admin)
    settings = {"server": bind.place, "key_name": KEY_NAME, "secret": KEY}
    body = {"team": people.team.slug, "name": "dns", "kind": "rfc2136", "settings": settings}
    made = client.post("/api/v1/dns-accounts/", body, content_type="application/json")
    assert made.status_code == 201 and KEY not in made.content.decode(), made.content
    assert made.json()["settings"]["server"] == bind.place
    wrong = body | {"name": "wrong", "settings": {"server": bind.place, "colour": "red"}}
    refused = client.post("/api/v1/dns-accounts/", wrong, content_type="application/json")
    assert refused.status_code == 422 and "/settings/colour" in refused.content.decode()
    site = world.site(domains=["shop.example", "*.shop.example"])
    authority = world.authority(dns=bind.place)
    https = {"site": site.name, "account": authority.name, "https_port": world.https_port}
    without = client.post("/api/v1/automatic-https/", https, content_type="application/json")
    assert without.status_code == 422 and "Choose a DNS account" in without.content.decode()
    done = client.post("/api/v1/automatic-https/", https | {"dns": "dns"}, content_type="application/json")
    assert done.status_code == 202, done.content
    assert world.run(Order.objects.get()).status == "succeeded"
    assert client.delete("/api/v1/dns-accounts/dns/", headers={"If-Match": "*"}).status_code in (409, 412, 422, 428)
