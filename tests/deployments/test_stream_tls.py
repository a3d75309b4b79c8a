"""TLS of stream servers on a real nginx and a real gallop: certificates, upstreams by name, upstreams with TLS."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from panel.certificates import watching
from panel.certificates.models import CertificateWatch
from panel.deployments.certificates.services import certificates_deploy
from panel.deployments.drift import services as drift
from panel.deployments.execution.services import deployment_execute
from panel.deployments.models import Deployment, DeploymentStatus, Health, SiteState
from panel.deployments.watching.services import host_watch
from panel.hosts.models import WebServer
from panel.websites import certificates
from panel.websites import services as websites
from panel.websites.models import Certificate, Site
from tests.deployments.stream_host import StreamHost
from tests.support.client_certificates import Authority
from tests.support.echo_server import EchoServer, tcp_said
from tests.support.ports import free_port
from tests.support.tls_echo import TlsEchoServer, tls_said
from tests.support.waiting import eventually

LONG = ".".join(["a" * 60] * 3 + ["example"])


def _certificate(host: StreamHost, name: str = "mail") -> Certificate:
    people = host.machine.people
    return websites.certificate_self_sign(
        actor=people.admin, team=people.team, name=name, names=[f"{name}.example"], days=90
    )


def _renewed(name: str = "mail.example") -> certificates.Bundle:
    return certificates.self_signed([name], now=timezone.now() + timedelta(minutes=1), days=30)


def _presents(port: int, pem: str) -> bool:
    return eventually(lambda: tls_said(port, "mail.example")[0].split() == pem.split())


def _succeeded(deployment: Deployment) -> Deployment:
    assert deployment.status == DeploymentStatus.SUCCEEDED, deployment.error
    return deployment


def test_port_presents_its_certificate_and_passes_decrypted_bytes_on(stream_host: StreamHost) -> None:
    port, machine, certificate = free_port(), stream_host.machine, _certificate(stream_host)
    with EchoServer("db") as app:
        site = stream_host.site("db", app.address, {"port": port, "certificate": "mail"})
        plan = machine.plan(site)
        folder = stream_host.root / "paddock" / "db"
        assert {str(folder / "mail.crt"), str(folder / "mail.key")} <= {item.path for item in plan.plan.changed_files}
        assert not [note for note in plan.plan.warnings if note.is_observed]
        _succeeded(machine.run(plan))
        pem, response = tls_said(port, "mail.example")
        assert (pem.split(), response) == (certificate.certificate_pem.split(), b"db:hello")
        assert tls_said(port)[1] == b"db:hello", "clients without a server name are served too"
        assert (folder / "mail.key").stat().st_mode & 0o077 == 0
        state = SiteState.objects.get(site=site)
        assert state.health == Health.ANSWERING and plan.is_verified, state.health_words
        assert state.revision is not None and state.revision.certificate_ends_at == certificate.not_after
        assert drift.drift_check(machine.host) == []


def test_replaced_certificate_is_presented_after_its_deployment(stream_host: StreamHost) -> None:
    port, machine, certificate = free_port(), stream_host.machine, _certificate(stream_host)
    with EchoServer("db") as app:
        site = stream_host.site("db", app.address, {"port": port, "certificate": "mail"})
        machine.deploy(site)
        new = _renewed()
        before = site.version
        websites.certificate_replace(
            actor=machine.people.admin,
            certificate=certificate,
            certificate_pem=new.certificate_pem,
            private_key_pem=new.private_key_pem,
        )
        site.refresh_from_db()
        assert site.version == before + 1, "the draft has a change"
        machine.deploy(site)
        assert _presents(port, new.certificate_pem) and tls_said(port)[1] == b"db:hello"


def test_renewed_certificate_is_deployed_without_the_draft(stream_host: StreamHost) -> None:
    port, machine, certificate = free_port(), stream_host.machine, _certificate(stream_host)
    with EchoServer("db") as app:
        site = stream_host.site("db", app.address, {"port": port, "certificate": "mail"})
        machine.deploy(site)
        new = _renewed()
        websites.certificate_issue(
            actor=None,
            team=certificate.team,
            name="mail",
            certificate=certificate,
            chain=new.certificate_pem,
            key=new.private_key_pem,
        )
        deployment = certificates_deploy(machine.host, [(site, Certificate.objects.get())])
        assert deployment is not None
        deployment_execute(deployment.uuid)
        deployment.refresh_from_db()
        _succeeded(deployment)
        assert _presents(port, new.certificate_pem)


def test_other_certificate_on_the_host_is_noticed_by_the_watch(on_nginx: StreamHost) -> None:
    port, machine = free_port(), on_nginx.machine
    _certificate(on_nginx)
    with EchoServer("db") as app:
        site = on_nginx.site("db", app.address, {"port": port, "certificate": "mail"})
        machine.deploy(site)
        WebServer.objects.update(is_running=True)
        assert watching.look(pause=lambda _seconds: None) == 1
        assert CertificateWatch.objects.get().problems == []
        other = _renewed("other.example")
        folder = on_nginx.root / "paddock" / "db"
        (folder / "mail.crt").write_text(other.certificate_pem)
        (folder / "mail.key").write_text(other.private_key_pem)
        os.kill(int(Path(on_nginx.web_server.paths["pid_file"]).read_text()), signal.SIGHUP)
        assert _presents(port, other.certificate_pem)

        def problems() -> list[dict[str, str]]:
            watching.look(pause=lambda _seconds: None)
            return CertificateWatch.objects.get().problems

        assert eventually(lambda: len(problems()) == 1)
        (problem,) = CertificateWatch.objects.get().problems
        assert problem["listener"] == f"TCP *:{port}" and "for other.example" in problem["problem"]


def test_dead_upstream_behind_tls_is_noticed(stream_host: StreamHost) -> None:
    port, dead, machine = free_port(), free_port(), stream_host.machine
    _certificate(stream_host)
    site = stream_host.site("db", f"127.0.0.1:{dead}", {"port": port, "certificate": "mail"})
    _succeeded(machine.run(machine.plan(site)))

    def is_failing() -> bool:
        host_watch(machine.host.pk, pause=lambda _seconds: None)
        state = SiteState.objects.get(site=site)
        return state.health == Health.FAILING and "closes connections at once" in state.health_words

    assert eventually(is_failing)


def test_key_that_does_not_fit_is_rolled_back(stream_host: StreamHost) -> None:
    port, machine, certificate = free_port(), stream_host.machine, _certificate(stream_host)
    with EchoServer("db") as app:
        site = stream_host.site("db", app.address, {"port": port, "certificate": "mail"})
        machine.deploy(site)
        certificate.private_key_pem = _renewed().private_key_pem
        certificate.save()
        websites.stream_server_update(
            actor=machine.people.admin, server=site.stream_servers.get(), session_timeout_s=60
        )
        stream_host.rolled_back(site)
        assert _presents(port, certificate.certificate_pem) and tls_said(port)[1] == b"db:hello"


def test_missing_certificate_files_are_a_warning_of_the_plan(stream_host: StreamHost) -> None:
    people, root = stream_host.machine.people, stream_host.machine.root
    websites.certificate_refer(
        actor=people.admin,
        team=people.team,
        name="mail",
        host=stream_host.machine.host,
        paths=(f"{root}/www/mail.crt", f"{root}/www/mail.key"),
        certificate_pem=_renewed().certificate_pem,
    )
    tls = {"upstream_tls": True, "upstream_tls_name": "db.example", "upstream_tls_ca": f"{root}/www/ca.pem"}
    with EchoServer("db") as app:
        site = stream_host.site("db", app.address, {"port": free_port(), "certificate": "mail", **tls})
        notes = [note.text for note in stream_host.machine.plan(site).plan.warnings]
        for name in ("mail.crt", "mail.key", "ca.pem"):
            words = f"The certificate file {root}/www/{name} does not exist on web-1."
            assert [note for note in notes if words in note], notes
        error = stream_host.rolled_back(site).error
        assert "ca.pem" in error or "mail.crt" in error


def _routes(**routes: str) -> dict[str, Any]:
    return {"routes": [{"name": name, "upstream": upstream} for name, upstream in routes.items()]}


def test_upstream_is_chosen_by_the_server_name_without_decryption(stream_host: StreamHost) -> None:
    port, authority, names = free_port(), Authority("root"), ("app", "imap", "web")
    with ExitStack() as stack:
        apps = {name: stack.enter_context(TlsEchoServer(name, authority.server(f"{name}.internal"))) for name in names}
        upstreams = [{"name": name, "servers": [{"address": app.address}]} for name, app in apps.items()]
        routes = {"mail.example": "imap", "*.web.example": "web", "default": "imap", "volatile": "web", LONG: "web"}
        site = stream_host.site("db", "", {"port": port, **_routes(**routes)}, upstreams=upstreams)
        _succeeded(stream_host.machine.run(stream_host.machine.plan(site)))
        wanted = {
            "mail.example": "imap",
            "MAIL.example": "imap",
            "shop.web.example": "web",
            "default": "imap",
            "volatile": "web",
            LONG: "web",
            "web.example": "app",
            "mail.example.org": "app",
            "": "app",
        }
        for name, upstream in wanted.items():
            pem, response = tls_said(port, name)
            expected = (apps[upstream].certificate.split(), f"{upstream}:hello".encode())
            assert (pem.split(), response) == expected, name
        assert "shop.web.example" in apps["web"].names, "the upstream gets the client's own handshake"
        assert SiteState.objects.get(site=site).health == Health.ANSWERING
        websites.stream_server_update(actor=stream_host.machine.people.admin, server=_server(site), routes=[])
        stream_host.machine.deploy(site)
        assert eventually(lambda: tls_said(port, "mail.example")[1] == b"app:hello")


def _server(site: Site) -> Any:
    return site.stream_servers.get()


def test_upstream_gets_tls_and_its_certificate_is_checked(stream_host: StreamHost) -> None:
    port, machine, folder = free_port(), stream_host.machine, stream_host.machine.files("db")
    authority = Authority("root")
    (folder / "ca.pem").write_text(authority.pem)
    with TlsEchoServer("db", Authority("middle", authority).server("db.internal")) as app:
        tls = {"upstream_tls": True, "upstream_tls_name": "db.internal", "upstream_tls_ca": f"{folder}/ca.pem"}
        site = stream_host.site("db", app.address, {"port": port, **tls})
        plan = _succeeded(machine.run(machine.plan(site)))
        assert plan.is_verified and tcp_said(port) == b"db:hello"
        assert set(app.names) == {"db.internal"}
        websites.stream_server_update(
            actor=machine.people.admin, server=_server(site), upstream_tls_ca="", upstream_tls_name=""
        )
        machine.deploy(site)
        assert eventually(lambda: tcp_said(port) == b"db:hello"), "without a file, every certificate is accepted"


@pytest.mark.parametrize(
    "wrong", [{"upstream_tls_ca": "other.pem"}, {"upstream_tls_name": "other.internal"}], ids=["authority", "name"]
)
def test_upstream_with_wrong_certificate_gets_no_connection(stream_host: StreamHost, wrong: dict[str, str]) -> None:
    port, folder, authority = free_port(), stream_host.machine.files("db"), Authority("root")
    (folder / "ca.pem").write_text(authority.pem)
    (folder / "other.pem").write_text(Authority("other").pem)
    with TlsEchoServer("db", authority.server("db.internal")) as app:
        tls = {"upstream_tls_name": "db.internal", "upstream_tls_ca": "ca.pem"} | wrong
        tls["upstream_tls_ca"] = f"{folder}/{tls['upstream_tls_ca']}"
        site = stream_host.site("db", app.address, {"port": port, "upstream_tls": True, **tls})
        _succeeded(stream_host.machine.run(stream_host.machine.plan(site)))
        assert tcp_said(port) == b""
        assert app.names, "the web server began a handshake"


def test_client_and_upstream_can_both_have_tls(stream_host: StreamHost) -> None:
    port, certificate = free_port(), _certificate(stream_host)
    with TlsEchoServer("db", Authority("root").server("db.internal")) as app:
        site = stream_host.site("db", app.address, {"port": port, "certificate": "mail", "upstream_tls": True})
        stream_host.machine.deploy(site)
        pem, response = tls_said(port, "mail.example")
        assert (pem.split(), response) == (certificate.certificate_pem.split(), b"db:hello")
