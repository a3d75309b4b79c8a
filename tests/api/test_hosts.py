"""Hosts over the API: added over a real sshd, trusted by fingerprint and checked, without revealing secrets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from panel.hosts.models import Host, HostJob
from panel.hosts.tasks import run as run_job
from panel.remote import pool
from tests.api.caller import Caller, caller_of, pointers
from tests.support.cast import Cast
from tests.support.sshd import SshServer


@pytest.fixture
def sshd(transactional_db: None, server_root: Path) -> Iterator[SshServer]:
    with SshServer(server_root / "sshd") as server:
        yield server
        pool.close()


def body(sshd: SshServer) -> dict[str, object]:
    return {
        "name": "web-2",
        "address": "127.0.0.1",
        "port": sshd.port,
        "username": sshd.username,
        "private_key": sshd.private_key,
        "site_roots": ["/srv/www"],
    }


def test_host_is_added_trusted_and_checked(sshd: SshServer, people: Cast) -> None:
    admin = caller_of(people.admin)
    made = admin.post("hosts/", body(sshd))
    assert made.status_code == 201, made.content
    assert "PRIVATE" not in made.content.decode() and made.json()["has_private_key"]
    run_job(str(HostJob.objects.get().uuid))
    host = admin.get("hosts/web-2/").json()
    offered = host["offered_fingerprint"]
    assert offered.startswith("SHA256:") and host["status"] == "new"
    wrong = admin.post("hosts/web-2/trust-key/", {"fingerprint": "SHA256:" + "A" * 43})
    assert wrong.status_code == 422 and offered in wrong.json()["detail"]
    assert admin.post("hosts/web-2/trust-key/", {"fingerprint": offered}).json()["status"] == "ready"
    check = admin.post("hosts/web-2/check/")
    assert check.status_code == 202
    uuid = check["Location"].removeprefix("/api/v1/jobs/").rstrip("/")
    run_job(uuid)
    job = admin.get(f"jobs/{uuid}/").json()
    assert (job["type"], job["status"]) == ("host_job", "succeeded"), job
    assert admin.get("hosts/web-2/").json()["facts"]["kernel"]
    assert admin.get("host-jobs/?kind=check").json()["results"]


def test_host_changes_require_administrator(sshd: SshServer, people: Cast) -> None:
    for person in (people.owner, people.viewer):
        caller = caller_of(person)
        assert caller.get("hosts/").status_code == 200
        assert caller.post("hosts/", body(sshd)).status_code == 403
        assert caller.post("hosts/web-1/check/").status_code == 403
        assert caller.delete("hosts/web-1/").status_code == 403
        service = caller.post(f"web-servers/{people.nginx.pk}/service/", {"action": "stop"})
        assert service.status_code == 403
    assert not HostJob.objects.exists()
    assert caller_of(people.admin, ["read", "deploy"]).post("hosts/web-1/check/").status_code == 403


GOOD: dict[str, object] = {
    "name": "web-2",
    "address": "127.0.0.1",
    "port": 1,
    "username": "root",
    "password": "x",
    "site_roots": ["/srv/www"],
}


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"name": "Web 2"}, "/name"),
        ({"name": "web-1"}, "/name"),
        ({"address": "-oProxyCommand=id"}, "/address"),
        ({"address": "a\r\nb"}, "/address"),
        ({"address": "host;id"}, "/address"),
        ({"username": "-l"}, "/username"),
        ({"username": "a b"}, "/username"),
        ({"port": 0}, "/port"),
        ({"port": "22; id"}, "/port"),
        ({"site_roots": ["relative"]}, "/site_roots"),
        ({"site_roots": ["/srv/../etc"]}, "/site_roots"),
        ({"layout": "other"}, "/layout"),
        ({"status": "ready"}, "/status"),
        ({"host_key": "ssh-ed25519 AAAA"}, "/host_key"),
        ({"connection": "local"}, "/connection"),
    ],
)
def test_invalid_hosts_are_reported_at_their_field(admin: Caller, changes: dict[str, object], pointer: str) -> None:
    answer = admin.post("hosts/", GOOD | changes)
    assert answer.status_code == 422 and pointer in {found.rpartition("/0")[0] or found for found in pointers(answer)}
    assert Host.objects.count() == 1


def test_host_without_site_root_is_rejected(admin: Caller) -> None:
    """For new hosts (missing, empty or null) and for changed hosts."""
    bare = {name: value for name, value in GOOD.items() if name != "site_roots"}
    answers = [admin.post("hosts/", body) for body in (bare, GOOD | {"site_roots": []}, GOOD | {"site_roots": None})]
    answers.append(admin.call("PATCH", "hosts/web-1/", {"site_roots": []}))
    for answer in answers:
        assert answer.status_code == 422 and pointers(answer) == ["/site_roots"]
        assert "Enter at least one folder for sites, for" in answer.json()["detail"]
    assert Host.objects.count() == 1


def test_host_deletion_requires_typed_name(admin: Caller, people: Cast) -> None:
    assert admin.delete("hosts/web-1/").status_code == 422
    assert admin.call("DELETE", "hosts/web-1/", {"confirm": "other"}).status_code == 422
    assert Host.objects.exists()
    assert admin.call("DELETE", "hosts/web-1/", {"confirm": "web-1"}).status_code == 204


def test_web_server_actions_are_jobs(admin: Caller, people: Cast) -> None:
    answer = admin.post(f"web-servers/{people.nginx.pk}/service/", {"action": "reload"}, Idempotency_Key="k")
    assert answer.status_code == 202
    again = admin.post(f"web-servers/{people.nginx.pk}/service/", {"action": "reload"}, Idempotency_Key="k")
    assert again["Location"] == answer["Location"] and HostJob.objects.count() == 1
    assert admin.post(f"web-servers/{people.nginx.pk}/service/", {"action": "rm"}).status_code == 422
    tried = admin.post("hosts/web-1/check/?dry_run=true")
    assert tried.status_code == 200 and HostJob.objects.count() == 1
    uuid = answer.json()["uuid"]
    assert admin.post(f"jobs/{uuid}/cancel/").json()["status"] == "cancelled"
    assert admin.post(f"jobs/{uuid}/cancel/").status_code == 409


def test_web_server_can_be_registered_by_hand(admin: Caller, people: Cast) -> None:
    made = admin.post(
        "web-servers/",
        {"host": "web-1", "engine": "nginx", "label": "second", "paths": people.nginx.paths, "layout": "sites"},
    )
    assert made.status_code == 201, made.content
    path = made["Location"].removeprefix("/api/v1/")
    assert admin.patch(path, {"label": "third"}).json()["label"] == "third"
    assert admin.patch(path, {"paths": {"binary": "relative"}}).status_code == 422
    assert admin.patch(path, {"engine": "apache"}).status_code == 422
    assert admin.delete(path).status_code == 204


def test_detected_web_server_can_be_registered(admin: Caller, people: Cast) -> None:
    paths = people.nginx.paths | {"main_config": "/srv/own/nginx.conf", "config_root": "/srv/own"}
    found = {
        "engine": "nginx",
        "label": "own",
        "version": "1.26.3",
        "modules": [],
        "paths": paths,
        "layout": "sites",
        "control": "direct",
        "unit": "",
        "running": True,
        "private": True,
    }
    people.host.facts = {"other_servers": [found]}
    people.host.save()
    path, body = "hosts/web-1/adopt-server/", {"engine": "nginx", "main_config": "/srv/own/nginx.conf"}
    assert caller_of(people.owner).post(path, body).status_code == 403
    assert admin.post(path, body | {"engine": "caddy"}).status_code == 422
    assert admin.post(path, body | {"main_config": "/etc/other.conf"}).status_code == 409
    tried = admin.post(f"{path}?dry_run=true", body)
    assert tried.status_code == 200 and people.host.web_servers.filter(label="own").count() == 0
    made = admin.post(path, body)
    assert made.status_code == 201, made.content
    assert (made.json()["label"], made.json()["is_running"]) == ("own", True)
    assert admin.get(made["Location"].removeprefix("/api/v1/")).status_code == 200


def test_web_server_logs_are_visible_to_administrators_only(admin: Caller, people: Cast, tmp_path: Path) -> None:
    people.nginx.paths |= {"log_dir": str(tmp_path)}
    people.nginx.save()
    (tmp_path / "error.log").write_text("".join(f"line {number}\n" for number in range(10)))
    key = f"error-{people.nginx.pk}"
    try:
        listed = admin.get("hosts/web-1/logs/").json()
        assert {"log": key, "path": f"{tmp_path}/error.log"} in listed["logs"] and listed["lines"] == []
        assert admin.get(f"hosts/web-1/logs/?log={key}&lines=2").json()["lines"] == ["line 8", "line 9"]
    finally:
        pool.close()
    for wrong in ("log=other", f"log={key}&lines=0", f"log={key}&lines=x", f"log={key}&path=/etc/shadow"):
        assert admin.get(f"hosts/web-1/logs/?{wrong}").status_code == 400, wrong
    assert caller_of(people.owner).get(f"hosts/web-1/logs/?log={key}").status_code == 403
    assert caller_of(people.admin, ["read"]).get(f"hosts/web-1/logs/?log={key}").status_code == 403
