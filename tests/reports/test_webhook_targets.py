"""Forbidden webhook targets: the panel must not request what only the panel can reach."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from django.conf import LazySettings
from django.core.exceptions import ValidationError

from panel.accounts.models import User
from panel.core import webhooks
from panel.core.errors import ApplicationError
from panel.reports.models import Report, Schedule
from panel.reports.services import schedule_update
from tests.reports.test_delivery import Receiver, receiver, report, to, tried  # noqa: F401 - fixtures

PRIVATE = [
    *("127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.9.9", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1"),
    *("[::1]", "[::]", "[fe80::1]", "[fd00::1]", "[::ffff:127.0.0.1]", "[::ffff:169.254.169.254]", "[64:ff9b::7f00:1]"),
    *(
        "[2002:7f00:1::]",
        "[ff02::1]",
        "0x7f000001",
        "2130706433",
        "0177.0.0.1",
        "127.1",
        "[fd00:ec2::254]",
        "168.63.129.16",
    ),
    *("100.100.100.200", "0xa9fea9fe", "[64:ff9b::a9fe:a9fe]", "[2001:0:a00:1::5601:5601]"),
]


NONE = [
    *("ftp://hooks.example/", "file:///etc/passwd", "https://", "hooks.example", "https://user:pass@hooks.example/"),
    *("https://hooks.example/\r\nX-Evil: 1", "https://hooks.example/a b", "https://hooks.example/#part"),
    *("https://hooks.example:99999/", "gopher://hooks.example/", "https://höoks.example/"),
]


def refusals(schedule: Schedule, operator: User, urls: list[str]) -> dict[str, str]:
    """What is said to each of them, "" where it was saved."""
    said = {}
    for url in urls:
        try:
            schedule_update(actor=operator, schedule=schedule, webhook_url=url, webhook_secret="s" * 20)
            said[url] = ""
        except ValidationError as error:
            said[url] = " ".join(error.message_dict.get("webhook_url", []))
    return said


def test_non_public_webhook_addresses_are_rejected_on_save(schedule: Schedule, operator: User) -> None:
    said = refusals(schedule, operator, [f"http://{address}/latest/meta-data" for address in PRIVATE])
    assert len(said) == len(PRIVATE) and all("not a public address" in words for words in said.values()), said
    assert Schedule.objects.get().webhook_url == ""


def test_invalid_webhook_url_is_rejected(schedule: Schedule, operator: User) -> None:
    said = refusals(schedule, operator, NONE)
    assert len(said) == len(NONE) and all(
        words.startswith(("This URL ", "The host of this URL, ")) for words in said.values()
    ), said


@pytest.mark.parametrize("answer", [["10.0.0.7"], ["93.184.216.34", "127.0.0.1"], ["::1"]])
def test_webhook_name_that_resolves_to_private_address_is_rejected_on_send(
    report: Report,  # noqa: F811
    receiver: Receiver,  # noqa: F811
    settings: LazySettings,
    monkeypatch: pytest.MonkeyPatch,
    answer: list[str],
) -> None:
    """Also when the name changed after saving, and when only one of its addresses is private."""
    settings.WEBHOOK_NETWORKS = []
    port = receiver.server.server_port
    (row,) = to(report, webhook_url=f"http://hooks.example:{port}/", webhook_secret="s" * 20)
    entries = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answer]
    monkeypatch.setattr(webhooks.socket, "getaddrinfo", lambda *_args, **_kwargs: entries)
    row = tried(row)
    assert row.status == "failed" and "not a public address" in row.log[0]["words"]
    assert not receiver.requests


def test_webhook_connects_to_checked_address(
    report: Report,  # noqa: F811
    receiver: Receiver,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DNS rebinding: the name is resolved once, and later changes have no effect."""
    port, asked = receiver.server.server_port, []

    def once(host: str, *_args: object, **_kwargs: object) -> list[object]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    (row,) = to(report, webhook_url=f"http://hooks.example:{port}/", webhook_secret="s" * 20)
    real = socket.getaddrinfo
    monkeypatch.setattr(
        webhooks.socket, "getaddrinfo", lambda host, *a, **k: real(host, *a, **k) if _is_address(host) else once(host)
    )
    assert tried(row).status == "succeeded"
    assert asked == ["hooks.example"]
    assert receiver.requests[0][1]["Host"] == f"hooks.example:{port}"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def test_private_networks_can_be_allowed_for_webhooks(settings: LazySettings) -> None:
    settings.WEBHOOK_NETWORKS = ["10.1.0.0/16", "fd00::/8"]
    for host in ("10.1.2.3", "[fd00::5]"):
        assert webhooks.check_url(f"http://{host}/").port == 80
    for host in ("10.2.0.1", "[fe80::1]", "127.0.0.1", "[fd00:ec2::254]"):  # the last one is never opened
        with pytest.raises(ApplicationError):
            webhooks.check_url(f"http://{host}/")
    assert webhooks.check_url("https://8.8.8.8:8443/x?y=1").authority == "8.8.8.8:8443"


def test_webhook_with_weak_secret_is_rejected(schedule: Schedule, operator: User) -> None:
    with pytest.raises(ValidationError) as caught:
        schedule_update(actor=operator, schedule=schedule, webhook_url="https://hooks.example/", webhook_secret="short")
    assert "at least 16" in caught.value.message_dict["webhook_secret"][0]


def test_webhook_secret_is_encrypted_at_rest(schedule: Schedule, operator: User) -> None:
    from django.db import connection

    schedule_update(
        actor=operator, schedule=schedule, webhook_url="https://hooks.example/", webhook_secret="a plain secret, long"
    )
    with connection.cursor() as cursor:
        cursor.execute("SELECT webhook_secret FROM reports_schedule")
        (stored,) = cursor.fetchone()
    assert "plain secret" not in stored and Schedule.objects.get().webhook_secret == "a plain secret, long"
    from panel.audit.models import AuditEntry

    assert "plain secret" not in str(list(AuditEntry.objects.values_list("before", "after")))


def test_webhook_url_change_requires_new_secret(schedule: Schedule, operator: User) -> None:
    """A report signed with the stored secret must not reach another receiver, who could replay it to the first."""
    first = {"webhook_url": "https://hooks.example/", "webhook_secret": "s" * 20}
    schedule_update(actor=operator, schedule=schedule, **first)
    schedule_update(actor=operator, schedule=schedule, webhook_url="https://hooks.example/", keep_days=3)
    with pytest.raises(ValidationError) as caught:
        schedule_update(actor=operator, schedule=schedule, webhook_url="https://evil.example/")
    assert "Enter the secret for the new URL" in caught.value.message_dict["webhook_secret"][0]
    assert Schedule.objects.get().webhook_secret == "s" * 20
    schedule_update(actor=operator, schedule=schedule, webhook_url="")
    assert Schedule.objects.get().webhook_secret == ""


def test_queued_report_is_not_sent_to_old_url_with_new_secret(
    report: Report,  # noqa: F811
    receiver: Receiver,  # noqa: F811
) -> None:
    port = receiver.server.server_port
    (row,) = to(report, webhook_url=f"http://127.0.0.1:{port}/", webhook_secret="s" * 20)
    schedule = Schedule.objects.get()
    schedule.webhook_url, schedule.webhook_secret = "https://hooks.example/", "t" * 20
    schedule.save()
    row = tried(row)
    assert row.status == "failed" and "a new URL" in row.log[0]["words"]
    assert not receiver.requests
