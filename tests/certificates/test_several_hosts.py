"""One domain name on several hosts, and one certificate for several sites."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils import timezone

from panel.certificates import challenge_files
from panel.certificates.models import AutomaticCertificate, DnsAccount, Order
from panel.deployments.models import Deployment, DeploymentKind
from panel.hosts.models import Connection, Engine, Host, HostStatus, Layout, WebServer
from panel.remote.errors import RemoteError
from panel.websites import services as websites
from panel.websites.models import Site
from panel.websites.versions import IS_PENDING
from tests.certificates.conftest import World
from tests.certificates.test_orders import trusted
from tests.certificates.test_renewals import due, pin_key, presented
from tests.support.cast import signed_in
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port


class Twins:
    """`first` and `second` serve the same name, each on a host of its own with ports of its own."""

    def __init__(self, world: World, server: NginxInstance) -> None:
        self.world, self.server = world, server
        values = {"name": "node-2", "connection": Connection.LOCAL, "status": HostStatus.READY}
        self.host = Host.objects.create(**values, site_roots=[str(world.machine.root / "www")])
        web_server = WebServer.objects.create(
            host=self.host, engine=Engine.NGINX, paths=server.paths, layout=Layout.SITES
        )
        self.http_port, self.https_port = free_port(), free_port()
        self.first = world.site("shop")
        self.second = world.machine.site("shop-2", web_server, domains=["shop.example"], port=self.http_port)
        world.machine.deploy(self.first)
        world.machine.deploy(self.second)

    def secure_second(self) -> None:
        """Let the second site use the certificate of the first one."""
        certificate = AutomaticCertificate.objects.get(site=self.first).certificate
        listens = [{"port": self.http_port}, {"port": self.https_port, "tls": True}]
        block = self.second.blocks.get()
        websites.block_update(actor=self.world.people.admin, block=block, listens=listens, certificate=certificate)
        self.world.machine.deploy(self.second)

    def presented(self) -> list[bytes]:
        """The certificates that the listeners of both sites present."""
        return [presented(port, "shop.example") for port in (self.world.https_port, self.https_port)]

    def renew(self) -> None:
        due(self.first)
        self.world.turn()
        self.world.turn()  # the second site follows once the first one presents the certificate


@pytest.fixture
def twins(world: World, server_root: Path) -> Iterator[Twins]:
    with NginxInstance(server_root / "second") as server:
        yield Twins(world, server)


def test_challenge_is_served_by_every_host_of_the_name(twins: Twins) -> None:
    account = twins.world.authority(twins.http_port)  # it asks the second host only
    order = twins.world.run(twins.world.enable(twins.first, account))
    assert order.status == "succeeded", order.error
    assert trusted(twins.world)
    left = [path for path in twins.world.machine.root.rglob("_acme-challenge/*") if path.is_file()]
    assert left == []


def test_renewed_certificate_reaches_every_site_that_uses_it(twins: Twins) -> None:
    order = twins.world.run(twins.world.enable(twins.first, twins.world.authority()))
    assert order.status == "succeeded", order.error
    twins.secure_second()
    before = twins.presented()
    assert before[0] == before[1]
    page = signed_in(twins.world.people.owner).get("/certificates/sites/shop-2").content.decode()
    assert "Automatic HTTPS of the site" in page and "/certificates/sites/shop" in page
    block = twins.second.blocks.get()
    websites.block_update(actor=twins.world.people.admin, block=block, index=["other.html"])
    twins.renew()
    after = twins.presented()
    assert after[0] == after[1] != before[0]
    renewals = Deployment.objects.filter(kind=DeploymentKind.CERTIFICATE).order_by("pk")
    assert [(row.host.name, row.status) for row in renewals] == [
        (twins.world.machine.host.name, "succeeded"),
        ("node-2", "succeeded"),
    ]
    assert ask(twins.https_port, host="shop.example", tls=True).text == "this is shop-2"  # not the draft's other.html
    assert [site.name for site in Site.objects.filter(IS_PENDING)] == ["shop-2"]  # its draft still waits
    twins.world.turn()
    assert renewals.count() == 2


def test_site_whose_host_is_down_follows_once_it_responds(twins: Twins) -> None:
    order = twins.world.run(twins.world.enable(twins.first, twins.world.authority()))
    assert order.status == "succeeded", order.error
    twins.secure_second()
    before = twins.presented()
    main = Path(twins.server.paths["main_config"])
    working = main.read_text()
    main.write_text("no such directive;")
    twins.renew()
    assert trusted(twins.world) and twins.presented()[1] == before[1] != twins.presented()[0]
    assert Order.objects.filter(status="succeeded").count() == 2
    renewals = Deployment.objects.filter(kind=DeploymentKind.CERTIFICATE, host=twins.host)
    assert [row.status for row in renewals] == ["rolled_back"]
    twins.world.turn()
    assert renewals.count() == 1  # the next attempt waits
    main.write_text(working)
    renewals.update(finished_at=timezone.now() - dt.timedelta(hours=2))
    twins.world.turn()
    twins.world.turn()
    assert twins.presented()[0] == twins.presented()[1]


def test_site_that_rejects_a_shared_certificate_stops_no_other_site_of_its_host(twins: Twins) -> None:
    order = twins.world.run(twins.world.enable(twins.first, twins.world.authority()))
    assert order.status == "succeeded", order.error
    third_port, own = free_port(), twins.second.web_server
    third = twins.world.machine.site("shop-3", own, domains=["shop.example"], port=free_port())
    twins.secure_second()
    certificate = AutomaticCertificate.objects.get(site=twins.first).certificate
    listens = [{"port": free_port()}, {"port": third_port, "tls": True}]
    websites.block_update(
        actor=twins.world.people.admin, block=third.blocks.get(), listens=listens, certificate=certificate
    )
    twins.world.machine.deploy(third)
    (conf,) = Path(twins.server.paths["main_config"]).parent.glob("sites-available/*shop-2*")
    pin_key(conf, conf.parent.parent / "kept.key")
    before = twins.presented()[1]
    twins.renew()
    twins.world.turn()
    assert presented(third_port, "shop.example") == twins.presented()[0] != before == twins.presented()[1]
    rows = Deployment.objects.filter(kind=DeploymentKind.CERTIFICATE, host=twins.host)
    found = [(row.status, sorted(item.site.name for item in row.items.all())) for row in rows.order_by("pk")]
    assert found[0] == ("rolled_back", ["shop-2", "shop-3"])
    assert sorted(found[1:]) == [("rolled_back", ["shop-2"]), ("succeeded", ["shop-3"])]
    twins.world.turn()
    assert rows.count() == 3  # the next attempt of the site that rejects the certificate waits


def test_unreachable_host_of_the_name_does_not_stop_the_order(twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    """The authority reaches the first host, for example by a virtual address."""
    put = challenge_files.put

    def unless_second(web_server: WebServer, files: dict[str, str]) -> None:
        if web_server.host == twins.host:
            raise RemoteError("node-2 does not respond.")
        put(web_server, files)

    account = twins.world.authority()
    monkeypatch.setattr(challenge_files, "put", unless_second)
    order = twins.world.run(twins.world.enable(twins.first, account))
    assert order.status == "succeeded", order.error
    assert order.records.filter(is_problem=True, text__contains="node-2 does not respond.").exists()


def test_draft_with_other_changes_is_not_deployed_for_a_challenge(twins: Twins) -> None:
    block = twins.second.blocks.get()
    websites.block_update(actor=twins.world.people.admin, block=block, index=["other.html"])
    order = twins.world.run(twins.world.enable(twins.first, twins.world.authority()))
    assert order.status == "succeeded", order.error
    assert order.records.filter(is_problem=True, text__contains="shop-2 does not serve the challenges").exists()
    assert ask(twins.http_port, host="shop.example").text == "this is shop-2"


def test_site_of_another_team_serves_no_challenge(twins: Twins) -> None:
    other = twins.world.people.other_team
    Site.objects.filter(pk=twins.second.pk).update(team=other)
    order = twins.world.run(twins.world.enable(twins.first, twins.world.authority()))
    assert order.status == "succeeded", order.error
    twins.second.refresh_from_db()
    assert not twins.second.answers_challenges and not (Path(twins.server.paths["config_root"]) / "paddock").exists()


def test_site_with_two_renewed_certificates_gets_them_in_one_deployment(twins: Twins) -> None:
    world, account = twins.world, twins.world.authority()
    blog = world.site("blog")
    for site in (twins.first, blog):
        order = world.run(world.enable(site, account))
        assert order.status == "succeeded", order.error
    twins.secure_second()
    certificate = AutomaticCertificate.objects.get(site=blog).certificate
    listens = [{"port": twins.https_port, "tls": True}]
    websites.block_create(
        actor=world.people.admin,
        site=twins.second,
        names=["blog.example"],
        listens=listens,
        certificate=certificate,
        root=str(world.machine.files("blog")),
    )
    world.machine.deploy(twins.second)
    due(blog)
    twins.renew()
    renewals = Deployment.objects.filter(kind=DeploymentKind.CERTIFICATE, host=twins.host)
    assert [(row.status, row.items.count()) for row in renewals] == [("succeeded", 1)]
    for name in ("shop.example", "blog.example"):
        assert presented(world.https_port, name) == presented(twins.https_port, name)


def test_site_that_is_new_on_its_host_lets_the_others_serve_challenges(twins: Twins) -> None:
    other = twins.second.web_server
    assert other is not None
    known = twins.world.machine.site("known", other, domains=["new.example"], port=twins.http_port)
    twins.world.machine.deploy(known)
    account = twins.world.authority(twins.http_port)
    order = twins.world.run(twins.world.enable(twins.world.site("new"), account))
    assert order.status == "succeeded", order.error
    assert order.records.filter(text="The site known serves challenges on node-2.").exists()


def test_twin_that_proves_its_names_by_dns_is_left_as_it_is(twins: Twins) -> None:
    account = twins.world.authority()
    dns = DnsAccount.objects.create(name="dns", team=twins.world.people.team, kind="rfc2136")
    AutomaticCertificate.objects.create(site=twins.second, account=account, dns=dns)
    order = twins.world.run(twins.world.enable(twins.first, account))
    assert order.status == "succeeded", order.error
    twins.second.refresh_from_db()
    assert not twins.second.answers_challenges
