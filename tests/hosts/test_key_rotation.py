"""SSH keys of hosts replaced on a real sshd, whose account's home is a folder of the test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from panel.accounts.models import Role, User
from panel.audit.models import AuditEntry
from panel.core.jobs import JobStatus
from panel.hosts import selectors
from panel.hosts.execution import host_job_execute
from panel.hosts.models import Connection, Host, HostJob, HostJobKind, HostStatus
from panel.hosts.services import host_create, host_job_request, host_offer_key, host_trust_key, host_update
from panel.remote import authorized_keys, pool
from panel.remote.errors import ConnectionLost
from tests.api.caller import caller_of
from tests.support.cast import signed_in, user
from tests.support.sshd import SshServer, bound

pytestmark = pytest.mark.django_db(transaction=True)


class KeyHost:
    """A host whose account's ~/.ssh is the folder `ssh`, in a mount namespace of sshd's own."""

    def __init__(self, root: Path, admin: User) -> None:
        self.folder = root / "ssh"
        self.folder.mkdir(parents=True, mode=0o700)
        self.file = self.folder / "authorized_keys"
        home = Path("~").expanduser() / ".ssh"
        home.mkdir(mode=0o700, exist_ok=True)
        self.sshd = SshServer(root / "sshd", inside=bound(self.folder, home))
        keys = self.sshd.root / "authorized_keys"
        self.others = "# the administrators\nssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIother anna@laptop\n"
        self.file.write_text(self.others + keys.read_text())
        self.file.chmod(0o640)
        keys.unlink()
        keys.symlink_to(self.file)
        self.admin = admin

    def add(self) -> Host:
        host = host_create(
            actor=self.admin,
            name="web-1",
            address="127.0.0.1",
            port=self.sshd.port,
            username=self.sshd.username,
            private_key=self.sshd.private_key,
            site_roots=["/srv/www"],
        )
        host_offer_key(actor=self.admin, host=host)
        self.host = host_trust_key(actor=self.admin, host=host, confirmed=selectors.offered_fingerprint(host))
        return self.host

    def rotate(self) -> HostJob:
        job = host_job_request(actor=self.admin, host=self.host, kind=HostJobKind.ROTATE_KEY)
        host_job_execute(job.uuid)
        job.refresh_from_db()
        self.host.refresh_from_db()
        return job

    def check(self) -> str:
        pool.close()
        job = host_job_request(actor=self.admin, host=self.host, kind=HostJobKind.CHECK)
        host_job_execute(job.uuid)
        job.refresh_from_db()
        return job.status


@pytest.fixture
def there(db: None, server_root: Path) -> Iterator[KeyHost]:
    found = KeyHost(server_root, user("ada", Role.ADMIN))
    with found.sshd:
        found.add()
        yield found
    pool.close()


def test_new_key_replaces_the_old_one_and_nothing_else(there: KeyHost) -> None:
    old = there.host.private_key
    job = there.rotate()
    assert (job.status, job.error) == (JobStatus.SUCCEEDED, "")
    assert there.host.private_key not in ("", old)
    assert (there.host.next_private_key, there.host.former_public_key) == ("", "")
    assert there.file.read_text() == there.others + selectors.public_key(there.host) + "\n"
    assert there.file.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(there.folder)) == ["authorized_keys"]
    assert there.check() == JobStatus.SUCCEEDED
    assert job.result == {"public_key": selectors.public_key(there.host)}
    assert old not in str(list(AuditEntry.objects.values())) and "BEGIN" not in str(list(HostJob.objects.values()))
    assert there.rotate().status == JobStatus.SUCCEEDED, "again"
    assert there.check() == JobStatus.SUCCEEDED


def test_key_that_the_host_does_not_accept_leaves_everything_as_it_was(
    there: KeyHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, old = there.file.read_text(), there.host.private_key
    add = authorized_keys.key_add

    def spoiled(target: Any, line: str, beside: list[str]) -> None:
        """The host's own rules take the key back."""
        add(target, line, beside)
        there.file.write_text(before)

    monkeypatch.setattr(authorized_keys, "key_add", spoiled)
    job = there.rotate()
    assert (
        job.status == JobStatus.FAILED and "does not accept the new SSH key, so Paddock keeps the old key" in job.error
    )
    assert there.host.private_key == old and there.host.next_private_key == ""
    assert there.file.read_text() == before
    assert there.check() == JobStatus.SUCCEEDED


def test_new_key_has_the_options_of_the_old_one(there: KeyHost) -> None:
    options = 'from="127.0.0.1",restrict,port-forwarding '
    there.file.write_text(options + (there.sshd.root / "client_key.pub").read_text())
    assert there.rotate().status == JobStatus.SUCCEEDED
    assert there.file.read_text() == options + selectors.public_key(there.host).removeprefix("restrict ") + "\n"
    assert there.check() == JobStatus.SUCCEEDED


@pytest.mark.parametrize("step", ["key_add", "key_remove"])
def test_interrupted_replacement_continues_with_the_same_key(
    there: KeyHost, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    real = getattr(authorized_keys, step)

    def cut(target: Any, *lines: str) -> None:
        real(target, *lines)
        raise ConnectionLost("web-1", "sftp")

    monkeypatch.setattr(authorized_keys, step, cut)
    assert there.rotate().status == JobStatus.FAILED
    assert there.check() == JobStatus.SUCCEEDED, "one of the two keys works at any time"
    kept = there.host.next_private_key or there.host.private_key
    monkeypatch.setattr(authorized_keys, step, real)
    assert there.rotate().status == JobStatus.SUCCEEDED
    assert there.host.private_key == kept
    assert there.file.read_text() == there.others + selectors.public_key(there.host) + "\n"
    assert there.check() == JobStatus.SUCCEEDED


@pytest.mark.parametrize("state", ["elsewhere", "link", "missing"])
def test_keys_that_are_kept_elsewhere_are_left_alone(there: KeyHost, state: str) -> None:
    keys = there.sshd.root / "authorized_keys"
    keys.unlink()
    there.file.rename(keys)
    if state == "elsewhere":
        there.file.write_text(there.others)
    elif state == "link":
        there.file.symlink_to(keys)
    before = keys.read_text()
    job = there.rotate()
    assert job.status == JobStatus.FAILED and "Traceback" not in job.error
    assert "by hand" in job.error
    assert keys.read_text() == before and there.check() == JobStatus.SUCCEEDED


def test_edit_of_the_host_during_the_replacement_wins(there: KeyHost, monkeypatch: pytest.MonkeyPatch) -> None:
    add = authorized_keys.key_add

    def edited(target: Any, line: str, beside: str) -> None:
        add(target, line, beside)
        host_update(actor=there.admin, host=Host.objects.get(pk=there.host.pk), new_key=True)

    monkeypatch.setattr(authorized_keys, "key_add", edited)
    job = there.rotate()
    assert job.status == JobStatus.FAILED and "Somebody edited the host while Paddock replaced the key." in job.error
    assert selectors.public_key(there.host) not in there.file.read_text()
    assert there.host.next_private_key == "" and there.file.read_text().count("paddock") == 0


def test_many_hosts_get_new_keys_by_page_and_api(there: KeyHost) -> None:
    page = signed_in(there.admin).post("/hosts/+bulk/", {"action": "replace-key", "host": "web-1"}, follow=True)
    assert "Replace the SSH key: started on 1 host." in page.content.decode()
    body: Any = {"action": "replace-key", "hosts": ["web-1"]}
    assert caller_of(there.admin).post("hosts/bulk/", body).status_code == 202
    assert caller_of(there.admin).post("hosts/web-1/replace-key/").status_code == 202
    assert HostJob.objects.filter(kind=HostJobKind.ROTATE_KEY).count() == 1
    operator = user("olga", Role.OPERATOR)
    assert caller_of(operator).post("hosts/web-1/replace-key/").status_code == 403
    Host.objects.filter(pk=there.host.pk).update(status=HostStatus.READY)
    assert "Replace the SSH key" in signed_in(there.admin).get("/hosts/web-1/").content.decode()


def test_host_without_a_key_is_refused(there: KeyHost) -> None:
    Host.objects.filter(pk=there.host.pk).update(connection=Connection.LOCAL)
    assert "does not sign in to web-1 with a stored SSH key" in there.rotate().error


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("ssh-ed25519 AAAAkey", True),
        ('  restrict,command="a b" ssh-ed25519 AAAAkey anna', True),
        ("# ssh-ed25519 AAAAkey", False),
        ("ssh-ed25519 AAAAkeyMore", False),
        ("", False),
    ],
)
def test_keys_are_compared_by_their_data(row: str, found: bool) -> None:
    assert authorized_keys.has_key(row, "restrict ssh-ed25519 AAAAkey paddock") is found
