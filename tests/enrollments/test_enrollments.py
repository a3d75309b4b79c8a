"""Hosts add themselves with one command, run for real in a copy of this machine's file system."""

from __future__ import annotations

import datetime as dt
import re
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db.models import QuerySet
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from panel.accounts.guessing import RANDOM
from panel.accounts.models import Role, User
from panel.audit.models import AuditEntry
from panel.enrollments import services
from panel.enrollments.models import Enrollment
from panel.hosts.execution import host_job_execute
from panel.hosts.models import Host, HostJob, HostStatus
from panel.remote import pool
from tests.api.caller import caller_of
from tests.support.asgi_server import LiveServer
from tests.support.attempt_limits import statuses_until_limited
from tests.support.cast import Cast, cast, signed_in
from tests.support.copied_root import CopiedRoot
from tests.support.ports import free_port

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKj1yPgDCdTzKmTGlJZTRPZy9MSJUCkZ0wmE8IYbnv0T"
HOUR = dt.timedelta(hours=1)


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


def added() -> QuerySet[Host]:
    """Hosts that came by an enrollment."""
    return Host.objects.filter(enrollments__isnull=False)


def token_of(people: Cast, **values: Any) -> str:
    return services.enrollment_create(actor=people.admin, valid_for=HOUR, **values)[1]


def post(token: str, path: str = "/enroll/", **values: Any) -> Any:
    given = {"name": "Web-9.example.net", "port": "22", "host_key": KEY} | values
    return Client(REMOTE_ADDR="192.0.2.9").post(path, given, HTTP_AUTHORIZATION=f"Bearer {token}")


class Machine:
    """A copy of this machine with an sshd of its own on `port`."""

    def __init__(self, root: CopiedRoot) -> None:
        self.root, self.port = root, free_port()
        root.run("sh", "-c", "rm -f /etc/ssh/ssh_host_*; ssh-keygen -A; mkdir -p /run/sshd /etc/sudoers.d")
        lines = (f"Port {self.port}", "ListenAddress 127.0.0.1", "HostKey /etc/ssh/ssh_host_ed25519_key")
        lines += ("UsePAM no", "Subsystem sftp internal-sftp")
        root.run("sh", "-c", f"printf '%s\\n' {shlex.join(lines)} > /etc/ssh/sshd_config; hostname web-7")
        self.sshd = root.start("/usr/sbin/sshd", "-D", "-e")

    def shell(self, command: str, code: int = 0) -> str:
        return self.root.run("sh", "-c", command, code=code)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    (tmp_path / "none").mkdir()
    with CopiedRoot(tmp_path, tmp_path / "none", own_network=False) as root:
        yield Machine(root)
    pool.close()


@pytest.fixture
def panel(transactional_db: None) -> Iterator[str]:
    with LiveServer() as server:
        yield server.url


def test_pasted_command_adds_a_host_that_the_panel_then_manages_as_root(
    panel: str, people: Cast, machine: Machine
) -> None:
    made = caller_of(people.admin).post("enrollments/", {"tags": ["eu", "role:web"], "teams": [people.team.slug]})
    assert made.status_code == 201
    said = machine.shell(re.sub(r"https?://[^/']+", panel, made.json()["command"]))
    host = added().get()
    assert f"This host is in the panel as {host.name}: " in said
    assert (host.name, host.address, host.port, host.username) == ("web-7", "127.0.0.1", machine.port, "paddock")
    assert host.tags == ["eu", "role:web"] and list(host.teams.all()) == [people.team]
    own_key = machine.shell("cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub").strip()
    assert host.host_key == own_key
    job = HostJob.objects.get(host=host)  # queued when the script said that the host is ready
    host_job_execute(job.uuid)
    host.refresh_from_db()
    job.refresh_from_db()
    assert (job.status, host.status) == ("succeeded", HostStatus.READY), job.error
    modes = machine.shell("stat -c '%a %U' /var/lib/paddock/.ssh/authorized_keys /etc/sudoers.d/paddock-enrollment")
    assert modes.split() == ["600", "paddock", "440", "root"]
    assert made.json()["token"] not in machine.shell("cat /etc/sudoers.d/* /var/lib/paddock/.ssh/*; env")


def test_second_use_of_a_command_says_why_it_fails_and_changes_nothing(
    panel: str, people: Cast, machine: Machine
) -> None:
    token = token_of(people)
    fetch = f"curl -fsS -H 'Authorization: Bearer {token}' {panel}/enroll/"
    machine.shell(f"{fetch} > /root/script && sh /root/script")
    assert added().count() == 1
    host_job_execute(HostJob.objects.get().uuid)
    before = machine.shell("sha256sum /var/lib/paddock/.ssh/authorized_keys")
    said = machine.shell("sh /root/script", code=1)
    assert "has expired, has added all its hosts, or was revoked" in said and "did not accept this host" in said
    assert machine.shell("sha256sum /var/lib/paddock/.ssh/authorized_keys") == before
    assert added().count() == 1
    machine.shell(fetch, code=22)


def test_interrupted_command_goes_on_when_it_is_run_again(panel: str, people: Cast, machine: Machine) -> None:
    token = token_of(people)
    fetch = f"curl -fsS -H 'Authorization: Bearer {token}' {panel}/enroll/"
    machine.shell(f"{fetch} > /root/script && sed 's/^    name=.*/    exit 7/' /root/script > /root/interrupted")
    machine.shell("sh /root/interrupted", code=7)  # the panel has the host, and the host lacks the panel's key
    assert added().count() == 1
    for _ in range(2):
        said = machine.shell(f"{fetch} | sh")
        assert f"This host is in the panel as {added().get().name}: " in said
    keys = machine.shell("cat /var/lib/paddock/.ssh/authorized_keys")
    assert keys.count("ssh-ed25519") == 1
    host_job_execute(HostJob.objects.get().uuid)
    assert added().get().status == HostStatus.READY
    assert Enrollment.objects.get().used == 1


def test_script_of_another_account_uses_it_as_it_is(panel: str, people: Cast, machine: Machine) -> None:
    """A home folder that belongs to the account: nothing is written there as root, so no link leads elsewhere."""
    machine.shell(
        "useradd --create-home deploy; ln -s /etc/cron.d /home/deploy/.ssh; touch /etc/cron.d/authorized_keys"
    )
    token = token_of(people, username="deploy")
    said = machine.shell(f"curl -fsS -H 'Authorization: Bearer {token}' {panel}/enroll/ | sh", code=1)
    assert "The key could not be added" in said
    assert machine.shell("cat /etc/cron.d/authorized_keys") == ""


def test_script_names_what_is_missing(panel: str, people: Cast, machine: Machine) -> None:
    token = token_of(people)
    fetch = f"curl -fsS -H 'Authorization: Bearer {token}' {panel}/enroll/"
    assert "Run this as root" in machine.shell(f"{fetch} | setpriv --reuid=nobody --clear-groups sh", code=1)
    machine.shell("rm -f $(command -v visudo)")
    assert "visudo is missing" in machine.shell(f"{fetch} | sh", code=1)
    assert not added().exists() and Enrollment.objects.get().used == 0


def test_truncated_script_does_nothing(panel: str, people: Cast, machine: Machine) -> None:
    token = token_of(people)
    machine.shell(f"curl -fsS -H 'Authorization: Bearer {token}' {panel}/enroll/ > /root/script")
    length = int(machine.shell("wc -c < /root/script"))
    for cut in range(0, length - 5, max(1, length // 12)):
        machine.root.start("sh", "-c", f"head -c {cut} /root/script | sh").communicate(timeout=60)
    assert not added().exists()
    assert machine.root.start("id", "paddock").wait() != 0


def test_page_shows_the_command_once_and_lists_its_hosts(people: Cast) -> None:
    client = signed_in(people.admin)
    address = reverse("enrollments:list")
    page = client.post(address, {"hours": "24", "most_hosts": "2", "username": "paddock", "tags": "eu"})
    token = re.search(r"pde_[\w-]+", page.content.decode())
    assert page.status_code == 200 and token is not None
    assert page["Cache-Control"].count("no-store")
    assert post(token[0]).status_code == 200
    listed = " ".join(client.get(address).content.decode().split())
    assert token[0] not in listed and "1 / 2" in listed and "web-9" in listed and "open" in listed
    assert client.post(reverse("enrollments:revoke", args=[Enrollment.objects.get().pk])).status_code == 302
    assert "revoked" in client.get(address).content.decode()
    assert post(token[0], host_key=KEY[:-1] + "U").status_code == 403


@pytest.mark.parametrize("values", [{"most_hosts": "0"}, {"most_hosts": "501"}, {"username": "a b"}, {"hours": "2"}])
def test_wrong_values_of_the_form_are_named(people: Cast, values: dict[str, str]) -> None:
    given = {"hours": "1", "most_hosts": "1", "username": "paddock"} | values
    page = signed_in(people.admin).post(reverse("enrollments:list"), given)
    assert page.status_code == 422 and list(page.context["form"].errors) == list(values)


def test_only_administrators_create_and_see_enrollments(people: Cast) -> None:
    for user in (people.owner, people.viewer):
        assert signed_in(user).get(reverse("enrollments:list")).status_code == 403
        assert caller_of(user).post("enrollments/", {}).status_code == 403
        assert caller_of(user).get("enrollments/").json()["results"] == []


def _expire(row: Enrollment) -> None:
    row.expires_at = timezone.now() - HOUR
    row.save()


def _demote(row: Enrollment) -> None:
    User.objects.filter(pk=row.created_by_id).update(role=Role.OPERATOR)


def _deactivate(row: Enrollment) -> None:
    User.objects.filter(pk=row.created_by_id).update(is_active=False)


def _delete(row: Enrollment) -> None:
    Enrollment.objects.filter(pk=row.pk).update(created_by=None)


def _revoke(row: Enrollment) -> None:
    Enrollment.objects.filter(pk=row.pk).update(revoked_at=timezone.now())


@pytest.mark.parametrize("end", [_expire, _demote, _deactivate, _delete, _revoke])
def test_ended_enrollment_gives_neither_script_nor_host(people: Cast, end: Any) -> None:
    token = token_of(people)
    assert Client().get("/enroll/", HTTP_AUTHORIZATION=f"Bearer {token}").status_code == 200
    end(Enrollment.objects.get())
    assert Client().get("/enroll/", HTTP_AUTHORIZATION=f"Bearer {token}").status_code == 403
    assert post(token).status_code == 403
    assert not added().exists()


@pytest.mark.parametrize("token", ["", "pde_wrong", "x" * 5000, "pde_é"])
def test_wrong_tokens_are_refused_and_limited(people: Cast, token: str) -> None:
    token_of(people)
    statuses = statuses_until_limited(lambda number: post(f"pde_{number}" if number else token).status_code, RANDOM)
    assert set(statuses[:-1]) == {403}
    assert not added().exists()


@pytest.mark.parametrize(
    "values",
    [
        {"host_key": "ssh-ed25519"},
        {"host_key": "ssh-dss AAAA"},
        {"host_key": "ssh-ed25519 AAAA\nssh-rsa BBBB"},
        {"host_key": "k" * 5000},
        {"port": "0"},
        {"port": "65536"},
        {"port": "-1"},
        {"port": "²"},
        {"port": "9" * 400},
        {"name": ""},
        {"name": "n" * 5000},
    ],
)
def test_hostile_report_is_refused_and_uses_nothing_up(people: Cast, values: dict[str, str]) -> None:
    answer = post(token_of(people), **values)
    assert answer.status_code == 422 and answer.content.strip()
    assert not added().exists() and Enrollment.objects.get().used == 0


@pytest.mark.parametrize(
    ("given", "name"), [("../../x", "host"), ("WEB_9", "web-9"), ("---", "host"), ("a" * 90, "a" * 50)]
)
def test_name_of_a_host_becomes_a_valid_one(people: Cast, given: str, name: str) -> None:
    assert post(token_of(people), name=given).status_code == 200
    assert added().get().name == name


def test_taken_name_gets_a_number_and_a_known_machine_is_refused(people: Cast) -> None:
    token = token_of(people, most_hosts=3)
    assert b"name web-9\n" in post(token).content
    Host.objects.update(last_seen_at=timezone.now())
    again = post(token)
    assert again.status_code == 422 and b"already in the panel as web-9" in again.content
    assert b"name web-9-2\n" in post(token, port="2222").content
    assert Enrollment.objects.get().used == 2


def test_used_up_enrollment_serves_its_unfinished_host_and_no_other(people: Cast) -> None:
    token = token_of(people)
    first = post(token)
    assert first.status_code == 200 and post(token).content == first.content
    assert post(token, port="2222").status_code == 403
    assert post(token, host_key=KEY.replace("IKj1", "IKj2")).status_code == 403
    elsewhere = Client(REMOTE_ADDR="192.0.2.10")
    assert elsewhere.get("/enroll/", HTTP_AUTHORIZATION=f"Bearer {token}").status_code == 403
    Host.objects.update(last_seen_at=timezone.now())
    assert post(token).status_code == 403
    assert Enrollment.objects.get().used == 1


def test_last_place_is_given_once_to_hosts_that_come_at_once(transactional_db: None) -> None:
    people = cast()
    token = token_of(people)
    answers: list[int] = []

    def use(number: int) -> None:
        from django.db import connection

        try:
            answers.append(post(token, port=str(1000 + number)).status_code)
        finally:
            connection.close()

    threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers.count(200) == 1 and added().count() == 1, answers


def test_host_is_checked_only_by_the_enrollment_that_added_it(people: Cast) -> None:
    first, second = token_of(people), token_of(people)
    assert post(first).status_code == 200
    assert post(second, "/enroll/ready/", name="web-9").status_code == 403
    assert not HostJob.objects.exists()
    assert post(first, "/enroll/ready/", name="web-9").status_code == 200
    assert post(first, "/enroll/ready/", name="web-9").status_code == 200
    assert HostJob.objects.count() == 1


def test_audit_names_enrollment_host_and_address_but_no_token(people: Cast) -> None:
    token = token_of(people)
    post(token)
    rows = {row.action: row for row in AuditEntry.objects.filter(action__in=["enrollment.create", "enrollment.use"])}
    assert rows["enrollment.create"].actor == people.admin
    assert rows["enrollment.use"].after == {"host": "web-9", "address": "192.0.2.9"}
    assert AuditEntry.objects.filter(action="host.enroll").exists()
    assert token not in str([(row.before, row.after) for row in AuditEntry.objects.all()])
    assert Enrollment.objects.get().digest not in str(caller_of(people.admin).get("enrollments/").json())


def test_repeated_request_with_idempotency_key_does_not_show_the_token_again(people: Cast) -> None:
    caller = caller_of(people.admin)
    headers = {"Idempotency-Key": "once"}
    first, second = (caller.post("enrollments/", {}, **headers) for _ in range(2))
    assert first.json()["token"].startswith("pde_")
    assert first.json()["token"] not in second.content.decode()
    assert Enrollment.objects.count() == 1
