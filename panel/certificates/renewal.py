"""Times of renewals, and of the next attempt after a failed order. Pure: no I/O."""

from __future__ import annotations

import base64
import datetime as dt
import math
import random
from dataclasses import dataclass

from cryptography import x509

SHORT_LIVED = dt.timedelta(days=10)
ASK_AGAIN = dt.timedelta(hours=6)  # RFC 9773 section 4.3.3
FIRST_RETRY = dt.timedelta(minutes=5)
LAST_RETRY = dt.timedelta(hours=24)
SPREAD = 0.05  # part of the lifetime


@dataclass(frozen=True)
class Window:
    """The renewal window that a certificate authority suggests (RFC 9773 section 4.2)."""

    start: dt.datetime
    end: dt.datetime


@dataclass(frozen=True)
class Next:
    """Time of a renewal, and its reason as a sentence."""

    at: dt.datetime
    reason: str


def next_renewal(not_before: dt.datetime, not_after: dt.datetime, window: Window | None, chance: random.Random) -> Next:
    """Choose the time of a renewal: a random time in the window that the authority suggests.

    Without a window, the time is after two thirds of the lifetime, or after half of a lifetime shorter than ten
    days. Up to 5 % of the lifetime are added at random.
    """
    lifetime = not_after - not_before
    if window is not None and window.start <= window.end:
        at = window.start + (window.end - window.start) * chance.random()
        return Next(min(at, not_after), "The certificate authority suggests a renewal at this time.")
    share, words = (0.5, "half") if lifetime < SHORT_LIVED else (2 / 3, "two thirds")
    at = not_before + lifetime * (share + SPREAD * chance.random())
    return Next(at, f"At this time, {words} of the certificate's lifetime have passed.")


def next_try(failures: int, now: dt.datetime, earliest: dt.datetime | None, chance: random.Random) -> dt.datetime:
    """Return the time of the next order after `failures` failed orders in a row.

    The wait is five minutes after the first failure, and doubles with each further failure, up to a day. The result is
    not before `earliest`, a time that the authority named.
    """
    wait: dt.timedelta = min(FIRST_RETRY * 2 ** min(max(failures - 1, 0), 12), LAST_RETRY)
    at = now + wait * (1 + 0.2 * chance.random())
    return max(at, earliest) if earliest else at


def certificate_id(certificate: x509.Certificate) -> str:
    """Return the identifier of RFC 9773 section 4.1; "" for a certificate without an authority key identifier."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    except x509.ExtensionNotFound:
        return ""
    if found is None:
        return ""
    number = certificate.serial_number
    serial = number.to_bytes(math.ceil((number.bit_length() + 1) / 8), "big", signed=True)
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (found, serial))
