"""Mails about alerts: one to each subscribed user when an alert is new or resolved.

Sent alerts are recorded after the mail server accepted the mail. If a worker dies in between, they are sent again; none
is lost.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from panel.accounts.models import User
from panel.notices import mail
from panel.notices.concerns import Concern, troubles
from panel.notices.models import Notices, Told
from panel.reports.mail import Refused, Unreachable

MOST = 200  # alerts of a kind: longer mails are not useful
# Pauses after the first, second, ... failed attempt; the first is also the time after which an attempt counts as lost.
PAUSES = (dt.timedelta(minutes=2), dt.timedelta(minutes=10), dt.timedelta(hours=1))


@dataclass(frozen=True)
class News:
    """Contents of a mail: new alerts, and resolved ones. `gone`: alerts that no longer exist as sent; if a site failed
    again, a new failure replaces the old one.
    """

    new: list[Concern]
    over: list[Told]
    gone: list[Told]


def notices_send(now: dt.datetime | None = None) -> None:
    """One round over all subscribed users. Safe to call at any time, from several workers at once."""
    for user in User.objects.filter(is_active=True, mail_notices=True).exclude(email="").order_by("pk"):
        with timezone.override(user.timezone):
            _send(user, now or timezone.now())
    # Users who unsubscribe start from the beginning later.
    Told.objects.exclude(user__is_active=True, user__mail_notices=True).delete()


def news_of(user: User) -> News:
    found = {concern.key: concern for concern in troubles(user, MOST)}
    told = {row.key: row for row in Told.objects.filter(user=user).order_by("pk")}
    gone = [row for key, row in told.items() if key not in found]
    still = {mail.words_of(concern) for concern in found.values()}
    return News(
        new=[concern for key, concern in found.items() if key not in told],
        over=[row for row in gone if row.words not in still],
        gone=gone,
    )


def _send(user: User, now: dt.datetime) -> None:
    news = news_of(user)
    if not (news.new or news.over) or not _claimed(user, now):
        return
    try:
        mail.send(user, news.new, news.over)
    except (Refused, Unreachable) as error:
        Notices.objects.filter(user=user).update(error=str(error), attempts=F("attempts") + 1)
    else:
        _write(user, news, now)


def _claimed(user: User, now: dt.datetime) -> bool:
    """Return whether this worker should try now: no other does, and the last attempt was long enough ago."""
    row, _made = Notices.objects.get_or_create(user=user)
    pause = PAUSES[min(max(row.attempts, 1), len(PAUSES)) - 1]
    free = Q(tried_at=None) | Q(tried_at__lte=now - pause) | Q(attempts=0, sent_at__gte=F("tried_at"))
    return bool(Notices.objects.filter(free, user=user, attempts=row.attempts).update(tried_at=now))


@transaction.atomic
def _write(user: User, news: News, now: dt.datetime) -> None:
    rows = [Told(user=user, key=concern.key, words=mail.words_of(concern)) for concern in news.new]
    Told.objects.bulk_create(rows, ignore_conflicts=True)
    Told.objects.filter(pk__in=[row.pk for row in news.gone]).delete()
    Notices.objects.filter(user=user).update(sent_at=now, error="", attempts=0)
