"""One-time links with which a user sets a password: invitations, and links for a forgotten password.

Only the SHA-256 of a link's secret is stored. A link is valid until it is used, until it expires, or until the user's
password or email address changes.
"""

from __future__ import annotations

import datetime as dt
import secrets
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.db import transaction
from django.db.models import Q
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from panel.accounts.guessing import guesses_forget
from panel.accounts.models import AccountLink, User
from panel.accounts.permissions import Action, require
from panel.accounts.services.digests import secret_digest
from panel.accounts.services.users import links_end, sessions_end, set_password_checked, user_create
from panel.audit.services import audit_record
from panel.core import mail
from panel.core.errors import ApplicationError

VALID = {AccountLink.Kind.INVITE: dt.timedelta(days=7), AccountLink.Kind.RESET: dt.timedelta(hours=2)}
MOST_RESETS = 3  # mails to one account in RESETS_WITHIN
RESETS_WITHIN = dt.timedelta(hours=1)
MAIL_TIMEOUT_S = 15.0


@dataclass(frozen=True)
class NewLink:
    """A new link. Its `path` contains the secret, which is not stored, so the path is known only at creation.

    `sent` names the receiver of the mail, or tells why no mail was sent.
    """

    link: AccountLink
    path: str
    sent: str
    is_sent: bool


def user_invite(*, actor: User, **values: Any) -> NewLink:
    """Create an account without a password, and a link with which its user sets one; mail the link if possible."""
    with transaction.atomic():
        user = user_create(actor=actor, password=None, **values)
        link, path = _made(actor, user, AccountLink.Kind.INVITE)
    return _mailed(link, path)


def link_create(*, actor: User, user: User) -> NewLink:
    """Create a link with which `user` sets a new password; mail the link if possible.

    Only administrators may call this. Earlier links of the user stop working. Raises ApplicationError if the
    account is not active.
    """
    require(actor, Action.ADMINISTER)
    if not user.is_active:
        raise ApplicationError(_("The account is not active. Activate the account, then create the link."))
    kind = AccountLink.Kind.RESET if user.has_usable_password() else AccountLink.Kind.INVITE
    with transaction.atomic():
        link, path = _made(actor, user, kind)
    return _mailed(link, path)


def password_forgotten(name: str) -> bool:
    """Mail a link to the account with this user name or email address; return whether a mail was sent.

    A worker calls this, so that neither the content nor the duration of the page's response reveals whether the account
    exists.
    """
    given = name.strip()
    if not given or not given.isascii() or not given.isprintable() or not can_mail():
        return False
    wanted = Q(username__iexact=given) | Q(email__iexact=given)
    users = list(User.objects.filter(wanted, is_active=True).exclude(email="")[:2])
    if len(users) != 1 or not users[0].has_usable_password():  # an address of two accounts names neither
        return False
    since = timezone.now() - RESETS_WITHIN
    if AccountLink.objects.filter(user=users[0], created_by=None, created_at__gt=since).count() >= MOST_RESETS:
        return False
    with transaction.atomic():
        link, path = _made(None, users[0], AccountLink.Kind.RESET)
    return _mailed(link, path).is_sent


def can_mail() -> bool:
    """Return whether links can be mailed: this requires a mail server and PADDOCK_URL."""
    return bool(settings.PANEL_URL) and mail.has_server()


def link_found(secret: str) -> AccountLink | None:
    """Return the link with this secret if it is unused, not expired, and of an active account; otherwise None."""
    now = timezone.now()
    rows = AccountLink.objects.filter(
        digest=secret_digest(secret), used_at=None, expires_at__gt=now, user__is_active=True
    )
    return rows.select_related("user").first()


def link_use(*, secret: str, password: str) -> User:
    """Set the password of the link's user, end the user's sessions, and return the user.

    Of two simultaneous calls, at most one succeeds. Raises ApplicationError with the code `gone` if the link is not
    usable, ValidationError for a weak password.
    """
    link = link_found(secret)
    if link is None:
        raise ApplicationError(_("This link is not valid. Ask for a new link."), code="gone")
    with transaction.atomic():
        user = User.objects.select_for_update().get(pk=link.user_id)
        if not AccountLink.objects.filter(pk=link.pk, used_at=None).update(used_at=timezone.now()):
            raise ApplicationError(_("This link is not valid. Ask for a new link."), code="gone")
        set_password_checked(user, password)
        user.save(update_fields=["password"])
        links_end(user)
        sessions_end(user)
        guesses_forget(user)
        audit_record(actor=user, action="user.password", target=user, after={"by": link.kind})
    return user


def _made(actor: User | None, user: User, kind: AccountLink.Kind) -> tuple[AccountLink, str]:
    if actor is not None:
        links_end(user)
    secret = secrets.token_urlsafe(32)
    expires_at = timezone.now() + VALID[kind]
    link = AccountLink.objects.create(
        user=user, kind=kind, digest=secret_digest(secret), expires_at=expires_at, created_by=actor
    )
    audit_record(
        actor=actor, action="user.link", target=user, after={"kind": str(kind), "expires_at": expires_at.isoformat()}
    )
    return link, reverse("accounts:link", args=[secret])


def _mailed(link: AccountLink, path: str) -> NewLink:
    """Mail the link if possible. Failures are not raised: `sent` of the returned NewLink tells why no mail was sent."""
    user = link.user
    if not user.email:
        return NewLink(link, path, _("The mail was not sent, because the account has no mail address."), is_sent=False)
    if not can_mail():
        words = _("The mail was not sent, because no mail server is configured, or PADDOCK_URL is not set.")
        return NewLink(link, path, words, is_sent=False)
    try:
        mail.deliver(_message(link, path), timeout_s=MAIL_TIMEOUT_S)
    except (mail.Refused, mail.Unreachable) as error:
        return NewLink(link, path, _("The mail was not sent: %s") % error, is_sent=False)
    return NewLink(link, path, _("A mail with the link was sent to %s.") % user.email, is_sent=True)


def _message(link: AccountLink, path: str) -> EmailMultiAlternatives:
    is_invitation = link.kind == AccountLink.Kind.INVITE
    context = {
        "user": link.user,
        "is_invitation": is_invitation,
        "url": f"{settings.PANEL_URL}{path}",
        "panel": settings.PANEL_URL,
        "expires_at": link.expires_at,
    }
    with timezone.override(link.user.timezone):
        body = render_to_string("accounts/link_mail.txt", context)
    return EmailMultiAlternatives(
        subject=_("Your Paddock account") if is_invitation else _("A new password for Paddock"),
        body=body,
        to=[link.user.email],
        headers={"Auto-Submitted": "auto-generated"},
    )
