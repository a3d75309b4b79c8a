"""SSH certificate authorities through pages and API, with real sshd."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from panel.accounts.models import Role, User
from panel.audit.models import AuditEntry
from panel.hosts import selectors, services
from panel.hosts.authorities import authorities_once
from panel.hosts.execution import host_job_execute
from panel.hosts.models import Host, HostJob, HostJobKind, HostStatus, SshAuthority
from panel.hosts.targets import target_for
from panel.remote import pool
from tests.api.caller import Caller, caller_of
from tests.remote.test_certificates import Authority
from tests.support.cast import signed_in, user
from tests.support.process import tool
from tests.support.sshd import SshServer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def admin(db: None) -> User:
    return user("ada", Role.ADMIN)


@pytest.fixture
def api(admin: User) -> Caller:
    return caller_of(admin)


@pytest.fixture
def sshd(server_root: Path) -> Iterator[SshServer]:
    server = SshServer(server_root / "sshd")
    yield server
    pool.close()
    server.stop()


def host_of(api: Caller, sshd: SshServer, **values: Any) -> Host:
    values = {"private_key": sshd.private_key, **values}
    body = {"name": "web-1", "address": "127.0.0.1", "port": sshd.port, "username": sshd.username}
    response = api.post("hosts/", body | {"site_roots": ["/srv/www"]} | values)
    assert response.status_code == 201, response.content
    return Host.objects.get()


def check(host: Host) -> HostJob:
    pool.close()
    job = services.host_job_request(actor=None, host=host, kind=HostJobKind.CHECK)
    host_job_execute(job.uuid)
    job.refresh_from_db()
    host.refresh_from_db()
    return job


def trust(host: Host, admin: User) -> Host:
    services.host_offer_key(actor=admin, host=host)
    return services.host_trust_key(actor=admin, host=host, confirmed=selectors.offered_fingerprint(host))


def test_new_host_with_a_certificate_is_ready_without_a_comparison(
    api: Caller, sshd: SshServer, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    authority.sign(sshd)
    sshd.start()
    given = f"@cert-authority {authority.line} ops@example"
    made = api.post("ssh-authorities/", {"name": "hosts-ca", "kind": "host", "public_key": given})
    assert made.status_code == 201 and made.json()["public_key"] == authority.line
    host = host_of(api, sshd)
    job = check(host)
    assert job.status == "succeeded", job.error
    assert (host.status, host.host_key) == (HostStatus.READY, sshd.host_key)
    entry = AuditEntry.objects.get(action="host.trust_certificate")
    assert entry.after["host_key"] == sshd.host_key


def test_reinstalled_host_with_a_new_certificate_stays_ready_and_keeps_its_secrets(
    api: Caller, admin: User, sshd: SshServer, tmp_path: Path
) -> None:
    sshd.start()
    host = trust(host_of(api, sshd), admin)
    sshd.stop()
    sshd.new_host_key()
    authority = Authority(tmp_path)
    authority.sign(sshd)
    sshd.start()
    assert check(host).status == "failed" and host.status == HostStatus.KEY_CHANGED
    services.authority_create(actor=admin, name="hosts-ca", kind="host", public_key=authority.line)
    assert check(host).status == "succeeded"
    assert (host.status, host.host_key) == (HostStatus.READY, sshd.host_key)
    assert host.private_key


def test_host_without_certificate_still_needs_its_key_confirmed(
    api: Caller, admin: User, sshd: SshServer, tmp_path: Path
) -> None:
    services.authority_create(actor=admin, name="hosts-ca", kind="host", public_key=Authority(tmp_path).line)
    sshd.start()
    host = host_of(api, sshd)
    check(host)
    assert (host.status, host.host_key, host.offered_host_key) == (HostStatus.NEW, "", sshd.host_key)
    assert check(trust(host, admin)).status == "succeeded"


def test_deleted_authority_vouches_for_no_new_key(api: Caller, admin: User, sshd: SshServer, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.sign(sshd)
    sshd.start()
    row = services.authority_create(actor=admin, name="hosts-ca", kind="host", public_key=authority.line)
    host = host_of(api, sshd)
    assert check(host).status == "succeeded"
    assert api.call("DELETE", "ssh-authorities/hosts-ca/").status_code == 204
    assert check(host).status == "succeeded", "the last key is pinned"
    sshd.stop()
    sshd.new_host_key()
    authority.sign(sshd)
    sshd.start()
    assert check(host).status == "failed" and host.status == HostStatus.KEY_CHANGED
    assert row.name not in {item.name for item in SshAuthority.objects.all()}


def test_changed_authorities_take_effect_with_the_next_loop_over_hosts(admin: User, tmp_path: Path) -> None:
    host = Host.objects.create(name="web", address="192.0.2.1", username="paddock", status=HostStatus.READY)
    with authorities_once(), CaptureQueriesContext(connection) as captured:
        assert {target_for(host).authorities for _ in range(20)} == {()}
        assert len(captured) == 1
        line = Authority(tmp_path).line
        row = services.authority_create(actor=admin, name="hosts-ca", kind="host", public_key=line)
        assert target_for(host).authorities == ()
    assert target_for(host).authorities == (row.public_key,)
    services.authority_delete(actor=admin, authority=row)
    with authorities_once():
        assert target_for(host).authorities == ()


def test_panel_signs_in_with_an_authority_that_it_created(api: Caller, admin: User, sshd: SshServer) -> None:
    made = api.post("ssh-authorities/", {"name": "paddock", "kind": "user"}).json()
    assert "PRIVATE" not in str(made) and made["public_key"].startswith("ssh-ed25519 ")
    sshd.start()
    host = trust(host_of(api, sshd, private_key="", authority="paddock"), admin)
    assert host.private_key == "" and host.authority is not None
    assert check(host).status == "failed" and host.status == HostStatus.UNREACHABLE
    (line,) = selectors.public_key(host).splitlines()
    assert line == f"cert-authority,restrict {made['public_key']} paddock"
    assert line in api.get("hosts/web-1/sign-in/").json()["sign_in_command"]
    (sshd.root / "authorized_keys").write_text(f"{line}\n")
    assert check(host).status == "succeeded"
    stored = SshAuthority.objects.get().private_key
    assert stored and stored not in str(list(AuditEntry.objects.values()))


def test_certificates_pass_a_bastion_and_the_command_allows_forwarding(
    api: Caller, admin: User, sshd: SshServer, server_root: Path
) -> None:
    api.post("ssh-authorities/", {"name": "paddock", "kind": "user"})
    sshd.start()
    edge = trust(host_of(api, sshd, private_key="", authority="paddock"), admin)
    with SshServer(server_root / "inner") as inner:
        body = {"name": "web-2", "address": "127.0.0.1", "port": inner.port, "username": inner.username}
        body |= {"site_roots": ["/srv/www"], "bastion": "web-1", "authority": "paddock"}
        assert api.post("hosts/", body).status_code == 201
        behind = Host.objects.get(name="web-2")
        edge = Host.objects.get(name="web-1")
        assert "cert-authority,restrict,port-forwarding " in selectors.public_key(edge)
        (sshd.root / "authorized_keys").write_text(selectors.public_key(edge) + "\n")
        (inner.root / "authorized_keys").write_text(selectors.public_key(behind) + "\n")
        assert check(trust(behind, admin)).status == "succeeded"
        assert "paddock web-1" in (sshd.root / "sshd.log").read_text()
        pool.close()


def test_authority_in_use_cannot_be_deleted(api: Caller, admin: User, sshd: SshServer) -> None:
    api.post("ssh-authorities/", {"name": "paddock", "kind": "user"})
    host_of(api, sshd, private_key="", authority="paddock")
    refused = api.call("DELETE", "ssh-authorities/paddock/")
    assert refused.status_code == 409 and "web-1" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"kind": "host"}, "public_key"),
        ({"kind": "host", "public_key": "ssh-ed25519 AAAA"}, "public_key"),
        ({"kind": "host", "public_key": "no key"}, "public_key"),
        ({"kind": "host", "public_key": "ssh-dss AAAAB3NzaC1kc3M="}, "public_key"),
        ({"kind": "user", "public_key": "ssh-ed25519 AAAA"}, "public_key"),
        ({"kind": "other"}, "kind"),
    ],
)
def test_faulty_authority_is_refused_at_its_field(api: Caller, values: dict[str, str], field: str) -> None:
    refused = api.post("ssh-authorities/", {"name": "ca", **values})
    assert refused.status_code == 422 and f"/{field}" in str(refused.json()), refused.content
    assert not SshAuthority.objects.exists()


def test_authority_that_vouches_for_hosts_cannot_sign_in(
    api: Caller, admin: User, sshd: SshServer, tmp_path: Path
) -> None:
    services.authority_create(actor=admin, name="hosts-ca", kind="host", public_key=Authority(tmp_path).line)
    body = {"name": "web-1", "address": "127.0.0.1", "username": "root", "site_roots": ["/srv/www"]}
    assert api.post("hosts/", body | {"authority": "hosts-ca"}).status_code == 422


def test_only_administrators_see_authorities(admin: User, client: Client, tmp_path: Path) -> None:
    services.authority_create(actor=admin, name="hosts-ca", kind="host", public_key=Authority(tmp_path).line)
    other = user("eve", Role.OPERATOR)
    assert caller_of(other).get("ssh-authorities/").status_code == 403
    assert signed_in(other).get(reverse("hosts:authorities")).status_code == 403


def test_pages_add_list_and_delete_an_authority(admin: User) -> None:
    browser = signed_in(admin)
    empty = browser.get(reverse("hosts:authorities")).content.decode()
    assert "No authorities yet" in empty
    made = browser.post(reverse("hosts:authority_add"), {"name": "paddock", "kind": "user", "public_key": ""})
    assert made.status_code == 302
    row = SshAuthority.objects.get()
    page = browser.get(reverse("hosts:authorities")).content.decode()
    assert row.public_key in page and "Signs Paddock&#x27;s keys" in page
    assert "PRIVATE KEY" not in page
    wrong = browser.post(reverse("hosts:authority_add"), {"name": "ca", "kind": "host", "public_key": "nonsense"})
    assert wrong.status_code == 422 and "as a line such as" in wrong.content.decode()
    wrong = browser.post(reverse("hosts:authority_delete", args=["paddock"]), {"confirm": "other"})
    assert wrong.status_code == 422
    assert browser.post(reverse("hosts:authority_delete", args=["paddock"]), {"confirm": "paddock"}).status_code == 302
    assert not SshAuthority.objects.exists()


def test_several_keys_are_all_allowed_and_all_replaced_by_one(
    api: Caller, admin: User, sshd: SshServer, tmp_path: Path
) -> None:
    argv = [tool("ssh-keygen"), "-q", "-t", "rsa", "-N", "", "-f", str(tmp_path / "old")]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    sshd.start()
    host = trust(host_of(api, sshd, private_key=(tmp_path / "old").read_text() + sshd.private_key), admin)
    assert check(host).status == "succeeded"
    lines = selectors.public_key(host).splitlines()
    assert [line.split()[1] for line in lines] == ["ssh-rsa", "ssh-ed25519"]
    assert selectors.sign_in_command(host).count("restrict ssh-") == 2
