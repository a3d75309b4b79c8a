"""Use of the rate limits of certificate authorities: checked before an order, and counted after it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from panel.certificates import limits
from panel.certificates.choices import LimitKind
from panel.certificates.limits import Bucket
from panel.certificates.models import AcmeAccount, AutomaticCertificate, Order, RateLimit


@dataclass(frozen=True)
class Usage:
    """Use of one rate limit: `used` of `count` in `period_s` seconds; the next request is possible at `opens_at`."""

    kind: LimitKind
    subject: str
    used: int
    count: int
    period_s: int
    opens_at: dt.datetime
    words: str


def usages(account: AcmeAccount, names: Sequence[str], kinds: Iterable[LimitKind]) -> list[Usage]:
    """Return the use of the rate limits that apply to an order of the account for these names.
    Empty if the certificate authority publishes no limits.
    """
    found = limits.buckets(account.issuer, account.name, names, kinds)
    rows = RateLimit.objects.filter(issuer=account.issuer, key__in={bucket.key for bucket in found})
    stored = {(row.kind, row.key): row.full_at for row in rows}
    now = timezone.now()
    return [_usage(account, item, stored.get((item.limit.kind, item.key)), now) for item in found]


def _usage(account: AcmeAccount, bucket: Bucket, full_at: dt.datetime | None, now: dt.datetime) -> Usage:
    limit = bucket.limit
    return Usage(
        kind=limit.kind,
        subject=bucket.subject,
        used=limit.used(full_at, now),
        count=limit.count,
        period_s=int(limit.period.total_seconds()),
        opens_at=limit.opens_at(full_at, now),
        words=_words(account, bucket),
    )


def _words(account: AcmeAccount, bucket: Bucket) -> str:
    """Return a sentence that describes a rate limit, for example for an error message."""
    hours = int(bucket.limit.period.total_seconds()) // 3600
    period = _("7 days") if hours >= 168 else ngettext("%d hour", "%d hours", hours) % hours
    values = {
        "authority": account.get_issuer_display(),
        "count": bucket.limit.count,
        "period": period,
        "subject": bucket.subject,
    }
    texts = {
        LimitKind.ORDERS: _("%(authority)s accepts %(count)d orders of the account %(subject)s in %(period)s."),
        LimitKind.DOMAIN: _("%(authority)s issues %(count)d certificates for %(subject)s in %(period)s."),
        LimitKind.NAMES: _("%(authority)s issues %(count)d certificates for the same names in %(period)s."),
        LimitKind.FAILURES: _("%(authority)s accepts %(count)d failed challenges for %(subject)s in %(period)s."),
    }
    return texts[bucket.limit.kind] % values


def kinds_of(order: Order) -> set[LimitKind]:
    certificate = order.automatic.certificate
    is_same = certificate is not None and sorted(certificate.names) == sorted(order.names)
    return limits.counted_kinds(is_replacement=bool(order.replaces), is_same=is_same)


def wait_of(account: AcmeAccount, order: Order) -> tuple[str, dt.datetime] | None:
    """Return (reason, end) of the longest wait for a rate limit; None if the order can be placed now."""
    found = [
        (f"{item.words} The account has reached this limit.", item.opens_at)
        for item in usages(account, order.names, kinds_of(order))
    ]
    if account.paused_until is not None:
        found.append(
            (_("The certificate authority accepts no orders of this account at the moment."), account.paused_until)
        )
    now = timezone.now()
    return max((item for item in found if item[1] > now), key=lambda item: item[1], default=None)


def count(account: AcmeAccount, names: Sequence[str], kinds: Iterable[LimitKind]) -> None:
    """Count one request for the domain names `names` under each rate limit of the given kinds."""
    now = timezone.now()
    for bucket in sorted(limits.buckets(account.issuer, account.name, names, kinds), key=lambda item: item.key):
        key = {"issuer": account.issuer, "kind": bucket.limit.kind, "key": bucket.key}
        with transaction.atomic():
            RateLimit.objects.get_or_create(**key, defaults={"full_at": now})
            row = RateLimit.objects.select_for_update().get(**key)
            RateLimit.objects.filter(pk=row.pk).update(full_at=bucket.limit.spent(row.full_at, now))


def placed(account: AcmeAccount, order: Order) -> None:
    """Count an accepted order under the rate limits of the certificate authority."""
    count(account, order.names, kinds_of(order) & {LimitKind.ORDERS})


def issued(account: AcmeAccount, order: Order) -> None:
    """Count an issued certificate under the rate limits of the certificate authority."""
    count(account, order.names, kinds_of(order) & {LimitKind.DOMAIN, LimitKind.NAMES})


def challenge_failed(account: AcmeAccount, name: str) -> None:
    count(account, [name], {LimitKind.FAILURES})


def of_site(automatic: AutomaticCertificate) -> list[Usage]:
    """Return the use of the rate limits that apply to the site's last order; unused limits are left out."""
    order = next(iter(automatic.orders.all()), None)
    names = list(order.names) if order is not None else []
    found = usages(automatic.account, names, LimitKind) if names else []
    return [item for item in found if item.used]


def forget() -> None:
    """Delete the rows of limits whose requests are all available again; a limit without a row counts as unused."""
    RateLimit.objects.filter(full_at__lte=timezone.now()).delete()
