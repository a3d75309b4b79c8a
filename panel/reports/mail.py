"""Delivery of reports by mail: plain text and HTML, with attachments in the formats of the schedule."""

from __future__ import annotations

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.utils.text import slugify

from panel.core import mail
from panel.reports.document import Document, from_json
from panel.reports.models import Delivery, Report
from panel.reports.writers import WRITERS

MOST_BYTES = 10 * 1024 * 1024  # for all attachments together, a common limit of mail servers


def send(row: Delivery) -> str:
    """Send the mail of a delivery; return the result in words. Raises Refused or Unreachable."""
    return mail.deliver(message_of(row))


def message_of(row: Delivery) -> EmailMultiAlternatives:
    report = row.report
    document = from_json(report.content)
    context = {"report": report, "document": document, "url": report_url(report)}
    message = EmailMultiAlternatives(
        subject=_line(f"{report.get_outcome_display()}: {report.title}"),
        body=render_to_string("reports/mail.txt", context),
        to=[row.target],
        headers={"Message-ID": mail.new_id(row.uuid), "Auto-Submitted": "auto-generated"},
    )
    message.attach_alternative(render_to_string("reports/mail.html", context), "text/html")
    for name, content, kind in attachments(report, document):
        message.attach(name, content, kind)
    return message


def attachments(report: Report, document: Document) -> list[tuple[str, bytes, str]]:
    """Return a report's attachments (name, content, media type) in the formats of its schedule. The attachment that
    brings the total size above MOST_BYTES, and all attachments after it, are left out.
    """
    forms = report.schedule.attachments if report.schedule else []
    found, size = [], 0
    for form in forms:
        content = WRITERS[form].write(document)
        size += len(content)
        if size <= MOST_BYTES:
            found.append((f"{file_name(report)}.{form}", content, WRITERS[form].content_type.partition(";")[0]))
    return found


def file_name(report: Report) -> str:
    """Return the name of a report's file without extension: title and creation time (UTC)."""
    return f"{slugify(report.title)[:60] or 'report'}-{report.created_at:%Y%m%d-%H%M}"


def report_url(report: Report) -> str:
    return f"{settings.PANEL_URL}/reports/{report.uuid}" if settings.PANEL_URL else ""


def _line(text: str) -> str:
    return " ".join(text.split())[:200]
