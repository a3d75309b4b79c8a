"""Mails about new and resolved alerts, with URLs of the panel's pages about these alerts."""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from panel.accounts.models import User
from panel.alerts.kinds import Alert
from panel.alerts.models import SentAlert
from panel.core import mail


def send(user: User, new: Sequence[Alert], over: Sequence[SentAlert]) -> None:
    """Send a user one mail about new and resolved alerts. Raises mail.Refused or mail.Unreachable."""
    mail.deliver(message_of(user, new, over))


def words_of(alert: Alert) -> str:
    """Return one line of text for an alert, for example `Host web-1: Unreachable`."""
    return " ".join(f"{alert.kind} {alert.title}: {alert.label}".split())


def message_of(user: User, new: Sequence[Alert], over: Sequence[SentAlert]) -> EmailMultiAlternatives:
    lines = [(words_of(alert), str(alert.detail), _address(alert.url)) for alert in new]
    context = {"lines": lines, "over": [row.words for row in over], "account": _address("/account/")}
    message = EmailMultiAlternatives(
        subject=_subject([words for words, _detail, _url in lines], [row.words for row in over]),
        body=render_to_string("alerts/mail.txt", context),
        to=[user.email],
        headers={"Message-ID": mail.new_id(), "Auto-Submitted": "auto-generated"},
    )
    message.attach_alternative(render_to_string("alerts/mail.html", context), "text/html")
    return message


def _subject(new: Sequence[str], over: Sequence[str]) -> str:
    if len(new) == 1:
        return new[0][:200]
    if new:
        return ngettext("%d alert", "%d alerts", len(new)) % len(new)
    if len(over) == 1:
        return (_("Resolved: %s") % over[0])[:200]
    return ngettext("%d alert resolved", "%d alerts resolved", len(over)) % len(over)


def _address(path: str) -> str:
    return f"{settings.PANEL_URL}{path}" if settings.PANEL_URL else ""
