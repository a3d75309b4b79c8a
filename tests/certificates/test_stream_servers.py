"""Renewed certificates of stream servers."""

from __future__ import annotations

from panel.certificates import watching
from panel.certificates.models import AutomaticCertificate, CertificateWatch
from panel.hosts.models import Engine, WebServer
from panel.websites import services as websites
from tests.certificates.conftest import Make
from tests.certificates.test_renewals import due, presented
from tests.support.echo_server import EchoServer
from tests.support.nginx_streams import StreamingNginx
from tests.support.ports import free_port
from tests.support.tls_echo import tls_said
from tests.support.waiting import eventually


def test_renewed_certificate_reaches_stream_servers_of_its_site_and_of_other_sites(make_world: Make) -> None:
    world, own, other = make_world(Engine.NGINX, kind=StreamingNginx), free_port(), free_port()
    WebServer.objects.update(modules=["ngx_stream_module"], is_running=True)
    world.web_server.refresh_from_db()
    admin, site = world.people.admin, world.site()
    order = world.run(world.enable(site, world.authority()))
    assert order.status == "succeeded", order.error
    certificate = AutomaticCertificate.objects.get().certificate
    assert certificate is not None
    with EchoServer("db") as app:
        servers = [{"address": app.address}]
        upstream = websites.upstream_create(actor=admin, site=site, name="db", servers=servers)
        websites.stream_server_create(
            actor=admin, site=site, name="mail", port=own, upstream=upstream, certificate=certificate
        )
        websites.stream_server_create(  # refuses the panel, which then cannot check the certificate
            actor=admin,
            site=site,
            name="private",
            port=free_port(),
            upstream=upstream,
            certificate=certificate,
            allowed=["192.0.2.1"],
        )
        mail = {"name": "mail", "port": other, "upstream": "db", "certificate": certificate.name}
        data = {
            "name": "only",
            "team": "shop",
            "web_server": world.web_server.pk,
            "upstreams": [{"name": "db", "servers": servers}],
            "stream_servers": [mail],
        }
        second = websites.site_define(actor=admin, data=data)
        world.machine.deploy(site)
        world.machine.deploy(second)
        ports = (world.https_port, own, other)
        before = {presented(port, "shop.example") for port in ports}
        assert len(before) == 1
        due(site)
        world.turn()
        world.turn()  # the second site follows once the first one presents the certificate

        def is_new() -> bool:
            found = {presented(port, "shop.example") for port in ports}
            return len(found) == 1 and found != before

        assert eventually(is_new)
        assert tls_said(own)[1] == tls_said(other)[1] == b"db:hello"
        order = site.automatic.orders.latest("pk")
        assert order.status == "succeeded", order.error
        streams = [item for item in order.seen if item["name"] == "any name"]
        assert streams == [{"listener": f"TCP *:{own}", "name": "any name", "problem": ""}]
        assert watching.look(pause=lambda _seconds: None) == 2
        assert not CertificateWatch.objects.exclude(problems=[]).exists()
