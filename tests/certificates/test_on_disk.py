"""Certificates on the disk of a host: read from a real host, shown, and named before they expire, each once."""

from __future__ import annotations

import base64
import datetime as dt
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.x509 import load_pem_x509_certificate
from django.db.models.signals import post_save
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from agents.protocol import EngineControl
from panel.accounts.models import Role
from panel.alerts.selectors import alerts
from panel.certificates.models import AcmeAccount, AutomaticCertificate, CertificateReading, HostCertificate
from panel.certificates.on_disk import services
from panel.certificates.on_disk.reading import answer_of
from panel.certificates.on_disk.selectors import lines
from panel.hosts import jobs
from panel.hosts.models import Engine, Host, HostJob, HostJobKind, HostStatus, WebServer
from panel.hosts.targets import engine_control, target_for
from panel.hosts.watching import host_look
from panel.remote import pool
from panel.websites import services as websites
from panel.websites.models import Certificate, CertificateSource, ServerBlock
from tests.api.caller import caller_of
from tests.deployments.real_host import Machine
from tests.support.apache import ApacheInstance
from tests.support.cast import Cast, cast, signed_in, user
from tests.support.expiring_certificates import certificate
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.sshd import SshServer, bound

pytestmark = pytest.mark.django_db(transaction=True)
DAY = dt.timedelta(days=1)


def written(path: Path, name: str, days: float) -> Path:
    pem, key = certificate(name, days * DAY)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(pem)
    path.with_suffix(".key").write_text(key)
    return path


class Disk:
    """A host behind a real sshd with nginx and Apache, each with a certificate that Paddock does not manage."""

    def __init__(self, root: Path, sshd: SshServer) -> None:
        self.machine = Machine(root / "nginx", sshd)
        self.nginx, self.apache = NginxInstance(root / "nginx"), ApacheInstance(root / "apache")
        self.old = written(root / "nginx" / "tls" / "old.pem", "old.example", 10)
        self.blog = written(root / "apache" / "tls" / "blog.pem", "blog.example", 80)
        self.nginx_file = root / "nginx" / "conf.d" / "old.conf"
        self.nginx_file.write_text(
            f"server {{ listen {free_port()} ssl; server_name old.example;\n"
            f" ssl_certificate tls/old.pem; ssl_certificate_key {self.old.with_suffix('.key')}; }}\n"
        )
        self.apache_file = root / "apache" / "sites-enabled" / "blog.conf"
        port = free_port()
        self.apache_file.write_text(
            f"Listen {port}\n<VirtualHost *:{port}>\n ServerName blog.example\n SSLEngine on\n"
            f' SSLCertificateFile "{self.blog}"\n SSLCertificateKeyFile {self.blog.with_suffix(".key")}\n'
            "</VirtualHost>\n"
        )
        self.web_server = self.machine.web_server(self.nginx, Engine.NGINX)
        self.machine.web_server(self.apache, Engine.APACHE)

    @property
    def host(self) -> Host:
        return self.machine.host

    def look(self) -> None:
        """As if an hour had passed."""
        CertificateReading.objects.update(tried_at=timezone.now() - services.EVERY)
        assert host_look(self.host.pk) is not None

    def paths(self) -> dict[str, HostCertificate]:
        return {row.path: row for row in HostCertificate.objects.filter(host=self.host)}


@pytest.fixture
def disk(server_root: Path, tmp_path: Path) -> Iterator[Disk]:
    """Its folder /etc/ssl/private has the certificate of a mail server."""
    private = tmp_path / "private"
    written(private / "mail.pem", "mail.example", 60)
    with SshServer(server_root / "sshd", inside=bound(private, Path("/etc/ssl/private"))) as sshd:
        made = Disk(server_root, sshd)
        with made.nginx, made.apache:
            yield made
        pool.close()


def titles(person: Any) -> list[tuple[str, str]]:
    return [(alert.title, str(alert.label)) for alert in alerts(person) if alert.subject == "certificate"]


def test_host_look_finds_certificates_that_its_web_servers_name(disk: Disk) -> None:
    assert host_look(disk.host.pk) is not None
    found = disk.paths()
    old, blog, mail = found[str(disk.old)], found[str(disk.blog)], found["/etc/ssl/private/mail.pem"]
    assert old.named_in == [["nginx", str(disk.nginx_file)]] and old.names == ["old.example"]
    assert blog.named_in == [["apache", str(disk.apache_file)]] and blog.issuer == "CN=blog.example"
    assert mail.named_in == [] and mail.subject == "CN=mail.example"
    assert abs(old.not_after - timezone.now() - 10 * DAY) < dt.timedelta(minutes=5)
    reading = CertificateReading.objects.get(host=disk.host)
    assert reading.is_complete and reading.problem == "" and reading.at is not None


def test_renewed_certificate_is_seen_after_an_hour_or_a_check(disk: Disk) -> None:
    host_look(disk.host.pk)
    written(disk.old, "new.example", 90)
    host_look(disk.host.pk)
    assert disk.paths()[str(disk.old)].names == ["old.example"], "it was read less than an hour ago"
    disk.look()
    assert disk.paths()[str(disk.old)].names == ["new.example"]
    disk.old.unlink()
    jobs.check(HostJob(host=disk.host, kind=HostJobKind.CHECK))
    assert str(disk.old) not in disk.paths()
    skipped = CertificateReading.objects.get(host=disk.host).skipped
    assert {"path": str(disk.old), "why": "No such file or directory"} in skipped


def test_expiring_certificate_of_the_host_is_named_once(disk: Disk) -> None:
    copy = written(disk.old.parent / "copy.pem", "old.example", 10)
    copy.write_text(disk.old.read_text())
    disk.apache_file.write_text(disk.apache_file.read_text().replace(str(disk.blog), str(copy)))
    host_look(disk.host.pk)
    (alert,) = [alert for alert in alerts(disk.machine.people.admin) if alert.subject == "certificate"]
    assert (alert.title, alert.label) == ("old.example", "Expires within 14 days")
    assert "copy.pem on " in str(alert.detail) and "old.pem on " in str(alert.detail)
    assert titles(disk.machine.people.owner) == [], "files of a host belong to all teams"
    written(disk.old, "old.example", -1)
    copy.write_text(disk.old.read_text())
    disk.look()
    assert titles(disk.machine.people.admin) == [("old.example", "Expired")]
    Host.objects.update(is_paused=True)
    assert titles(disk.machine.people.admin) == []


def test_certificate_that_paddock_deployed_has_one_alert_of_its_own(disk: Disk) -> None:
    people = disk.machine.people
    site = disk.machine.site("shop", disk.web_server)
    own = websites.certificate_self_sign(actor=people.owner, team=people.team, name="shop-cert", names=["shop.example"])
    block = ServerBlock.objects.get(site=site)
    listens = [{"port": free_port(), "tls": True}]
    websites.block_update(actor=people.owner, block=block, certificate=own, listens=listens)
    disk.machine.deploy(site)
    disk.look()
    path = f"{disk.nginx.root}/paddock/shop/shop-cert.crt"
    (line,) = lines([disk.paths()[path]])
    assert line.keeper is not None
    assert (line.keeper.site, line.keeper.kind, line.keeper.certificate) == ("shop", "self_signed", own)
    page = f"/certificates/hosts/{disk.host.name}"
    assert "upload a renewed certificate" in signed_in(people.admin).get(page).content.decode()
    soon = {"not_after": timezone.now() + 5 * DAY, "not_before": timezone.now() - 85 * DAY}
    HostCertificate.objects.filter(path=path).update(**soon)
    Certificate.objects.update(**soon)
    written(disk.old, "old.example", 80)
    found = [title for title, _label in titles(people.admin)]
    assert found.count("shop-cert") == 1 and "shop.example" not in found
    account = AcmeAccount.objects.create(team=people.team, name="le")
    AutomaticCertificate.objects.create(site=site, account=account, certificate=own)
    assert "Automatic HTTPS of shop" in signed_in(people.admin).get(page).content.decode()
    told = caller_of(people.admin).get(f"host-certificates/?path={path}").json()["results"][0]
    assert (told["managed_by"], told["certificate"], told["site"]) == ("automatic", "shop-cert", "shop")


def test_file_of_the_host_that_a_site_uses_is_named_by_the_alert_of_its_certificate(disk: Disk) -> None:
    people = disk.machine.people
    host_look(disk.host.pk)
    pem = disk.old.read_text()
    row = HostCertificate.objects.get(path=str(disk.old))
    made = Certificate.objects.create(
        team=people.team, name="read", source=CertificateSource.HOST, certificate_pem=pem, host=disk.host,
        certificate_path=row.path, key_path="/k", names=row.names, issuer=row.issuer, fingerprint="0" * 64,
        not_before=row.not_before, not_after=row.not_after,
    )  # fmt: skip
    assert [title for title, _label in titles(people.admin)] == ["old.example"], "no site uses it"
    ServerBlock.objects.filter(site=disk.machine.site("shop", disk.web_server)).update(certificate=made)
    assert [title for title, _label in titles(people.admin)] == ["read"]


def test_pages_and_api_show_the_certificates_to_administrators_only(disk: Disk) -> None:
    host_look(disk.host.pk)
    people, name = disk.machine.people, disk.host.name
    admin, owner = signed_in(people.admin), signed_in(people.owner)
    for path in (f"/hosts/{name}/", f"/certificates/hosts/{name}"):
        text = admin.get(path).content.decode()
        assert "old.example" in text and str(disk.old) in text
        assert "Not renewed by Paddock" in text and "PRIVATE" not in text
    assert str(disk.nginx_file) in text and "no configuration that Paddock read names this file" in text
    assert "old.example" not in owner.get(f"/hosts/{name}/").content.decode()
    assert owner.get(f"/certificates/hosts/{name}").status_code == 403
    assert admin.get("/certificates/hosts/none").status_code == 404
    told = caller_of(people.admin).get(f"host-certificates/?host__name={name}&path={disk.old}").json()["results"]
    (item,) = told
    assert item["named_in"] == [{"engine": "nginx", "path": str(disk.nginx_file)}]
    assert (item["host"], item["managed_by"], item["certificate"], item["site"]) == (name, None, None, None)
    assert item["observed_at"] is not None and item["names"] == ["old.example"]
    assert caller_of(people.admin).get(f"host-certificates/{item['id']}/").json() == item
    (reading,) = caller_of(people.admin).get("certificate-readings/").json()["results"]
    assert (reading["host"], reading["is_complete"]) == (name, True)
    for address in ("host-certificates/", "certificate-readings/"):
        assert caller_of(people.owner).get(address).status_code == 403


@pytest.fixture
def hanging(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The agent hangs as soon as the certificates are asked for, until the panel recorded that."""
    with pool.session(target_for(disk.host)) as agent:
        pid = agent.identity["pid"]

    def stop(web_server: WebServer) -> EngineControl:
        os.kill(pid, signal.SIGSTOP)
        return engine_control(web_server)

    def go_on(**_: object) -> None:
        os.kill(pid, signal.SIGCONT)

    monkeypatch.setattr(services, "engine_control", stop)
    monkeypatch.setattr(services, "TIMEOUT_S", 0.3)
    post_save.connect(go_on, sender=CertificateReading)
    yield
    post_save.disconnect(go_on, sender=CertificateReading)


def test_failed_reading_keeps_the_certificates_and_says_why(disk: Disk, request: pytest.FixtureRequest) -> None:
    host_look(disk.host.pk)
    request.getfixturevalue("hanging")
    disk.look()
    reading = CertificateReading.objects.get(host=disk.host)
    assert reading.problem and reading.at is not None and reading.at < reading.tried_at
    assert str(disk.old) in disk.paths()
    assert Host.objects.get(pk=disk.host.pk).status == HostStatus.READY
    assert (
        "The last attempt to read the certificates failed"
        in signed_in(disk.machine.people.admin).get(f"/certificates/hosts/{disk.host.name}").content.decode()
    )


# --- a hostile host ---


def encoded(days: float = 9.0, name: str = "shop.example") -> str:
    pem, _key = certificate(name, days * DAY)
    der = load_pem_x509_certificate(pem.encode()).public_bytes(serialization.Encoding.DER)
    return base64.b64encode(der).decode()


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


def recorded(host: Host, data: dict[str, Any]) -> list[HostCertificate]:
    services.certificates_record(host, answer_of(data), timezone.now())
    return list(HostCertificate.objects.filter(host=host))


def test_certificate_without_an_end_is_shown(people: Cast) -> None:
    left = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC) - timezone.now()
    (row,) = recorded(people.host, {"certificates": [{"path": "/a.pem", "der": encoded(left / DAY), "named_in": []}]})
    assert row.not_after.year == 9999
    eve = user("eve", Role.ADMIN)
    eve.timezone = "Pacific/Kiritimati"
    eve.save()
    assert signed_in(eve).get(f"/certificates/hosts/{people.host.name}").status_code == 200


def test_implausible_values_of_a_host_are_left_out(people: Cast) -> None:
    good = {"path": "/a.pem", "der": encoded(), "named_in": [["nginx", "/n.conf"], ["evil", "/n"], ["nginx", "n"], 1]}
    wrong: list[Any] = [
        1, {}, good | {"path": "relative"}, good | {"path": "/" + "é" * 600}, good | {"path": "/a\nb"},
        good | {"path": "/\ud800"}, good | {"der": "!"}, good | {"der": "A" * 30_000}, good | {"der": [1]}, good,
    ]  # fmt: skip
    (row,) = recorded(people.host, {"certificates": wrong, "skipped": [{"path": "/s", "why": 1}, {"why": "x"}, 1]})
    assert (row.path, row.named_in) == ("/a.pem", [["nginx", "/n.conf"]])
    assert CertificateReading.objects.get().skipped == [{"path": "/s", "why": ""}]
    many = [good | {"path": f"/{number}.pem"} for number in range(600)]
    assert len(recorded(people.host, {"certificates": many})) == 500


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@examples(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(certificates=JSON, row=st.fixed_dictionaries({"path": JSON, "der": JSON, "named_in": JSON}), skipped=JSON)
def test_any_response_of_a_host_is_recorded(people: Cast, certificates: Any, row: Any, skipped: Any) -> None:
    for value in (certificates, [row], [dict(row, path="/a", der=encoded())]):
        rows = recorded(people.host, {"certificates": value, "skipped": skipped, "is_complete": certificates})
    assert [row.path for row in rows] == ["/a"]
