"""Hosts are added, trusted, changed and deleted."""

from __future__ import annotations

from typing import Any

import paramiko
import pytest
from django.core.exceptions import PermissionDenied, ValidationError

from panel.accounts.models import Team, User
from panel.audit.models import AuditEntry
from panel.core.errors import ApplicationError, Conflict
from panel.core.jobs import JobStatus
from panel.hosts import selectors
from panel.hosts.execution import host_job_execute
from panel.hosts.models import Host, HostJob, HostJobKind, HostStatus, WebServer
from panel.hosts.services import (
    host_create,
    host_delete,
    host_job_request,
    host_offer_key,
    host_trust_key,
    host_update,
)
from panel.hosts.targets import target_for
from panel.hosts.watching import host_look, hosts_watched
from panel.remote import pool
from panel.remote.pool import Session
from panel.websites.models import Site
from tests.support.sshd import SshServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.django_db


def run(host: Host, admin: User, kind: str = HostJobKind.CHECK, **params: Any) -> HostJob:
    job = host_job_request(actor=admin, host=host, kind=kind, params=params)
    host_job_execute(job.uuid)
    job.refresh_from_db()
    host.refresh_from_db()
    return job


def status_of(host: Host) -> str:
    return Host.objects.get(pk=host.pk).status


def test_new_host_is_untrusted_and_its_check_is_queued(host: Host) -> None:
    assert (host.status, host.host_key) == (HostStatus.NEW, "")
    assert host.jobs.get().kind == HostJobKind.CHECK


def test_host_becomes_ready_after_fingerprint_is_trusted(host: Host, admin: User, sshd: SshServer) -> None:
    run(host, admin)
    assert host.offered_host_key == sshd.host_key
    assert (host.status, host.facts) == (HostStatus.NEW, {})
    shown = selectors.offered_fingerprint(host)
    host = host_trust_key(actor=admin, host=host, confirmed=shown)
    assert (host.host_key, host.offered_host_key) == (sshd.host_key, "")
    assert selectors.pinned_fingerprint(host) == shown
    assert run(host, admin).status == JobStatus.SUCCEEDED
    assert host.status == HostStatus.READY
    assert host.facts["cpus"] >= 1
    assert {web_server.engine for web_server in host.web_servers.all()} >= {"nginx", "apache"}
    again = host.web_servers.count()
    assert run(host, admin).status == JobStatus.SUCCEEDED
    assert host.web_servers.count() >= again


def test_trust_is_rejected_for_different_fingerprint(host: Host, admin: User, sshd: SshServer) -> None:
    host_offer_key(actor=admin, host=host)
    for wrong in ("", "SHA256:AAAA", sshd.host_key[:-4]):
        with pytest.raises(ValidationError) as refused:
            host_trust_key(actor=admin, host=host, confirmed=wrong)
        assert "confirmed" in refused.value.message_dict
    host.refresh_from_db()
    assert host.host_key == ""


def test_trust_is_rejected_without_offered_key(host: Host, admin: User) -> None:
    with pytest.raises(Conflict, match="has no host key to confirm"):
        host_trust_key(actor=admin, host=host, confirmed="SHA256:x")


def test_changed_host_key_stops_all_jobs_until_decision(host: Host, admin: User, sshd: SshServer) -> None:
    host_offer_key(actor=admin, host=host)
    host = host_trust_key(actor=admin, host=host, confirmed=selectors.offered_fingerprint(host))
    sshd.stop()
    sshd.new_host_key()
    sshd.start()
    job = run(host, admin)
    assert job.status == JobStatus.FAILED
    assert "different host key" in job.error
    assert host.status == HostStatus.KEY_CHANGED
    assert host.offered_host_key == sshd.host_key
    with pytest.raises(Conflict, match="changed"):
        target_for(host)
    host = host_trust_key(actor=admin, host=host, confirmed=selectors.offered_fingerprint(host))
    assert (host.private_key, host.status) == ("", HostStatus.UNREACHABLE), "the key was entered for another machine"
    host = host_update(actor=admin, host=host, private_key=sshd.private_key)
    assert run(host, admin).status == JobStatus.SUCCEEDED
    assert host.status == HostStatus.READY


def test_trusted_host_key_seen_again_resumes_jobs(host: Host, admin: User, sshd: SshServer) -> None:
    """Another machine had the address for a while. Nothing is left to decide when the trusted one responds again."""
    host_offer_key(actor=admin, host=host)
    host = host_trust_key(actor=admin, host=host, confirmed=selectors.offered_fingerprint(host))
    files = [sshd.root / "host_key", sshd.root / "host_key.pub"]
    right = [file.read_text() for file in files]
    sshd.stop()
    sshd.new_host_key()
    sshd.start()
    run(host, admin)
    assert (host.status, bool(host.offered_host_key)) == (HostStatus.KEY_CHANGED, True)
    sshd.stop()
    for file, text in zip(files, right, strict=True):
        file.write_text(text)
    sshd.start()
    job = run(host, admin)
    assert (job.status, job.error) == (JobStatus.SUCCEEDED, "")
    assert (host.status, host.status_detail, host.offered_host_key) == (HostStatus.READY, "", "")
    assert host.facts["cpus"] >= 1


def test_host_with_new_address_is_checked_and_forgets_old_key(host: Host, admin: User, sshd: SshServer) -> None:
    """The error and the key of the old address are no longer shown."""
    right = host.port
    Host.objects.filter(pk=host.pk).update(port=1, offered_host_key=sshd.host_key)
    host_job_execute(host.jobs.get().uuid)
    host.refresh_from_db()
    assert "127.0.0.1:1" in host.status_detail
    host = host_update(actor=admin, host=host, port=right, private_key=sshd.private_key)
    assert (host.status_detail, host.offered_host_key) == ("", "")
    waiting = host.jobs.get(status=JobStatus.QUEUED)
    host_job_execute(waiting.uuid)
    host.refresh_from_db()
    assert (host.status_detail, host.offered_host_key) == ("", sshd.host_key)
    host_update(actor=admin, host=host, name="web-2", port=right)
    assert not host.jobs.filter(status=JobStatus.QUEUED).exists(), "nothing about the way there changed"


def test_unreachable_host_error_names_endpoint(host: Host, admin: User, sshd: SshServer) -> None:
    host_offer_key(actor=admin, host=host)
    host = host_trust_key(actor=admin, host=host, confirmed=selectors.offered_fingerprint(host))
    sshd.stop()
    job = run(host, admin)
    assert (job.status, host.status) == (JobStatus.FAILED, HostStatus.UNREACHABLE)
    assert f"127.0.0.1:{sshd.port}" in host.status_detail


def at_once(_seconds: float) -> None:
    """No pause before a second attempt."""


def test_host_watch_says_nothing_of_web_servers_when_the_pooled_connection_is_cut(
    host: Host, admin: User, sshd: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The web servers of a host that does not respond are not stopped: nobody knows."""
    host_offer_key(actor=admin, host=host)
    host = host_trust_key(actor=admin, host=host, confirmed=selectors.offered_fingerprint(host))
    assert run(host, admin).status == JobStatus.SUCCEEDED
    paths = {name: f"/etc/nginx/{name}" for name in ("binary", "prefix", "main_config", "config_root", "pid_file")}
    web_server = WebServer.objects.create(host=host, engine="nginx", label="cut", paths=paths, is_running=True)
    whole = Session.call

    def cut(self: Session, operation: str, *args: object, **named: object) -> object:
        """The connection breaks while the host is asked about its web server, and cannot be made again."""
        if operation == "service":
            sshd.stop()
            pool.close()
        return whole(self, operation, *args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Session, "call", cut)
    assert host_look(host.pk, pause=at_once)
    assert status_of(host) == HostStatus.UNREACHABLE
    web_server.refresh_from_db()
    assert web_server.is_running


def test_host_watch_detects_outage_and_recovery(host: Host, admin: User, sshd: SshServer) -> None:
    """A host is unreachable after two failed attempts and ready after one success."""
    host_offer_key(actor=admin, host=host)
    host = host_trust_key(actor=admin, host=host, confirmed=selectors.offered_fingerprint(host))
    assert run(host, admin).status == JobStatus.SUCCEEDED
    seen = host.last_seen_at
    assert host_look(host.pk)
    host.refresh_from_db()
    assert host.last_seen_at and seen and host.last_seen_at > seen
    sshd.stop()
    pool.close()
    pauses: list[float] = []
    assert host_look(host.pk, pause=pauses.append)
    assert len(pauses) == 1
    host.refresh_from_db()
    assert host.status == HostStatus.UNREACHABLE and f"127.0.0.1:{sshd.port}" in host.status_detail
    sshd.start()
    assert eventually(lambda: host_look(host.pk) is not None and status_of(host) == HostStatus.READY)
    assert host.pk in hosts_watched()[0]
    host.is_paused = True
    host.save()
    assert host.pk not in [*hosts_watched()[0], *hosts_watched()[1]]


def test_changed_host_key_is_recorded_once(host: Host, admin: User, sshd: SshServer) -> None:
    host_offer_key(actor=admin, host=host)
    host = host_trust_key(actor=admin, host=host, confirmed=selectors.offered_fingerprint(host))
    assert run(host, admin).status == JobStatus.SUCCEEDED
    sshd.stop()
    pool.close()
    sshd.new_host_key()
    sshd.start()
    assert eventually(lambda: host_look(host.pk) is not None and status_of(host) == HostStatus.KEY_CHANGED)
    assert host.pk not in [*hosts_watched()[0], *hosts_watched()[1]]
    host.refresh_from_db()
    assert host.offered_host_key == sshd.host_key


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "-oProxyCommand=id"),
        ("name", "Web_1"),
        ("name", "web 1"),
        ("address", "-oProxyCommand=id"),
        ("address", "web1.example.net; id"),
        ("address", "$(id).example.net"),
        ("address", "web1.example.net:22"),
        ("address", "[::1]"),
        ("address", "ssh://web1"),
        ("address", "a\nb"),
        ("address", "256.1.1.1"),
        ("address", ""),
        ("port", 0),
        ("port", 65536),
        ("port", "22; id"),
        ("username", "-l"),
        ("username", "root;id"),
        ("username", "a b"),
        ("username", "root\n"),
        ("username", ""),
        ("private_key", "not a key"),
        ("password", "two\nlines"),
        ("sudo_password", "without sudo"),
        ("site_roots", []),
        ("site_roots", ["/"]),
        ("site_roots", ["/etc"]),
        ("site_roots", ["srv/www"]),
        ("site_roots", ["/srv/../etc"]),
        ("site_roots", ["/srv/www/"]),
        ("site_roots", "/srv/www"),
        ("site_roots", [{"path": "/srv"}]),
        ("layout", "elsewhere"),
    ],
)
def test_host_errors_appear_at_their_field_and_change_nothing(
    admin: User, field: str, value: Any, sshd: SshServer
) -> None:
    good: dict[str, Any] = {
        "name": "web-1",
        "address": "127.0.0.1",
        "username": "root",
        "private_key": sshd.private_key,
        "site_roots": ["/srv/www"],
    }
    with pytest.raises(ValidationError) as refused:
        host_create(actor=admin, **{**good, field: value})
    assert list(refused.value.message_dict) == [field]
    assert all(len(message) > 10 for message in refused.value.message_dict[field])
    assert not Host.objects.exists()
    assert not AuditEntry.objects.exists()


def test_unknown_host_fields_are_rejected_by_name(admin: User, host: Host) -> None:
    for name in ("host_key", "status", "facts", "connection", "is_admin"):
        with pytest.raises(ApplicationError, match=f"Unknown field “{name}”"):
            host_update(actor=admin, host=host, **{name: "x"})


def test_host_changes_require_administrator(operator: User, admin: User, host: Host) -> None:
    for attempt in (
        lambda: host_create(actor=operator, name="x", address="192.0.2.1", username="root", password="p"),
        lambda: host_update(actor=operator, host=host, port=2222),
        lambda: host_offer_key(actor=operator, host=host),
        lambda: host_trust_key(actor=operator, host=host, confirmed="x"),
        lambda: host_delete(actor=operator, host=host, confirm="web-1"),
        lambda: host_job_request(actor=operator, host=host, kind=HostJobKind.CHECK),
    ):
        with pytest.raises(PermissionDenied):
            attempt()
    assert Host.objects.get().port == host.port


def test_concurrent_host_edit_is_rejected(admin: User, host: Host) -> None:
    seen = host.row_version
    host_update(actor=admin, host=host, expected_version=seen, tags=["a"])
    with pytest.raises(Conflict, match="changed or deleted by someone else"):
        host_update(actor=admin, host=Host.objects.get(), expected_version=seen, tags=["b"])
    assert Host.objects.get().tags == ["a"]


def test_host_secrets_are_encrypted_and_never_in_audit_log(admin: User, host: Host, sshd: SshServer) -> None:
    host_update(actor=admin, host=host, password="hunter2-hunter2", use_sudo=True, sudo_password="s3cret-s3cret")
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT private_key, password, sudo_password FROM hosts_host")
        stored = " ".join(cursor.fetchone())
    trail = " ".join(str((entry.before, entry.after)) for entry in AuditEntry.objects.all())
    for secret in ("hunter2", "s3cret-s3cret", sshd.private_key.split("\n")[1]):
        assert secret not in stored
        assert secret not in trail
    assert "(secret)" in trail


def test_private_key_with_passphrase_is_rejected_with_remedy(admin: User, tmp_path: Any) -> None:
    paramiko.ECDSAKey.generate().write_private_key_file(str(tmp_path / "key"), password="secret")
    with pytest.raises(ValidationError, match="passphrase"):
        host_create(
            actor=admin,
            name="x",
            address="192.0.2.1",
            username="root",
            private_key=(tmp_path / "key").read_text(),
        )


def test_host_deletion_lists_losses_and_is_rejected_while_sites_exist(admin: User, host: Host) -> None:
    web_server = WebServer.objects.create(host=host, engine="nginx", paths={}, layout="sites")
    team = Team.objects.create(name="Shop", slug="shop")
    site = Site.objects.create(name="shop", team=team, web_server=web_server)
    assert selectors.host_losses(host)[0] == "the site shop, which uses a web server of this host"
    with pytest.raises(ValidationError, match="Type web-1 to confirm"):
        host_delete(actor=admin, host=host, confirm="web")
    with pytest.raises(Conflict, match="shop"):
        host_delete(actor=admin, host=host, confirm="web-1")
    site.delete()
    host_delete(actor=admin, host=host, confirm="web-1")
    assert not Host.objects.exists()
    assert AuditEntry.objects.filter(action="host.delete", object_label="web-1").exists()
