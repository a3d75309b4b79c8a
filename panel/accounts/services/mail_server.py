"""Services for the panel's mail server: administrators set it, delete it, and test it with a mail to themselves."""

from __future__ import annotations

from typing import Any

from django.core.mail import EmailMultiAlternatives
from django.db import transaction
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record, snapshot
from panel.core import mail
from panel.core.errors import ApplicationError
from panel.core.models import MailServer

TEST_TIMEOUT_S = 15.0
_PLACE = ("host", "port", "username")


@transaction.atomic
def mail_server_set(*, actor: User, password: str = "", **values: Any) -> MailServer:
    """Store the mail server; raise ValidationError for invalid values.
    An empty password keeps the stored one, unless server, port, or user name change: the stored password must not be
    sent elsewhere.
    """
    require(actor, Action.ADMINISTER)
    row = MailServer.objects.select_for_update().first() or MailServer()
    before = snapshot(row) if row.pk else None
    place = [getattr(row, name) for name in _PLACE]
    for name, value in values.items():
        setattr(row, name, value)
    if password or [getattr(row, name) for name in _PLACE] != place:
        row.password = password
    row.full_clean()
    row.save()
    audit_record(actor=actor, action="mail_server.update", target=row, before=before, after=snapshot(row))
    return row


@transaction.atomic
def mail_server_delete(*, actor: User) -> None:
    """Delete the stored mail server. The panel then uses the mail server in the environment variables, if there is one.

    Raises ApplicationError if no mail server is stored.
    """
    require(actor, Action.ADMINISTER)
    row = MailServer.objects.select_for_update().first()
    if row is None:
        raise ApplicationError(_("No mail server is stored."))
    audit_record(actor=actor, action="mail_server.delete", target=row, before=snapshot(row))
    row.delete()


def mail_test(*, actor: User) -> str:
    """Send a mail to the actor's own address; return the mail server's response.

    Raises ApplicationError if this fails.
    """
    require(actor, Action.ADMINISTER)
    if not actor.email:
        raise ApplicationError(_("Your account has no mail address. Enter a mail address under Your account first."))
    message = EmailMultiAlternatives(
        subject=_("Test mail from Paddock"),
        body=_("This mail shows that Paddock's mail server works.") + "\n",
        to=[actor.email],
        headers={"Auto-Submitted": "auto-generated"},
    )
    try:
        said = mail.deliver(message, timeout_s=TEST_TIMEOUT_S)
    except (mail.Refused, mail.Unreachable) as error:
        raise ApplicationError(str(error)) from error
    audit_record(actor=actor, action="mail_server.test", target=actor)
    return said
