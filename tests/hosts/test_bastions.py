"""Hosts added behind a bastion through the API and the pages; real SSH servers in a network of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from panel.accounts.models import User
from panel.core.jobs import JobStatus
from panel.hosts.execution import host_job_execute
from panel.hosts.models import Host, HostJobKind, HostStatus
from panel.hosts.services import host_create
from panel.remote import pool
from tests.api.caller import caller_of, pointers
from tests.support.bastion import Behind, behind_bastion
from tests.support.cast import signed_in
from tests.support.sshd import SshServer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def behind(server_root: Path) -> Iterator[Behind]:
    with behind_bastion(server_root) as found:
        yield found
    pool.close()


def work_off(host: Host) -> None:
    for job in host.jobs.filter(status=JobStatus.QUEUED):
        host_job_execute(job.uuid)


def added(admin: User, name: str, sshd: SshServer, **values: Any) -> Host:
    """A host added and trusted through the API, and checked by a worker."""
    api = caller_of(admin)
    sign_in = {"port": sshd.port, "username": sshd.username, "private_key": sshd.private_key}
    body = {"name": name, "address": sshd.address, "site_roots": ["/srv/www"], **sign_in, **values}
    assert api.post("hosts/", body).status_code == 201
    host = Host.objects.get(name=name)
    work_off(host)
    shown = api.get(f"hosts/{name}/").json()["offered_fingerprint"]
    api.post(f"hosts/{name}/trust-key/", {"fingerprint": shown})
    work_off(host)
    host.refresh_from_db()
    return host


def test_host_behind_bastion_is_added_and_checked(admin: User, operator: User, behind: Behind) -> None:
    edge = added(admin, "edge", behind.bastion.sshd)
    web = added(admin, "web-1", behind.hosts[0], bastion="edge")
    assert (edge.status, web.status) == (HostStatus.READY, HostStatus.READY)
    assert web.facts["hostname"]
    assert caller_of(admin).get("hosts/web-1/").json()["bastion"] == "edge"
    assert caller_of(operator).get("hosts/web-1/").json()["bastion"] is None
    page = signed_in(admin).get("/hosts/web-1/").content.decode()
    assert 'through the bastion <a href="/hosts/edge/">edge</a>' in " ".join(page.split())
    assert "Bastion of 1 host:" in " ".join(signed_in(admin).get("/hosts/edge/").content.decode().split())


def test_bastion_that_forbids_forwarding_is_named_on_the_page(admin: User, behind: Behind) -> None:
    added(admin, "edge", behind.bastion.sshd)
    behind.allow_forwarding("restrict")
    web = added(admin, "web-1", behind.hosts[0], bastion="edge")
    assert web.status == HostStatus.NEW
    assert "add “port-forwarding”" in signed_in(admin).get("/hosts/web-1/").content.decode()


def host(admin: User, name: str, **values: Any) -> Host:
    return host_create(
        actor=admin, name=name, address=f"{name}.example", username="root", site_roots=["/srv"], **values
    )


def test_circle_of_bastions_is_refused_at_its_field(admin: User) -> None:
    edge = host(admin, "edge")
    inner = host(admin, "inner", bastion=edge)
    host(admin, "web-1", bastion=inner)
    api = caller_of(admin)
    for name in ("web-1", "edge"):
        problem = api.patch("hosts/edge/", {"bastion": name, "new_key": True})
        assert pointers(problem) == ["/bastion"]
    page = signed_in(admin).get("/hosts/edge/edit/").content.decode()
    assert "None (Paddock connects directly)" in page


def test_bastion_in_use_is_not_deleted(admin: User) -> None:
    host(admin, "web-1", bastion=host(admin, "edge"))
    response = signed_in(admin).post("/hosts/edge/delete/", {"confirm": "edge"})
    assert "it is the bastion of web-1" in response.content.decode()
    assert Host.objects.filter(name="edge").exists()


def test_sign_in_command_of_bastion_allows_forwarding(admin: User) -> None:
    edge = host(admin, "edge")
    api = caller_of(admin)
    assert "restrict ssh-" in api.get("hosts/edge/sign-in/").json()["sign_in_command"].replace("\\n", "")
    host(admin, "web-1", bastion=edge)
    assert "restrict,port-forwarding ssh-" in api.get("hosts/edge/sign-in/").json()["sign_in_command"]


def test_changed_bastion_keeps_secrets_of_a_trusted_host_only(admin: User) -> None:
    edge = host(admin, "edge")
    known, unknown = host(admin, "known", password="p"), host(admin, "unknown", password="p")
    Host.objects.filter(pk=known.pk).update(host_key=edge.host_key or "ssh-ed25519 AAAA")
    api = caller_of(admin)
    assert api.patch("hosts/known/", {"bastion": "edge"}).status_code == 200
    assert Host.objects.get(name="known").password == "p"
    assert pointers(api.patch("hosts/unknown/", {"bastion": "edge"})) == ["/password"]
    assert unknown.jobs.filter(kind=HostJobKind.CHECK).count() == 1
