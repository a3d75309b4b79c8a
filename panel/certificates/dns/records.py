"""The records of an order: written, seen on every authoritative server, removed; those of dead workers too."""

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
    """Write the TXT values of each domain name, after a row of each was stored. Raises ApplicationError."""
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
    """Wait until every authoritative server responds with the records; return, in words, the servers that do not in
    time.
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
    """Remove records and their rows; a record that cannot be removed now is kept for later, with its problem."""
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
    """Remove records whose order has ended, or was deleted: their worker died, or DNS did not respond then."""
    left = ChallengeRecord.objects.exclude(order__status__in=UNDER_WAY).filter(try_at__lte=timezone.now())
    remove(left.select_related("dns").order_by("try_at")[:AT_ONCE])


def leftover(dns: DnsAccount) -> int:
    """Number of records that may still exist by this account."""
    return ChallengeRecord.objects.filter(dns=dns).count()


def _record(row: ChallengeRecord) -> Record:
    return Record(row.zone, row.name, row.value)
