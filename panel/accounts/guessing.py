"""Limits of wrong guesses of passwords, codes, tokens and one-time links (decision 0409).

Every check of a password or code uses `guess`; unknown tokens and links are counted by `wrong_secret_counted`. The
counts are database rows, so all web processes share them. A guess is counted before its check, and subtracted again if
it was correct, so that parallel guesses cannot exceed the limit.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import secrets
import unicodedata
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil
from typing import TypeVar

from django.conf import settings
from django.core import signing
from django.db import transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone

from panel.accounts.models import GuessBudget, User
from panel.core.network import client_address

logger = logging.getLogger(__name__)
R = TypeVar("R")

DEVICE_COOKIE = "paddock_device"
_DEVICE_DAYS = 180
_DEVICES_KEPT = 5  # accounts remembered per browser
_DEVICE_SALT = "panel.accounts.device"
_PRUNED_AT_ONCE = 8


class Kind(StrEnum):
    """Kind of secret that somebody can guess.
    Wrong guesses are counted per kind: a correct password must not clear the count of wrong codes.
    """

    PASSWORD = "password"  # noqa: S105 - a name
    CODE = "code"
    TOKEN = "token"  # noqa: S105 - a name
    SETUP = "setup"
    RESET = "reset"  # requests for a link by mail


@dataclass(frozen=True)
class Limit:
    """Limit of wrong guesses: the first `free` wrong guesses cause no delay.

    Each further wrong guess doubles the delay, from `first` to at most `most` seconds. One wrong guess expires every
    `forget` seconds.
    """

    free: int
    first: float
    most: float
    forget: float

    def delay(self, failures: float) -> float:
        """Return the seconds to wait after `failures` wrong guesses."""
        beyond = ceil(failures) - self.free
        return 0.0 if beyond < 0 else min(self.most, self.first * 2.0 ** min(beyond, 30))

    def left(self, failures: float, seconds: float) -> float:
        """Return the number of wrong guesses that still count, `seconds` after the count was `failures`."""
        return max(0.0, failures - max(0.0, seconds) / self.forget)


# Limits for one account from one network, and from a known browser or in a session.
NEAR = {Kind.PASSWORD: Limit(6, 30, 900, 300), Kind.CODE: Limit(6, 30, 900, 900)}
DEVICE = {Kind.PASSWORD: Limit(6, 10, 900, 300), Kind.CODE: Limit(6, 30, 3600, 1800)}
# Limits for one account from all unknown browsers. The delay for passwords is short, because anybody can cause it.
# Guessing codes requires the password, and a code has only six digits.
ACCOUNT = {Kind.PASSWORD: Limit(30, 1, 60, 60), Kind.CODE: Limit(12, 60, 3600, 3600)}
NETWORK = Limit(60, 2, 300, 60)
EVERYWHERE = Limit(600, 0.5, 5, 2)
# 256 random bits cannot be guessed; the limit keeps wrong ones from causing work.
RANDOM = Limit(60, 1, 60, 5)


class TooManyGuesses(Exception):
    """Raised when too many wrong guesses were made; the guess was not checked. `retry_after` is in whole seconds."""

    def __init__(self, retry_after: int) -> None:
        self.retry_after = retry_after
        self.message = f"Too many wrong attempts. Wait {wait_words(retry_after)}, then try again."
        super().__init__(self.message)


@dataclass(frozen=True)
class Guesser:
    """Origin of a guess: its network and, if known, the browser or session.

    `device` identifies a browser that has signed in to the account before, or the session of a signed-in user; "" if
    neither is known.
    """

    network: str
    device: str = ""


def wait_words(seconds: int) -> str:
    if seconds < 60:
        return f"{seconds} second" + ("s" if seconds != 1 else "")
    minutes = ceil(seconds / 60)
    return f"{minutes} minute" + ("s" if minutes != 1 else "")


def network_of(address: str) -> str:
    """Return the network of an address that usually belongs to one party: /24 for IPv4, /64 for IPv6.
    An IPv4-mapped address counts as IPv4. "unknown" for an invalid address.
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return str(ipaddress.ip_network((ip, 24 if ip.version == 4 else 64), strict=False))


def guesser_at_sign_in(request: HttpRequest, account: User | None) -> Guesser:
    """Return the origin of a sign-in; its `device` is set if this browser has signed in to `account` before."""
    device = _devices(request).get(str(account.pk), "") if account else ""
    return Guesser(network_of(client_address(request)), f"device:{device}" if device else "")


def guesser_in_session(request: HttpRequest) -> Guesser:
    """Return the origin of a guess by a signed-in user; its `device` identifies the session."""
    key = hashlib.sha256((request.session.session_key or "").encode()).hexdigest()[:32]
    return Guesser(network_of(client_address(request)), f"session:{key}")


def guess(guesser: Guesser, *, kind: Kind, account: User | str, check: Callable[[], R]) -> R:
    """Check a password or code: return the result of `check`, and count a wrong guess if the result is false.

    Raises TooManyGuesses without calling `check` if a limit is exceeded. `account` is the owner of the secret; for an
    unknown user, the name as entered.
    """
    whose = _account_key(account)
    if guesser.device:
        own, shared = {f"{kind}|{whose}|{guesser.device}": DEVICE[kind]}, {}
    else:
        own = {f"{kind}|{whose}|{guesser.network}": NEAR[kind]}
        shared = {f"{kind}|{whose}": ACCOUNT[kind], f"network|{guesser.network}": NETWORK, "everywhere": EVERYWHERE}
    _reserve(own | shared)
    found = check()
    if found:
        GuessBudget.objects.filter(key__in=own).delete()
        _give_back(shared)
    return found


def wrong_secret_counted(request: HttpRequest, kind: Kind) -> None:
    """Count an unknown token or link, or a request for a link by mail; raise TooManyGuesses beyond the limit.

    The limit is per network of callers. Valid tokens and links are never counted or rejected: they are too long to
    guess, and the wrong guesses of others in the same network must not block their owners.
    """
    _reserve({f"{kind}|{network_of(client_address(request))}": RANDOM})


def guesses_forget(user: User) -> None:
    """Clear the counters of one account, for example after an administrator set a new password."""
    for kind in (Kind.PASSWORD, Kind.CODE):
        own = f"{kind}|{_account_key(user)}"
        GuessBudget.objects.filter(key=own).delete()
        GuessBudget.objects.filter(key__startswith=f"{own}|").delete()


def device_remember(request: HttpRequest, response: HttpResponseBase, user: User) -> None:
    """Mark this browser as known for `user` with a cookie.

    Wrong guesses from elsewhere then do not delay sign-ins of `user` from this browser.
    """
    known = _devices(request)
    device = known.pop(str(user.pk), "") or secrets.token_hex(16)
    kept = dict([*known.items(), (str(user.pk), device)][-_DEVICES_KEPT:])
    response.set_cookie(
        DEVICE_COOKIE,
        signing.dumps(kept, salt=_DEVICE_SALT),
        max_age=_DEVICE_DAYS * 86400,
        path="/login/",
        secure=bool(settings.SESSION_COOKIE_SECURE),
        httponly=True,
        samesite="Strict",
    )


def _devices(request: HttpRequest) -> dict[str, str]:
    """Return the device names in this browser's cookie, by account key; {} for a forged or expired cookie."""
    try:
        found = signing.loads(
            request.COOKIES.get(DEVICE_COOKIE, ""), salt=_DEVICE_SALT, max_age=timedelta(days=_DEVICE_DAYS)
        )
    except signing.BadSignature:
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _account_key(account: User | str) -> str:
    """Return one key for all spellings of a user name.
    Unknown names get keys too, so that a limit does not reveal which names exist.
    """
    if isinstance(account, User):
        return f"account:{account.pk}"
    folded = unicodedata.normalize("NFKC", account).casefold().strip()
    return f"name:{hashlib.sha256(folded.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _refuse_if_blocked(rows: Collection[GuessBudget], limits: dict[str, Limit], now: datetime) -> None:
    delays = [(limits[row.key].delay(row.failures), row.counted_at) for row in rows]
    # Another process may have counted after `now` was read; without a delay this causes no wait.
    longest = max((delay - (now - counted_at).total_seconds() for delay, counted_at in delays if delay), default=0.0)
    if longest > 0:
        raise TooManyGuesses(ceil(longest))


def _reserve(limits: dict[str, Limit]) -> None:
    """Add one wrong guess to every counter; raise TooManyGuesses and add none if a limit is exceeded.
    `limits` maps the key of each counter to its limit.
    """
    now = timezone.now()
    known = list(GuessBudget.objects.filter(key__in=limits))
    _refuse_if_blocked(known, limits, now)  # rejected guesses write nothing, even in a flood
    new = [
        GuessBudget(key=key, counted_at=now, forgotten_at=now + timedelta(seconds=limits[key].forget))
        for key in sorted(set(limits) - {row.key for row in known})
    ]
    GuessBudget.objects.bulk_create(new, ignore_conflicts=True)
    with transaction.atomic():
        rows = list(GuessBudget.objects.select_for_update().filter(key__in=limits).order_by("key"))
        now = timezone.now()
        _refuse_if_blocked(rows, limits, now)
        for row in rows:
            limit = limits[row.key]
            _store(row, limit.left(row.failures, (now - row.counted_at).total_seconds()) + 1, limit, now)
    _prune(now)


def _store(row: GuessBudget, failures: float, limit: Limit, counted_at: datetime) -> None:
    if ceil(failures) == limit.free:
        logger.warning("Too many wrong attempts: %s is now limited", row.key)
    row.failures, row.counted_at = failures, counted_at
    row.forgotten_at = counted_at + timedelta(seconds=max(failures * limit.forget, limit.delay(failures)))
    row.save(update_fields=["failures", "counted_at", "forgotten_at"])


def _give_back(limits: dict[str, Limit]) -> None:
    """Subtract one guess, which `_reserve` added, from every counter.
    `limits` maps the key of each counter to its limit. Other guesses stay counted: one correct password does not clear
    the count of a whole network.
    """
    if not limits:
        return
    with transaction.atomic():
        for row in GuessBudget.objects.select_for_update().filter(key__in=limits).order_by("key"):
            _store(row, max(0.0, row.failures - 1), limits[row.key], row.counted_at)


def _prune(now: datetime) -> None:
    """Delete at most _PRUNED_AT_ONCE expired counters, each with its own statement to avoid deadlocks."""
    old = GuessBudget.objects.filter(forgotten_at__lt=now).values_list("pk", flat=True)[:_PRUNED_AT_ONCE]
    for pk in list(old):
        GuessBudget.objects.filter(pk=pk, forgotten_at__lt=now).delete()
