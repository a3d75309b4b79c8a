"""Mails through a real SMTP server and webhooks to a real HTTP server: content and retries."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import LazySettings
from django.utils import timezone

from panel.accounts.models import User
from panel.core import webhooks
from panel.core.errors import ApplicationError
from panel.reports import delivering, storing
from panel.reports.models import Delivery, Report, Schedule
from panel.reports.services import report_create, report_send
from tests.reports.conftest import History
from tests.support.mailbox import Mailbox, mail_server
from tests.support.ports import free_port
from tests.support.webhook_receiver import Receiver

SECRET = "a secret of the webhook"


@pytest.fixture
def mailbox(settings: LazySettings) -> Iterator[Mailbox]:
    with mail_server(settings) as box:
        yield box


@pytest.fixture
def receiver(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    for name in ("TIMEOUT_S", "DEADLINE_S"):
        monkeypatch.setattr(webhooks, name, 120.0)  # a busy machine is not what is looked at here
    found = Receiver()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture
def report(history: History, operator: User, schedule: Schedule) -> Report:
    """Of a schedule, not sent yet."""
    made = report_create(actor=operator, run=history.run())
    made.schedule = schedule
    made.save()
    return made


def to(report: Report, **values: Any) -> list[Delivery]:
    assert report.schedule is not None
    for name, value in values.items():
        setattr(report.schedule, name, value)
    report.schedule.full_clean()
    report.schedule.save()
    return storing.deliver(report, report.schedule)


def tried(row: Delivery) -> Delivery:
    Delivery.objects.filter(pk=row.pk).update(due_at=timezone.now())
    delivering.attempt(row.uuid)
    return Delivery.objects.get(pk=row.pk)


# --- mail ---


def test_report_mail_has_summary_tables_and_attachments(report: Report, mailbox: Mailbox) -> None:
    rows = to(report, recipients=["anna@example.com", "ben@example.com"], attachments=["pdf", "csv"])
    assert [tried(row).status for row in rows] == ["succeeded", "succeeded"]
    anna, ben = mailbox.messages
    assert (anna["To"], ben["To"]) == ("anna@example.com", "ben@example.com")
    assert anna["Subject"] == f"First report: {report.title}"
    assert anna["Message-ID"] == f"<{rows[0].uuid}@example.com>" and anna["Auto-Submitted"] == "auto-generated"
    text, html = anna.get_body(("plain",)), anna.get_body(("html",))
    assert text is not None and html is not None
    assert report.headline in text.get_content()
    assert f"https://panel.example.com/reports/{report.uuid}" in text.get_content()
    assert "Throughput (requests/s)" in html.get_content()
    (line,) = [line for line in text.get_content().splitlines() if line.startswith("- Throughput (requests/s): ")]
    assert re.search(r": [\d,]+ requests/s \([\d,]+ to [\d,]+ requests/s, \d+ % confidence\)", line), line
    found = {part.get_filename(): part.get_content() for part in anna.iter_attachments()}
    names = [name.rpartition(".")[2] for name in found if name]
    assert names == ["pdf", "csv"]
    assert next(content for name, content in found.items() if name and name.endswith("pdf")).startswith(b"%PDF-")


def test_temporary_mail_failure_is_retried_with_same_message_id(report: Report, mailbox: Mailbox) -> None:
    mailbox.answers = ["451 try again later"]
    (row,) = to(report, recipients=["anna@example.com"])
    before = timezone.now()
    row = tried(row)
    assert row.status == "queued" and row.due_at > before + dt.timedelta(seconds=20)
    assert "451 try again later" in row.log[0]["words"]
    delivering.attempt(row.uuid)  # not due yet
    assert not mailbox.messages
    row = tried(row)
    assert row.status == "succeeded" and row.attempts == 2 and len(row.log) == 2
    assert mailbox.messages[0]["Message-ID"] == f"<{row.uuid}@example.com>"


def test_permanent_mail_failure_is_not_retried(report: Report, mailbox: Mailbox) -> None:
    mailbox.answers = ["550 no such mailbox"]
    (row,) = to(report, recipients=["anna@example.com"])
    row = tried(row)
    assert row.status == "failed" and "550 no such mailbox" in row.log[0]["words"]


def test_missing_mail_server_error_names_setting(report: Report, settings: LazySettings) -> None:
    settings.EMAIL_HOST = ""
    (row,) = to(report, recipients=["anna@example.com"])
    row = tried(row)
    assert row.status == "failed" and "PADDOCK_SMTP_HOST" in row.log[0]["words"]


def test_unreachable_mail_server_is_given_up_after_six_attempts(report: Report, settings: LazySettings) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", free_port(), False
    (row,) = to(report, recipients=["anna@example.com"])
    seen = []
    for _ in range(7):
        row = tried(row)
        seen.append(row.status)
    assert seen == [*["queued"] * 5, "failed", "failed"] and len(row.log) == 6


def test_report_title_cannot_inject_mail_headers(report: Report, mailbox: Mailbox) -> None:
    report.title = "Nightly\r\nBcc: eve@example.com"
    report.save()
    (row,) = to(report, recipients=["anna@example.com"])
    assert tried(row).status == "succeeded"
    assert mailbox.messages[0]["Bcc"] is None and "Bcc: eve" in mailbox.messages[0]["Subject"]


# --- webhook ---


def test_webhook_signature_covers_time_and_body(report: Report, receiver: Receiver) -> None:
    (row,) = to(report, webhook_url=receiver.url, webhook_secret=SECRET)
    row = tried(row)
    assert (row.status, row.log[0]["words"]) == ("succeeded", "The webhook responded with status 204.")
    ((path, headers, body),) = receiver.requests
    assert path == "/hook?from=paddock" and headers["Content-Type"] == "application/json"
    stamp = headers["Paddock-Timestamp"]
    assert abs(time.time() - int(stamp)) < 300
    expected = hmac.new(SECRET.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    assert headers["Paddock-Signature"] == f"v1={expected}"
    told = json.loads(body)
    assert (told["delivery"], headers["Paddock-Delivery"]) == (str(row.uuid), str(row.uuid))
    assert told["report"]["outcome"] == "first" and told["report"]["headline"] == report.headline
    assert SECRET not in body.decode() and SECRET not in str(headers)


@pytest.mark.parametrize(
    ("status", "state"), [(500, "queued"), (429, "queued"), (404, "failed"), (302, "failed"), (200, "succeeded")]
)
def test_webhook_response_decides_about_retry(report: Report, receiver: Receiver, status: int, state: str) -> None:
    receiver.status, receiver.headers = status, {"Location": receiver.url + "&again"}
    (row,) = to(report, webhook_url=receiver.url, webhook_secret=SECRET)
    row = tried(row)
    assert row.status == state and str(status) in row.log[0]["words"]
    assert len(receiver.requests) == 1, "a redirect was followed"


def test_delivery_of_dead_worker_is_resumed(report: Report, receiver: Receiver) -> None:
    (row,) = to(report, webhook_url=receiver.url, webhook_secret=SECRET)
    long_ago = timezone.now() - dt.timedelta(minutes=5)
    Delivery.objects.filter(pk=row.pk).update(status="running", claimed_by="dead", heartbeat_at=long_ago)
    assert delivering.waiting() == [row.uuid]
    delivering.attempt(row.uuid)
    delivering.attempt(row.uuid)
    assert len(receiver.requests) == 1 and Delivery.objects.get().status == "succeeded"


def test_long_report_is_truncated_for_webhook(report: Report, receiver: Receiver) -> None:
    report.content["around"] = ["x" * 100] * 5000
    report.save()
    (row,) = to(report, webhook_url=receiver.url, webhook_secret=SECRET)
    assert tried(row).status == "succeeded"
    assert len(receiver.requests[0][2]) <= 64 * 1024


def test_resend_reaches_all_recipients(report: Report, receiver: Receiver, mailbox: Mailbox, operator: User) -> None:
    with pytest.raises(ApplicationError, match="has no recipients"):
        report_send(actor=operator, report=report)
    for row in to(report, recipients=["anna@example.com"], webhook_url=receiver.url, webhook_secret=SECRET):
        tried(row)
    for row in report_send(actor=operator, report=report):
        tried(row)
    assert len(mailbox.messages) == 2 and len(receiver.requests) == 2
