"""Services for alert mails: each subscribed user gets a mail when an alert is new or resolved.

Sent alerts are recorded after the mail server accepted the mail. If a worker dies between the two steps, the alerts are
mailed again; none is lost.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from panel.accounts.models import User
from panel.alerts import mail
from panel.alerts.kinds import Alert
from panel.alerts.models import AlertMail, SentAlert
from panel.alerts.selectors import mailed_alerts
from panel.core.mail import Refused, Unreachable

MOST = 200  # per kind of alert: longer mails are not useful
# Minimum times after the first, second, ... failed attempt; after the first of them an attempt counts as lost.
PAUSES = (dt.timedelta(minutes=2), dt.timedelta(minutes=10), dt.timedelta(hours=1))


@dataclass(frozen=True)
class News:
    """Contents of a mail about alerts: new alerts (`new`) and resolved alerts (`over`).
    `gone` are all mailed alerts that no longer exist: the resolved alerts, and alerts that a new alert about the same
    object replaces.
    """

    new: list[Alert]
    over: list[SentAlert]
    gone: list[SentAlert]


def alerts_send(now: dt.datetime | None = None) -> None:
    """Mail new and resolved alerts to all subscribed users. Safe if several workers call this function at once."""
    for user in User.objects.filter(is_active=True, mail_alerts=True).exclude(email="").order_by("pk"):
        with timezone.override(user.timezone):
            _send(user, now or timezone.now())
    # Users who subscribe again get all alerts again.
    SentAlert.objects.exclude(user__is_active=True, user__mail_alerts=True).delete()


def news_of(user: User) -> News:
    found = {alert.key: alert for alert in mailed_alerts(user, MOST)}
    told = {row.key: row for row in SentAlert.objects.filter(user=user).order_by("pk")}
    gone = [row for key, row in told.items() if key not in found]
    still = {mail.words_of(alert) for alert in found.values()}
    going_on = tuple(f"{alert.begins} " for alert in found.values())
    return News(
        new=[alert for key, alert in found.items() if key not in told],
        over=[row for row in gone if row.words not in still and not f"{row.key} ".startswith(going_on)],
        gone=gone,
    )


def _send(user: User, now: dt.datetime) -> None:
    news = news_of(user)
    if not (news.new or news.over) or not _claimed(user, now):
        return
    try:
        mail.send(user, news.new, news.over)
    except (Refused, Unreachable) as error:
        AlertMail.objects.filter(user=user).update(error=str(error), attempts=F("attempts") + 1)
    else:
        _write(user, news, now)


def _claimed(user: User, now: dt.datetime) -> bool:
    """Claim the next attempt to mail alerts to `user` for this worker; return whether the claim succeeded.

    The claim fails if another worker has claimed the attempt, or if the last attempt was too recent.
    """
    row, _made = AlertMail.objects.get_or_create(user=user)
    pause = PAUSES[min(max(row.attempts, 1), len(PAUSES)) - 1]
    free = Q(tried_at=None) | Q(tried_at__lte=now - pause) | Q(attempts=0, sent_at__gte=F("tried_at"))
    return bool(AlertMail.objects.filter(free, user=user, attempts=row.attempts).update(tried_at=now))


@transaction.atomic
def _write(user: User, news: News, now: dt.datetime) -> None:
    rows = [SentAlert(user=user, key=alert.key, words=mail.words_of(alert)) for alert in news.new]
    SentAlert.objects.bulk_create(rows, ignore_conflicts=True)
    SentAlert.objects.filter(pk__in=[row.pk for row in news.gone]).delete()
    AlertMail.objects.filter(user=user).update(sent_at=now, error="", attempts=0)
