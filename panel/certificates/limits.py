"""Rate limits that certificate authorities publish. Pure: no I/O.

Let's Encrypt counts each limit as a token bucket: `count` requests at once, and one more after each `interval`
(https://letsencrypt.org/docs/rate-limits/). The state of a bucket is a time, `full_at`, at which no token is used any
longer.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import ipaddress
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import tldextract

from panel.certificates.choices import Issuer, LimitKind
from panel.certificates.keys import is_address

HOUR = dt.timedelta(hours=1)
WEEK = dt.timedelta(days=7)
FEWER_NAMES = {"tlsserver", "shortlived"}  # profiles of Let's Encrypt with at most 25 names in a certificate


@dataclass(frozen=True)
class Limit:
    """A rate limit: `count` requests of `kind` in each `period`."""

    kind: LimitKind
    count: int
    period: dt.timedelta

    @property
    def interval(self) -> dt.timedelta:
        return self.period / self.count

    def used(self, full_at: dt.datetime | None, now: dt.datetime) -> int:
        """Return how many of the `count` requests are used up at the time `now`."""
        if full_at is None or full_at <= now:
            return 0
        return min(self.count, math.ceil((full_at - now) / self.interval))

    def opens_at(self, full_at: dt.datetime | None, now: dt.datetime) -> dt.datetime:
        """Return the time at which the next request is possible: `now` or later."""
        return now if full_at is None else max(now, full_at + self.interval - self.period)

    def spent(self, full_at: dt.datetime | None, now: dt.datetime) -> dt.datetime:
        """Return the time `full_at` of the bucket after one more request."""
        return max(now, full_at or now) + self.interval


@dataclass(frozen=True)
class Bucket:
    """A token bucket of one ACME account, domain, or set of names.

    `subject` tells people what the bucket counts, `key` identifies it in the database.
    """

    limit: Limit
    key: str
    subject: str


def _limits(orders: int, certificates: int, same_names: int, failures: int) -> tuple[Limit, ...]:
    return (
        Limit(LimitKind.ORDERS, orders, 3 * HOUR),
        Limit(LimitKind.DOMAIN, certificates, WEEK),
        Limit(LimitKind.NAMES, same_names, WEEK),
        Limit(LimitKind.FAILURES, failures, HOUR),
    )


# Other authorities publish no limits; only their Retry-After is used.
LIMITS = {
    Issuer.LETSENCRYPT: _limits(300, 50, 5, 5),
    Issuer.LETSENCRYPT_STAGING: _limits(1500, 30_000, 30_000, 200),
}


def most_names(issuer: str, profile: str, usual: int) -> int:
    """Return the maximum number of names in a certificate: `usual`, or less if the authority's profile allows fewer."""
    return min(usual, 25) if Issuer(issuer) in LIMITS and profile in FEWER_NAMES else usual


def buckets(issuer: str, account: str, names: Sequence[str], kinds: Iterable[LimitKind]) -> list[Bucket]:
    """Return the token buckets of the given kinds of limits that an order for `names` uses. `account` identifies the
    ACME account.
    """
    wanted = set(kinds)
    found = []
    for limit in LIMITS.get(Issuer(issuer), ()):
        if limit.kind in wanted:
            found += [Bucket(limit, key, subject) for key, subject in _keys(limit.kind, account, names)]
    return found


def _keys(kind: LimitKind, account: str, names: Sequence[str]) -> list[tuple[str, str]]:
    match kind:
        case LimitKind.ORDERS:
            return [(account, account)]
        case LimitKind.DOMAIN:
            return [(domain, domain) for domain in dict.fromkeys(map(registered_domain, names))]
        case LimitKind.NAMES:
            together = ",".join(sorted(names))
            return [(hashlib.sha256(together.encode()).hexdigest(), ", ".join(names[:3]))]
        case _:
            return [(f"{account}/{name}", name) for name in names]


def counted_kinds(*, is_replacement: bool, is_same: bool) -> set[LimitKind]:
    """Return the kinds of limits that apply to an order.

    With `is_replacement` (the order names its predecessor, RFC 9773 section 5), only the limit of failures applies.
    With `is_same` (there was a certificate for the same names), the limit of the domain does not apply.
    """
    if is_replacement:
        return {LimitKind.FAILURES}
    return set(LimitKind) - ({LimitKind.DOMAIN} if is_same else set())


def registered_domain(name: str) -> str:
    """Return the registered domain of a name, by which authorities count certificates: one label below a public suffix.
    For an IPv4 address, return the address; for an IPv6 address, its /64 network.
    """
    if is_address(name):
        address = ipaddress.ip_address(name)
        return str(ipaddress.ip_network(f"{name}/64", strict=False)) if address.version == 6 else name
    bare = name.removeprefix("*.")
    return _suffixes()(bare).top_domain_under_public_suffix or bare


@functools.cache
def _suffixes() -> tldextract.TLDExtract:
    """Return a reader of the Public Suffix List that the tldextract library contains; nothing is downloaded."""
    return tldextract.TLDExtract(cache_dir=None, suffix_list_urls=(), include_psl_private_domains=True)
