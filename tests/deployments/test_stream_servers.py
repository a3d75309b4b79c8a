"""Stream servers deployed to a real nginx and a real gallop: what passes, what is refused, and what is undone."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from panel.deployments.drift import services as drift
from panel.deployments.models import DeploymentStatus, Health, SiteState, SiteStatus, WebServerState
from panel.deployments.planning import services
from panel.deployments.watching.services import host_watch
from panel.hosts.models import Engine, WebServer
from panel.websites import services as websites
from panel.websites.models import Site, StreamServer
from tests.deployments.real_host import Machine
from tests.deployments.stream_host import StreamHost
from tests.support.echo_server import EchoServer, tcp_said, udp_said
from tests.support.ports import free_port
from tests.support.waiting import eventually

INCLUDING = "modules-enabled/99-paddock-streams.conf"


def test_connections_pass_to_the_upstream_after_deployment(stream_host: StreamHost) -> None:
    port, machine = free_port(), stream_host.machine
    with EchoServer("db") as app:
        site = stream_host.site("db", app.address, {"port": port, "address": "127.0.0.1", "proxy_protocol": True})
        plan = machine.plan(site)
        assert str(stream_host.file("db")) in [file.path for file in plan.plan.changed_files]
        assert any("proxy_pass" in file.diff for file in plan.plan.files)
        assert not [note for note in plan.plan.warnings if note.is_observed]
        machine.run(plan)
        assert plan.status == DeploymentStatus.SUCCEEDED, plan.error
        response = tcp_said(port)
        assert response.startswith(b"db:PROXY TCP4 127.0.0.1 127.0.0.1 "), response
        state = SiteState.objects.get(site=site)
        assert (state.status, state.health) == (SiteStatus.LIVE, Health.ANSWERING), state.health_words
        assert state.health_words == f"tcp://127.0.0.1:{port} accepts connections"
        assert plan.is_verified
        assert drift.drift_check(machine.host) == []


def test_datagrams_pass_to_the_upstream_after_deployment(stream_host: StreamHost) -> None:
    port, machine = free_port(), stream_host.machine
    with EchoServer("dns", "udp") as app:
        site = stream_host.site("dns", app.address, {"port": port, "protocol": "udp"})
        plan = machine.plan(site)
        assert not [note for note in plan.plan.warnings if note.is_observed], "nothing listens there for TCP"
        machine.run(plan)
        assert plan.status == DeploymentStatus.SUCCEEDED, plan.error
        assert udp_said(port) == b"dns:hello"
        state = SiteState.objects.get(site=site)
        assert state.health_words == f"udp://127.0.0.1:{port} has a socket of a program on the host"


def test_last_disabled_site_takes_the_stream_block_with_it(on_nginx: StreamHost) -> None:
    machine, including = on_nginx.machine, on_nginx.root / INCLUDING
    first, second = free_port(), free_port()
    with EchoServer("a") as one, EchoServer("b") as two:
        sites = [
            on_nginx.site("one", one.address, {"port": first}),
            on_nginx.site("two", two.address, {"port": second}),
        ]
        machine.deploy(sites[0])
        text = including.read_text()
        machine.deploy(sites[1])
        shop = machine.site("shop", on_nginx.web_server)
        machine.deploy(shop)
        assert including.read_text() == text, "a site without stream servers leaves the file alone"
        assert [item["path"] for item in WebServerState.objects.get().files] == [str(including)]
        for site, port, other in ((sites[0], first, second), (sites[1], second, 0)):
            (plan,) = services.sites_disable(actor=machine.people.owner, sites=[site])
            machine.run(plan)
            assert plan.status == DeploymentStatus.SUCCEEDED, plan.error
            assert eventually(lambda port=port: tcp_said(port) == b"")  # type: ignore[misc]
            assert on_nginx.file(site.name).with_suffix(".conf.disabled").exists()
            assert including.exists() is bool(other)
            assert not other or tcp_said(other) == b"b:hello"
        assert machine.answers("shop", "this is shop")
        assert drift.drift_check(machine.host) == []


def test_edit_of_the_file_on_the_host_is_drift_of_the_site(stream_host: StreamHost) -> None:
    with EchoServer() as app:
        site = stream_host.site("db", app.address, {"port": free_port()})
        stream_host.machine.deploy(site)
    file = stream_host.file("db")
    file.write_text(file.read_text() + "# by hand\n")
    (row,) = drift.drift_check(stream_host.machine.host)
    assert (row.site, row.path) == (site, str(file))


def test_configuration_that_the_server_rejects_is_rolled_back(stream_host: StreamHost) -> None:
    """The web server looks the name up when it is tested."""
    port, machine = free_port(), stream_host.machine
    with EchoServer("db") as app:
        site = stream_host.site("db", app.address, {"port": port})
        machine.deploy(site)
        before = stream_host.file("db").read_text()
        websites.upstream_update(
            actor=machine.people.admin, upstream=site.upstreams.get(), servers=[{"address": "nowhere.invalid:5432"}]
        )
        assert "nowhere.invalid" in stream_host.rolled_back(site).error
        assert stream_host.file("db").read_text() == before
        assert tcp_said(port) == b"db:hello"


def test_second_stream_block_is_rolled_back_with_the_message_of_nginx(on_nginx: StreamHost) -> None:
    own = on_nginx.root / "nginx.conf"
    own.write_text(own.read_text() + "stream { }\n")
    with EchoServer() as app:
        site = on_nginx.site("db", app.address, {"port": free_port()})
        assert '"stream" directive is duplicate' in on_nginx.rolled_back(site).error
    assert not on_nginx.file("db").exists() and not (on_nginx.root / INCLUDING).exists()


def test_upstream_without_listener_is_a_warning_at_first_and_undone_later(stream_host: StreamHost) -> None:
    port, dead, machine = free_port(), free_port(), stream_host.machine
    site = stream_host.site("db", f"127.0.0.1:{dead}", {"port": port})
    plan = machine.plan(site)
    notes = [note.text for note in plan.plan.warnings]
    assert any(f"cannot connect to 127.0.0.1:{dead}" in note for note in notes), notes
    machine.run(plan)
    assert plan.status == DeploymentStatus.SUCCEEDED, plan.error
    assert not plan.is_verified
    state = SiteState.objects.get(site=site)
    assert state.health == Health.FAILING and "closes connections at once" in state.health_words
    with EchoServer("db", port=dead):
        host_watch(machine.host.pk, pause=lambda _seconds: None)
        state.refresh_from_db()
        assert state.health == Health.ANSWERING, state.health_words
        websites.upstream_update(
            actor=machine.people.admin, upstream=site.upstreams.get(), servers=[{"address": f"127.0.0.1:{free_port()}"}]
        )
        assert "closes connections at once" in stream_host.rolled_back(site).error
        assert eventually(lambda: tcp_said(port) == b"db:hello")


def test_port_of_another_program_is_named_and_the_deployment_undone(stream_host: StreamHost) -> None:
    with EchoServer("db") as app, EchoServer("other") as other:
        site = stream_host.site("db", app.address, {"port": other.port, "address": "127.0.0.1"})
        plan = stream_host.machine.plan(site)
        assert any(f":{other.port} on web-1 is in use by" in note.text for note in plan.plan.warnings)
        deployment = stream_host.rolled_back(site)
        assert f"port 127.0.0.1:{other.port} is in use by" in deployment.error
        assert tcp_said(other.port) == b"other:hello"
        assert not stream_host.file("db").exists()


def test_only_allowed_addresses_are_served(stream_host: StreamHost) -> None:
    port = free_port()
    with EchoServer("db") as app:
        site = stream_host.site("db", app.address, {"port": port, "allowed": ["192.0.2.0/24"]})
        stream_host.machine.deploy(site)
        assert tcp_said(port) == b""
        websites.stream_server_update(
            actor=stream_host.machine.people.owner,
            server=StreamServer.objects.get(),
            allowed=["192.0.2.0/24", "127.0.0.0/8"],
        )
        stream_host.machine.deploy(site)
        assert tcp_said(port) == b"db:hello"


def test_backup_server_takes_over(stream_host: StreamHost) -> None:
    port, dead = free_port(), free_port()
    servers = [{"address": f"127.0.0.1:{dead}"}, {"address": "", "backup": True}]
    with EchoServer("backup") as app:
        servers[1]["address"] = app.address
        site = stream_host.site("db", app.address, {"port": port}, upstreams=[{"name": "app", "servers": servers}])
        stream_host.machine.deploy(site)
        assert tcp_said(port) == b"backup:hello"


def test_earlier_revision_returns_by_rollback(stream_host: StreamHost) -> None:
    first, second, machine = free_port(), free_port(), stream_host.machine
    with EchoServer("db") as app:
        site = stream_host.site("db", app.address, {"port": first})
        machine.deploy(site)
        websites.stream_server_update(actor=machine.people.owner, server=StreamServer.objects.get(), port=second)
        machine.deploy(site)
        assert (eventually(lambda: tcp_said(first) == b""), tcp_said(second)) == (True, b"db:hello")
        revision = site.revisions.get(number=1)
        plan = machine.run(services.site_rollback(actor=machine.people.owner, site=site, revision=revision))
        assert plan.status == DeploymentStatus.SUCCEEDED, plan.error
        assert tcp_said(first) == b"db:hello"


def test_plan_is_refused_where_the_web_server_has_no_stream_servers(machine: Machine) -> None:
    web_server = WebServer.objects.create(
        host=machine.host, engine=Engine.NGINX, paths={"config_root": str(machine.root)}, layout="sites"
    )
    stream_host = StreamHost(machine, web_server)
    site = stream_host.site("db", "192.0.2.1:5432", {"port": free_port()})
    with pytest.raises(ValidationError, match="has not loaded its stream module"):
        machine.plan(site)
    web_server.engine = Engine.APACHE
    web_server.save()
    with pytest.raises(ValidationError, match="Apache httpd has no stream servers; move the site to nginx or gallop"):
        machine.plan(Site.objects.get())


def test_one_port_serves_both_address_families(stream_host: StreamHost) -> None:
    port = free_port()
    with EchoServer("db") as app:
        site = stream_host.site(
            "db", app.address, {"port": port, "address": "::1"}, {"port": port, "address": "127.0.0.1"}
        )
        stream_host.machine.deploy(site)
        assert tcp_said(port, address="::1") == tcp_said(port) == b"db:hello"
