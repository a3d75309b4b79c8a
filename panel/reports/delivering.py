"""Delivery of reports: claim a delivery, send the report, record the result, and schedule a retry.

If a worker dies after a successful delivery, the receiver gets the report again. All attempts have the same Message-ID
or Paddock-Delivery header, so receivers can detect duplicates.
"""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass
from uuid import UUID

from django.db.models import F
from django.utils import timezone

from panel.core.claims import Claim, orphans_queue
from panel.core.jobs import JobStatus
from panel.core.mail import Refused, Unreachable
from panel.reports import mail, webhook
from panel.reports.choices import Channel
from panel.reports.models import Delivery

# Pauses after the first, second, ... failed attempt; after the last the delivery fails.
PAUSES_S = (30, 120, 600, 3600, 6 * 3600)


@dataclass(frozen=True)
class Tried:
    """Result of one attempt to deliver a report.
    `words` describes the result for users. `again`: whether another attempt may succeed.
    """

    is_done: bool
    words: str
    again: bool = False


def waiting() -> list[UUID]:
    """Queue deliveries of dead workers again; return the ids of all queued deliveries that are due."""
    queued = orphans_queue(Delivery, "pk")
    return list(Delivery.objects.filter(uuid__in=queued, due_at__lte=timezone.now()).values_list("uuid", flat=True))


def attempt(uuid: UUID) -> None:
    if not Delivery.objects.filter(uuid=uuid, due_at__lte=timezone.now()).exists():
        return
    claim = Claim(Delivery)
    if not claim.take([uuid], attempts=F("attempts") + 1):
        return
    row = Delivery.objects.select_related("report__schedule").get(uuid=uuid)
    begun = time.monotonic()
    with claim.heartbeat():
        tried = _try(row)
        _write(claim, row, tried, time.monotonic() - begun)


def _try(row: Delivery) -> Tried:
    send = mail.send if row.channel == Channel.MAIL else webhook.send
    try:
        return Tried(True, send(row))
    except Refused as error:
        return Tried(False, str(error))
    except Unreachable as error:
        return Tried(False, str(error), again=True)


def _write(claim: Claim, row: Delivery, tried: Tried, seconds: float) -> None:
    now = timezone.now()
    line = {"at": now.isoformat(timespec="seconds"), "words": tried.words, "seconds": round(seconds, 2)}
    values = {"log": [*row.log, line], "row_version": F("row_version") + 1, "claimed_by": "", "heartbeat_at": None}
    if not tried.is_done and tried.again and row.attempts <= len(PAUSES_S):
        due_at = now + dt.timedelta(seconds=PAUSES_S[row.attempts - 1])
        claim.rows.update(status=JobStatus.QUEUED, due_at=due_at, **values)
        return
    status = JobStatus.SUCCEEDED if tried.is_done else JobStatus.FAILED
    claim.rows.update(status=status, finished_at=now, **values)
