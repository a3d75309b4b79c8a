"""Services for two-factor authentication: time-based codes (RFC 6238) and one-time recovery codes."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time

import pyotp
import segno
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record
from panel.core.errors import ApplicationError

PERIOD_S = 30
WINDOW = 1  # the previous and next codes are accepted too, because clocks differ
RECOVERY_COUNT = 10
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # without characters that look alike


def _recovery_digest(user: User, code: str) -> str:
    """Return a digest of a recovery code, keyed with SECRET_KEY, so that a stolen database alone reveals no codes."""
    text = f"{user.pk}:{code.replace('-', '').replace(' ', '').lower()}"
    return hmac.new(settings.SECRET_KEY.encode(), text.encode(), hashlib.sha256).hexdigest()


def enrolment_begin(*, user: User) -> str:
    """Create a secret for two-factor authentication and return its otpauth URI.
    Sign-in does not require a code before `user` confirms the secret with a first code.
    """
    if user.has_second_factor:
        raise ApplicationError(
            "Two-factor authentication is already on. Turn off two-factor authentication first.", code="already_on"
        )
    if not user.totp_secret:
        user.totp_secret = pyotp.random_base32()
        user.save(update_fields=["totp_secret"])
    return pyotp.TOTP(user.totp_secret).provisioning_uri(name=user.username, issuer_name="Paddock")


def qr_data_uri(uri: str) -> str:
    """Return a QR code of `uri` as a data: image, so that no URL contains the secret."""
    return segno.make(uri, error="m").svg_data_uri(scale=5, border=4, dark="#000", light="#fff")


def _matching_counter(user: User, code: str, now: float) -> int | None:
    """Return the time step (RFC 6238) of `code` if the code is correct and unused, otherwise None."""
    code = code.replace(" ", "")
    if not user.totp_secret or not (code.isascii() and code.isdecimal()):
        return None
    totp = pyotp.TOTP(user.totp_secret)
    current = int(now // PERIOD_S)
    for counter in range(current - WINDOW, current + WINDOW + 1):
        if counter > user.totp_last_counter and hmac.compare_digest(totp.generate_otp(counter), code):
            return counter
    return None


def _spend_counter(user: User, counter: int) -> bool:
    """Mark the time step of a code as used, so that no code works twice; return False if it was already used."""
    won = User.objects.filter(pk=user.pk, totp_last_counter__lt=counter).update(totp_last_counter=counter)
    user.totp_last_counter = max(user.totp_last_counter, counter)
    return bool(won)


def enrolment_confirm(*, user: User, code: str) -> list[str]:
    """Turn on two-factor authentication; return the recovery codes, which are shown only once.

    Raises ApplicationError at the field `code` if the code is wrong.
    """
    counter = _matching_counter(user, code, time.time())
    if user.has_second_factor or counter is None or not _spend_counter(user, counter):
        raise ApplicationError(
            "This code is not valid. Check the time on your phone, then enter the next code.",
            field="code",
            code="wrong_code",
        )
    with transaction.atomic():
        user.totp_confirmed_at = timezone.now()
        user.save(update_fields=["totp_confirmed_at"])
        audit_record(actor=user, action="second_factor.enable", target=user)
        return _new_recovery_codes(user)


def _new_recovery_codes(user: User) -> list[str]:
    codes = [
        "-".join("".join(secrets.choice(_ALPHABET) for _ in range(5)) for _ in range(2)) for _ in range(RECOVERY_COUNT)
    ]
    user.recovery_codes = [_recovery_digest(user, code) for code in codes]
    user.save(update_fields=["recovery_codes"])
    return codes


def recovery_codes_renew(*, user: User) -> list[str]:
    """Create and return new recovery codes for `user`; the old codes stop working."""
    if not user.has_second_factor:
        raise ApplicationError("Turn on two-factor authentication first.", code="off")
    with transaction.atomic():
        audit_record(actor=user, action="second_factor.recovery_codes", target=user)
        return _new_recovery_codes(user)


def _spend_recovery_code(user: User, code: str) -> bool:
    digest = _recovery_digest(user, code)
    with transaction.atomic():
        fresh = User.objects.select_for_update().get(pk=user.pk)
        if not any(hmac.compare_digest(digest, stored) for stored in fresh.recovery_codes):
            return False
        fresh.recovery_codes = [stored for stored in fresh.recovery_codes if stored != digest]
        fresh.save(update_fields=["recovery_codes"])
        audit_record(actor=fresh, action="second_factor.recovery_code_used", target=fresh)
    user.recovery_codes = fresh.recovery_codes
    return True


def code_spend(*, user: User, code: str) -> bool:
    """Return whether `code` is a valid app code or recovery code of `user`; mark it as used."""
    counter = _matching_counter(user, code, time.time())
    if counter is not None:
        return _spend_counter(user, counter)
    return _spend_recovery_code(user, code)


def second_factor_disable(*, actor: User, user: User) -> None:
    """Turn off two-factor authentication of `user`: by the user, or by an administrator after a lost phone."""
    if actor.pk != user.pk:
        require(actor, Action.ADMINISTER)
    with transaction.atomic():
        user.totp_secret, user.totp_confirmed_at, user.recovery_codes = "", None, []
        user.save(update_fields=["totp_secret", "totp_confirmed_at", "recovery_codes"])
        audit_record(actor=actor, action="second_factor.disable", target=user)
