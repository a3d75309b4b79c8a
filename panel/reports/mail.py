"""Reports by mail: plain text and HTML, with attachments in the formats of the schedule."""

from __future__ import annotations

import smtplib
from email.utils import parseaddr
from uuid import UUID, uuid4

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.utils.text import slugify

from panel.reports.document import Document, from_json
from panel.reports.models import Delivery, Report
from panel.reports.writers import WRITERS

MOST_BYTES = 10 * 1024 * 1024  # for all attachments together, a common limit of mail servers


class Refused(Exception):
    """A permanent failure; the message contains the solution."""


class Unreachable(Exception):
    """A temporary failure."""


def send(row: Delivery) -> str:
    """Send the mail and return the result in words. Raises Refused or Unreachable."""
    return deliver(message_of(row))


def deliver(message: EmailMultiAlternatives) -> str:
    """Send a message to one receiver and return the result in words. Raises Refused or Unreachable."""
    if not settings.EMAIL_HOST:
        raise Refused("No mail server is configured. Set PADDOCK_SMTP_HOST for the panel's worker.")
    try:
        message.send()
    except smtplib.SMTPRecipientsRefused as error:
        (code, words) = next(iter(error.recipients.values()))
        raise _by_code(code, words) from error
    except smtplib.SMTPResponseException as error:
        raise _by_code(error.smtp_code, error.smtp_error) from error
    except smtplib.SMTPNotSupportedError as error:
        raise Refused(f"{settings.EMAIL_HOST} does not support the configured options: {error}") from error
    except (smtplib.SMTPException, OSError) as error:
        raise Unreachable(f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT} is not usable: {error}") from error
    return f"Accepted by {settings.EMAIL_HOST}."


def _by_code(code: int, words: str | bytes) -> Exception:
    """Permanent failure for 5xx (RFC 5321 section 4.2.1), otherwise temporary."""
    text = words.decode(errors="replace") if isinstance(words, bytes) else words
    said = f"{settings.EMAIL_HOST} responded with {code} {text}"[:300]
    return Refused(said) if code >= 500 else Unreachable(said)


def new_id(name: UUID | None = None) -> str:
    """Message-ID in the sender's domain: this machine's name would look forged to spam filters."""
    domain = parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2] or "paddock.invalid"
    return f"<{name or uuid4()}@{domain}>"


def message_of(row: Delivery) -> EmailMultiAlternatives:
    report = row.report
    document = from_json(report.content)
    context = {"report": report, "document": document, "url": report_url(report)}
    message = EmailMultiAlternatives(
        subject=_line(f"{report.get_outcome_display()}: {report.title}"),
        body=render_to_string("reports/mail.txt", context),
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=[row.target],
        headers={"Message-ID": new_id(row.uuid), "Auto-Submitted": "auto-generated"},
    )
    message.attach_alternative(render_to_string("reports/mail.html", context), "text/html")
    for name, content, kind in attachments(report, document):
        message.attach(name, content, kind)
    return message


def attachments(report: Report, document: Document) -> list[tuple[str, bytes, str]]:
    """Attachments of the schedule, up to the size limit of a mail."""
    forms = report.schedule.attachments if report.schedule else []
    found, size = [], 0
    for form in forms:
        content = WRITERS[form].write(document)
        size += len(content)
        if size <= MOST_BYTES:
            found.append((f"{file_name(report)}.{form}", content, WRITERS[form].content_type.partition(";")[0]))
    return found


def file_name(report: Report) -> str:
    """File name without extension: subject and creation time (UTC)."""
    return f"{slugify(report.title)[:60] or 'report'}-{report.created_at:%Y%m%d-%H%M}"


def report_url(report: Report) -> str:
    return f"{settings.PANEL_URL}/reports/{report.uuid}" if settings.PANEL_URL else ""


def _line(text: str) -> str:
    return " ".join(text.split())[:200]
