"""TXT records of DNS-01 challenges: write, wait until all authoritative servers have them, remove."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Iterable, Mapping, Sequence

from django.utils import timezone

from panel.certificates.dns import lookups, updates
from panel.certificates.dns.updates import Record
from panel.certificates.models import UNDER_WAY, ChallengeRecord, DnsAccount, Order
from panel.core.errors import ApplicationError

logger = logging.getLogger(__name__)

SEEN_TIMEOUT_S = 120.0
POLL_S = 1.0
TRY_AGAIN = dt.timedelta(minutes=5)
AT_ONCE = 50


def put(order: Order | None, dns: DnsAccount, values: Mapping[str, Sequence[str]]) -> list[ChallengeRecord]:
    """Write TXT records ({domain name: values}) at the DNS account; return the database rows of the records.

    Each row is stored before its record is written, so that the record is removed even if this worker dies. Raises
    ApplicationError if DNS does not respond, or if a record cannot be written.
    """
    rows = []
    for domain, texts in values.items():
        name = lookups.record_name(domain)
        zone = lookups.zone_of(name)
        for text in texts:
            row, _is_new = ChallengeRecord.objects.update_or_create(
                dns=dns, zone=zone.name, name=name, value=text, defaults={"order": order}
            )
            rows.append(row)
            updates.record_add(dns.kind, dns.values, _record(row))
    return rows


def unseen(rows: Iterable[ChallengeRecord]) -> list[str]:
    """Wait until every authoritative server responds with the TXT records.
    Return a sentence for each server that lacks a record after SEEN_TIMEOUT_S.
    """
    by_name: dict[str, list[str]] = {}
    for row in rows:
        by_name.setdefault(row.name, []).append(row.value)
    deadline = time.monotonic() + SEEN_TIMEOUT_S
    problems: list[str] = []
    for name, values in by_name.items():
        zone = lookups.zone_of(name)
        while problems := lookups.lacking(zone, name, values):
            if time.monotonic() > deadline:
                return problems
            time.sleep(POLL_S)
    return problems


def remove(rows: Iterable[ChallengeRecord]) -> list[str]:
    """Remove TXT records from DNS and delete their rows; return a text for each record that could not be removed.
    Such a record keeps its row, and `clear` removes it later.
    """
    problems = []
    for row in rows:
        try:
            updates.record_remove(row.dns.kind, row.dns.values, _record(row))
        except ApplicationError as error:
            ChallengeRecord.objects.filter(pk=row.pk).update(try_at=timezone.now() + TRY_AGAIN)
            problems.append(f"{row.name}: {error.message}")
            logger.warning("the DNS record %s is not removed yet: %s", row.name, error.message)
            continue
        row.delete()
    return problems


def of_order(order: Order) -> list[ChallengeRecord]:
    return list(ChallengeRecord.objects.filter(order=order).select_related("dns"))


def clear() -> None:
    """Remove records of ended or deleted orders, left because their worker died or DNS did not respond."""
    left = ChallengeRecord.objects.exclude(order__status__in=UNDER_WAY).filter(try_at__lte=timezone.now())
    remove(left.select_related("dns").order_by("try_at")[:AT_ONCE])


def leftover(dns: DnsAccount) -> int:
    """Return the number of records that Paddock may still have at this DNS account."""
    return ChallengeRecord.objects.filter(dns=dns).count()


def _record(row: ChallengeRecord) -> Record:
    return Record(row.zone, row.name, row.value)
