"""A certificate that another program renews on the host is named where it lies, and followed."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from panel.certificates import host_files
from panel.deployments.models import DeploymentStatus
from panel.deployments.planning import services as planning
from panel.deployments.revisions.rendered import records_of
from panel.hosts.models import Engine, Host, WebServer
from panel.websites import certificates
from panel.websites.models import Certificate, CertificateSource
from tests.deployments.real_host import Machine
from tests.imports.test_same_responses import adopted
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.waiting import eventually

SITE = """\
server {{
    listen {port};
    listen {tls} ssl;
    server_name shop.example;
    root {root}/www/shop;
    ssl_certificate {folder}/fullchain.cer;
    ssl_certificate_key {folder}/shop.example.key;
}}
"""


class Renewer:
    """Does what acme.sh does: keeps a certificate and its key in its own folder."""

    def __init__(self, root: Path) -> None:
        self.folder = root / ".acme.sh" / "shop.example_ecc"
        self.folder.mkdir(parents=True)
        self.renew(days=40)

    def renew(self, days: int) -> str:
        bundle = certificates.self_signed(["shop.example"], now=timezone.now(), days=days)
        (self.folder / "fullchain.cer").write_text(bundle.certificate_pem)
        key = self.folder / "shop.example.key"
        key.write_text(bundle.private_key_pem)
        key.chmod(0o600)
        return bundle.fingerprint


@pytest.fixture
def renewer(nginx: NginxInstance) -> Renewer:
    return Renewer(nginx.root)


@pytest.fixture
def tls_port() -> int:
    return free_port()


@pytest.fixture
def certificate(remote: Machine, nginx: NginxInstance, renewer: Renewer, tls_port: int) -> Certificate:
    """Of the adopted and deployed site."""
    remote.files("shop")
    text = SITE.format(port=remote.port, tls=tls_port, root=nginx.root, folder=renewer.folder)
    (nginx.root / "conf.d" / "shop.conf").write_text(text)
    nginx.reload()
    adopted(remote, remote.web_server(nginx, Engine.NGINX), "shop-example")
    return Certificate.objects.get()


def presented(port: int) -> str:
    """SHA-256 of the certificate that visitors get."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection(("127.0.0.1", port))
    with context.wrap_socket(plain, server_hostname="shop.example") as stream:
        return certificates.public_read(ssl.DER_cert_to_PEM_cert(stream.getpeercert(True) or b"")).fingerprint


def test_adopted_site_names_the_file_and_the_key_stays_on_the_host(
    remote: Machine, nginx: NginxInstance, renewer: Renewer, certificate: Certificate
) -> None:
    assert certificate.source == CertificateSource.HOST and certificate.host == remote.host
    assert certificate.private_key_pem == ""
    text = next(path for path in nginx.root.rglob("shop-example.conf") if path.is_file()).read_text()
    assert f"ssl_certificate {renewer.folder}/fullchain.cer;" in text
    assert f"ssl_certificate_key {renewer.folder}/shop.example.key;" in text
    (block,) = certificate.blocks.all()
    revision = block.site.state.revision
    assert revision is not None
    assert not [path for path in records_of(revision.files) if path.endswith((".key", ".crt"))]


def test_renewal_on_the_host_is_presented_after_a_reload_and_followed_by_the_panel(
    remote: Machine, nginx: NginxInstance, renewer: Renewer, certificate: Certificate, tls_port: int, client: Client
) -> None:
    assert host_files.look() == 0
    renewed = renewer.renew(days=90)
    nginx.reload()
    assert eventually(lambda: presented(tls_port) == renewed)
    assert host_files.look() == 1
    certificate.refresh_from_db()
    assert certificate.fingerprint == renewed
    assert certificate.not_after > timezone.now() + dt.timedelta(days=80)
    remote.deploy(certificate.blocks.get().site)
    assert presented(tls_port) == renewed
    client.force_login(remote.people.owner)
    page = client.get(reverse("websites:certificate", args=[certificate.name])).content.decode()
    assert str(renewer.folder) in page and "Take over renewal" in page
    told = client.get(f"/api/v1/certificates/{certificate.name}/").json()
    assert (told["source"], told["host"]) == ("host", remote.host.name)


def test_renewal_between_two_looks_does_not_roll_a_deployment_back(
    remote: Machine, nginx: NginxInstance, renewer: Renewer, certificate: Certificate
) -> None:
    renewer.renew(days=90)
    site = certificate.blocks.get().site
    site.notes = "changed"
    site.save()
    assert remote.run(remote.plan(site)).status == DeploymentStatus.SUCCEEDED


def test_silent_host_and_broken_file_leave_the_certificate_as_it_is(
    remote: Machine, renewer: Renewer, certificate: Certificate
) -> None:
    (renewer.folder / "fullchain.cer").write_text("nothing")
    assert host_files.look() == 0
    Host.objects.filter(pk=remote.host.pk).update(port=free_port())
    assert host_files.look() == 0
    before = certificate.fingerprint
    certificate.refresh_from_db()
    assert certificate.fingerprint == before


def test_move_to_another_host_asks_for_another_certificate(remote: Machine, certificate: Certificate) -> None:
    other = Host.objects.create(name="web-9", address="192.0.2.9", site_roots=remote.host.site_roots)
    target = WebServer.objects.create(
        host=other, engine=Engine.NGINX, paths=remote.host.web_servers.get().paths, layout="sites"
    )
    site = certificate.blocks.get().site
    with pytest.raises(ValidationError, match="is a file on web-1"):
        planning.site_move(actor=remote.people.admin, site=site, web_server=target)
