"""Services for API tokens: create, authenticate, revoke."""

from __future__ import annotations

import datetime as dt
import ipaddress
import secrets

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils import timezone

from panel.accounts.models import ApiToken, Scope, User
from panel.accounts.permissions import Action, require, require_writing
from panel.accounts.services.digests import secret_digest
from panel.audit.services import audit_record, snapshot
from panel.core.errors import ApplicationError

_MARK = "pdk"  # lets secret scanners recognize a leaked token
_USE_RESOLUTION = dt.timedelta(minutes=1)  # minimum interval between updates of "last used"


def token_create(
    *,
    actor: User,
    name: str,
    scopes: list[str],
    expires_at: dt.datetime | None = None,
    addresses: list[str] | None = None,
) -> tuple[ApiToken, str]:
    """Create a token; return its row and its text, which is never shown again.

    `addresses` are the addresses and networks that may use the token: None for all, an empty list for none.
    """
    if actor.scopes is not None:
        raise ApplicationError("Tokens cannot create tokens. Sign in to the panel.", code="session_required")
    if Scope.ADMIN in scopes:
        require(actor, Action.ADMINISTER)
    if expires_at is not None and expires_at <= timezone.now():
        raise ApplicationError("This time is in the past. Choose a later time.", field="expires_at")
    prefix = f"{_MARK}_{secrets.token_hex(4)}"
    plain = f"{prefix}_{secrets.token_urlsafe(32)}"
    token = ApiToken(
        user=actor,
        name=name,
        prefix=prefix,
        digest=secret_digest(plain),
        scopes=scopes,
        expires_at=expires_at,
        addresses=addresses,
    )
    with transaction.atomic():
        token.full_clean()
        token.save()
        audit_record(actor=actor, action="token.create", target=token, after=snapshot(token))
    return token, plain


def token_revoke(*, actor: User, token: ApiToken) -> ApiToken:
    """Revoke a token permanently.
    Users revoke their own tokens, administrators any. A token cannot revoke a token with more permissions.
    """
    require_writing(actor)
    if token.user_id != actor.pk:
        require(actor, Action.ADMINISTER)
    if actor.scopes is not None and Scope.ADMIN not in actor.scopes and not set(token.scopes) <= actor.scopes:
        more = ", ".join(sorted(set(token.scopes) - actor.scopes))
        raise PermissionDenied(
            f"This token cannot revoke a token with more permissions ({more}). "
            "Revoke that token in the panel, under API tokens."
        )
    if token.revoked_at is None:
        with transaction.atomic():
            before = snapshot(token)
            token.revoked_at = timezone.now()
            token.save(update_fields=["revoked_at"])
            audit_record(actor=actor, action="token.revoke", target=token, before=before, after=snapshot(token))
    return token


def address_allowed(token: ApiToken, address: str) -> bool:
    """Return whether `address` may use the token.
    `token.addresses` is None for all addresses; an empty or damaged list permits none.
    """
    if token.addresses is None:
        return True
    if not isinstance(token.addresses, list):
        return False
    try:
        caller = ipaddress.ip_address(address)
        return any(caller in ipaddress.ip_network(str(network)) for network in token.addresses)
    except ValueError:
        return False


def token_is_good(plain: str) -> bool:
    """Return whether `plain` is the text of an API token that is not revoked, not expired, and of an active account.

    The use of the token is not recorded.
    """
    token = ApiToken.objects.select_related("user").filter(digest=secret_digest(plain)).first()
    return token is not None and token.is_usable and token.user.is_active


def token_authenticate(*, plain: str, address: str) -> ApiToken | None:
    """Return the token with the text `plain`, and record its use.

    None if no such token exists, if it is revoked or expired, if its account is not active, or if the token does not
    permit callers from `address`.
    """
    token = ApiToken.objects.select_related("user").filter(digest=secret_digest(plain)).first()
    if token is None or not token.is_usable or not token.user.is_active or not address_allowed(token, address):
        return None
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at > _USE_RESOLUTION:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now, last_used_address=address or None)
    return token
