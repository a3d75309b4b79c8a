"""Stored secrets of a host are sent only to the address that they were entered for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from panel.accounts.models import User
from panel.core.jobs import JobStatus
from panel.hosts.execution import host_job_execute
from panel.hosts.models import Host, HostStatus
from panel.hosts.selectors import offered_fingerprint
from panel.hosts.services import host_offer_key, host_trust_key, host_update
from panel.remote import pool
from panel.remote.keys import fingerprint
from tests.api.caller import caller_of, pointers
from tests.support.recording_ssh_server import Recorder, impostor_running
from tests.support.sshd import SshServer

PASSWORD = "the stored password"
SUDO = "the sudo password"


@pytest.fixture
def impostor() -> Iterator[tuple[int, Recorder]]:
    with impostor_running() as running:
        yield running
    pool.close()


@pytest.fixture
def trusted(host: Host, admin: User) -> Host:
    """Its key is trusted; it is signed in to by a password."""
    values: dict[str, Any] = {"private_key": "", "password": PASSWORD, "use_sudo": True, "sudo_password": SUDO}
    host_update(actor=admin, host=host, **values)
    host_offer_key(actor=admin, host=host)
    return host_trust_key(actor=admin, host=host, confirmed=offered_fingerprint(host))


@pytest.fixture
def browser(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


def work_off(host: Host) -> None:
    for job in host.jobs.filter(status=JobStatus.QUEUED):
        host_job_execute(job.uuid)


def secrets_of(host: Host) -> tuple[str, str, str]:
    row = Host.objects.get(pk=host.pk)
    return row.private_key, row.password, row.sudo_password


def form_of(host: Host, **values: Any) -> dict[str, Any]:
    return {
        "name": host.name,
        "address": host.address,
        "port": host.port,
        "username": host.username,
        "use_sudo": "on",
        "layout": host.layout,
        "site_roots": "/srv/www",
        **values,
    }


def test_token_cannot_send_stored_passwords_to_new_address(
    trusted: Host, admin: User, impostor: tuple[int, Recorder]
) -> None:
    port, recorder = impostor
    token = caller_of(admin)
    refused = token.patch("hosts/web-1/", {"port": port})
    assert (refused.status_code, pointers(refused)) == (422, ["/password"])
    assert "Enter this value again" in refused.json()["detail"]
    changed = token.patch("hosts/web-1/", {"port": port, "password": "the attacker's own"})
    assert changed.status_code == 200
    assert (changed.json()["has_password"], changed.json()["has_sudo_password"]) == (True, False)
    work_off(trusted)
    row = Host.objects.get(pk=trusted.pk)
    assert row.status == HostStatus.KEY_CHANGED
    shown = {"fingerprint": fingerprint(row.offered_host_key)}
    answer = token.post("hosts/web-1/trust-key/", shown)
    assert answer.status_code == 403 and "browser" in answer.json()["detail"]
    assert token.post("hosts/web-1/trust-key/?dry_run=true", shown).status_code == 403
    work_off(trusted)
    assert not {PASSWORD, SUDO} & set(recorder.attempts)
    assert recorder.attempts == []


@pytest.mark.parametrize("change", [{"address": "localhost"}, {"port": 2222}, {"username": "somebody"}])
def test_new_address_clears_secrets_not_entered_again(trusted: Host, admin: User, change: dict[str, Any]) -> None:
    token = caller_of(admin)
    assert token.patch("hosts/web-1/", change).status_code == 422
    assert secrets_of(trusted) == ("", PASSWORD, SUDO), "nothing was changed"
    assert token.patch("hosts/web-1/", change | {"password": "new"}).status_code == 200
    assert secrets_of(trusted) == ("", "new", "")
    again = {"port": 2022, "password": PASSWORD, "sudo_password": SUDO}
    assert token.patch("hosts/web-1/", again).status_code == 200
    assert secrets_of(trusted) == ("", PASSWORD, SUDO)


def test_unchanged_address_keeps_secrets(trusted: Host, admin: User) -> None:
    same = {"address": trusted.address, "port": trusted.port, "username": trusted.username, "name": "web-2"}
    assert caller_of(admin).patch("hosts/web-1/", same).status_code == 200
    assert secrets_of(trusted) == ("", PASSWORD, SUDO)


def test_concurrent_address_change_does_not_keep_secrets(trusted: Host, admin: User) -> None:
    """The second of two requests loaded the host before the first changed its address."""
    stale = Host.objects.get(pk=trusted.pk)
    host_update(actor=admin, host=Host.objects.get(pk=trusted.pk), port=2222, password="other")
    host_update(actor=admin, host=stale, port=2222)
    assert secrets_of(trusted) == ("", "other", "")


def test_form_requires_password_when_address_changes(trusted: Host, browser: Client) -> None:
    page = browser.post("/hosts/web-1/edit/", form_of(trusted, port=2222))
    assert page.status_code == 422
    assert "Enter this value again" in str(page.context["form"].errors["password"])
    assert secrets_of(trusted) == ("", PASSWORD, SUDO)
    page = browser.post("/hosts/web-1/edit/", form_of(trusted, port=2222, password="new"), follow=True)
    assert "Paddock cleared the stored secrets" in page.content.decode()
    assert secrets_of(trusted) == ("", "new", "")


def test_form_keeps_secrets_when_address_is_unchanged(trusted: Host, browser: Client) -> None:
    assert browser.post("/hosts/web-1/edit/", form_of(trusted, tags="eu")).status_code == 302
    assert secrets_of(trusted) == ("", PASSWORD, SUDO)


def test_host_key_replacement_requires_password_and_clears_secrets(
    trusted: Host, browser: Client, sshd: SshServer, admin: User
) -> None:
    sshd.stop()
    sshd.new_host_key()
    sshd.start()
    host_offer_key(actor=admin, host=trusted)
    shown = {"confirmed": offered_fingerprint(trusted)}
    session = browser.session
    session["sudo_at"] = int(time.time()) - 901
    session.save()
    assert browser.post("/hosts/web-1/trust/", shown)["Location"].startswith("/confirm/")
    assert Host.objects.get(pk=trusted.pk).host_key != sshd.host_key
    refused = browser.post(
        "/api/v1/hosts/web-1/trust-key/", {"fingerprint": shown["confirmed"]}, content_type="application/json"
    )
    assert (refused.status_code, refused.json()["type"]) == (403, "/api/v1/problems/confirm/")
    session["sudo_at"] = int(time.time())
    session.save()
    page = browser.post("/hosts/web-1/trust/", shown, follow=True).content.decode()
    assert "enter its private key or passwords again" in page
    row = Host.objects.get(pk=trusted.pk)
    assert (row.host_key, row.status) == (sshd.host_key, HostStatus.UNREACHABLE)
    assert secrets_of(trusted) == ("", "", "")


def test_first_host_key_keeps_secrets(host: Host, admin: User, sshd: SshServer) -> None:
    host_offer_key(actor=admin, host=host)
    answer = caller_of(admin).post("hosts/web-1/trust-key/", {"fingerprint": offered_fingerprint(host)})
    assert answer.status_code == 200
    assert secrets_of(host)[0] == sshd.private_key
