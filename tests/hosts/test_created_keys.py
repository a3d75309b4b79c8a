"""Keys that Paddock creates for hosts, and the commands that allow them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from django.utils import timezone

from panel.accounts.models import Role, User
from panel.core.jobs import JobStatus
from panel.hosts import selectors
from panel.hosts.execution import host_job_execute
from panel.hosts.models import Host, HostJobKind, HostStatus
from panel.hosts.services import host_create, host_job_request, host_offer_key, host_trust_key, host_update
from panel.remote import pool
from tests.api.caller import caller_of
from tests.support.cast import signed_in, user
from tests.support.process import tool
from tests.support.sshd import SshServer

pytestmark = pytest.mark.django_db


@pytest.fixture
def added(admin: User, sshd: SshServer) -> Host:
    """A host added with neither a key nor a password, whose host key is trusted."""
    host = host_create(
        actor=admin,
        name="web-1",
        address="127.0.0.1",
        port=sshd.port,
        username=sshd.username,
        site_roots=["/srv/www"],
    )
    host_offer_key(actor=admin, host=host)
    return host_trust_key(actor=admin, host=host, confirmed=selectors.offered_fingerprint(host))


def checked(host: Host, admin: User) -> str:
    """State of a check of the host that is run now."""
    pool.close()
    job = host_job_request(actor=admin, host=host, kind=HostJobKind.CHECK)
    host_job_execute(job.uuid)
    job.refresh_from_db()
    host.refresh_from_db()
    return job.status


def run_on_host(command: str, sshd: SshServer) -> Path:
    """Run the command in a shell of the account, whose home is the folder of the SSH server. The resulting file."""
    home = sshd.root / "home"
    home.mkdir(exist_ok=True)
    subprocess.run(["/bin/sh", "-c", command], check=True, env={**os.environ, "HOME": str(home)})
    file = home / ".ssh" / "authorized_keys"
    (sshd.root / "authorized_keys").write_text(file.read_text())
    return file


def test_host_without_secrets_is_ready_after_its_command_is_run(added: Host, admin: User, sshd: SshServer) -> None:
    assert checked(added, admin) == JobStatus.FAILED
    assert "authorized_keys" in added.status_detail
    file = run_on_host(selectors.sign_in_command(added), sshd)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert checked(added, admin) == JobStatus.SUCCEEDED
    assert added.status == HostStatus.READY


def test_command_keeps_existing_keys_and_an_unfinished_last_line(added: Host, sshd: SshServer) -> None:
    folder = sshd.root / "home" / ".ssh"
    folder.mkdir(parents=True)
    old = (sshd.root / "client_key.pub").read_text().strip()
    (folder / "authorized_keys").write_text(old)
    file = run_on_host(selectors.sign_in_command(added), sshd)
    assert [line for line in file.read_text().splitlines() if line] == [old, selectors.public_key(added)]
    shown = subprocess.run([tool("ssh-keygen"), "-lf", str(file)], check=True, capture_output=True, text=True)
    assert shown.stdout.count("ED25519") == 2


def test_each_host_is_given_its_own_key(admin: User) -> None:
    keys = {
        host_create(
            actor=admin, name=f"web-{n}", address=f"192.0.2.{n}", username="root", site_roots=["/srv/www"]
        ).private_key
        for n in range(1, 4)
    }
    assert len(keys) == 3


def test_new_key_replaces_the_stored_one(host: Host, admin: User, sshd: SshServer) -> None:
    old = selectors.public_key(host)
    host = host_update(actor=admin, host=host, new_key=True)
    assert selectors.public_key(host) not in ("", old)
    with pytest.raises(ValidationError, match="not both"):
        host_update(actor=admin, host=host, new_key=True, private_key=sshd.private_key)


def test_host_keeps_something_to_sign_in_with(host: Host, admin: User) -> None:
    with pytest.raises(ValidationError, match="Create a new key"):
        host_update(actor=admin, host=host, private_key="")
    assert Host.objects.get().private_key


def test_new_key_follows_a_replaced_host_key(host: Host, admin: User) -> None:
    """Trusting another host key deletes the stored secrets; the form then offers a new key."""
    Host.objects.update(private_key="", status=HostStatus.UNREACHABLE)
    form = {"name": "web-1", "address": "127.0.0.1", "port": host.port, "username": host.username, "layout": "sites"}
    sent = {**form, "site_roots": "/srv/www", "version": host.row_version}
    browser = signed_in(admin)
    refused = browser.post("/hosts/web-1/edit/", sent)
    assert refused.status_code == 422 and "Create a new key" in refused.content.decode()
    assert browser.post("/hosts/web-1/edit/", {**sent, "new_key": "on"}).status_code == 302
    assert Host.objects.get().private_key.startswith("-----BEGIN OPENSSH PRIVATE KEY-----")


def test_page_shows_commands_until_the_host_is_ready(added: Host, admin: User, sshd: SshServer) -> None:
    added.use_sudo = True
    added.status = HostStatus.UNREACHABLE
    added.save()
    page = signed_in(admin).get("/hosts/web-1/")
    assert page.context["sign_in_command"] == selectors.sign_in_command(added)
    assert "Allow Paddock to sign in" in page.content.decode()
    assert f"{sshd.username} ALL=(root) NOPASSWD: ALL" in page.content.decode()
    viewer = signed_in(user("vera", Role.VIEWER)).get("/hosts/web-1/").content.decode()
    assert "authorized_keys" not in viewer
    Host.objects.update(status=HostStatus.READY)
    assert "Allow Paddock to sign in" not in signed_in(admin).get("/hosts/web-1/").content.decode()


def test_page_of_a_lost_host_keeps_the_sign_in_command_folded(added: Host, admin: User) -> None:
    """The line for root is no remedy for a cut network; it stays at hand in case the key was removed on the host."""
    added.status, added.last_seen_at = HostStatus.UNREACHABLE, timezone.now()
    added.save()
    page = signed_in(admin).get("/hosts/web-1/").content.decode()
    folded = page.index("If Paddock can no longer sign in")
    assert page.rindex("<details", 0, folded) < folded < page.index("Allow Paddock to sign in")


def test_sudo_rule_is_valid(added: Host, tmp_path: Path) -> None:
    added.use_sudo = True
    file = tmp_path / "paddock"
    command = selectors.sudo_command(added).replace("/etc/sudoers.d/paddock", str(file))
    subprocess.run(["/bin/sh", "-c", command], check=True)
    assert file.stat().st_mode & 0o777 == 0o440
    subprocess.run([tool("visudo"), "-cf", str(file)], check=True, capture_output=True)


def test_api_creates_keys_and_shows_administrators_the_public_part(admin: User, operator: User) -> None:
    caller = caller_of(admin)
    body = {"name": "web-1", "address": "192.0.2.1", "username": "deploy", "site_roots": ["/srv/www"], "use_sudo": True}
    made = caller.post("hosts/", body)
    assert made.status_code == 201 and made.json()["has_private_key"]
    shown = caller.get("hosts/web-1/sign-in/")
    assert shown.json()["public_key"].startswith("restrict ssh-ed25519 ")
    assert "PRIVATE" not in made.content.decode() + shown.content.decode()
    assert caller.patch("hosts/web-1/", {"new_key": True}).status_code == 200
    assert caller.get("hosts/web-1/sign-in/").json()["public_key"] != shown.json()["public_key"]
    assert caller_of(operator).get("hosts/web-1/sign-in/").status_code == 403
    with pytest.raises(PermissionDenied):
        host_update(actor=operator, host=Host.objects.get(), new_key=True)
