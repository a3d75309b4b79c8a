"""What administrators allow teams beyond their own: overlapping names and addresses, and services of a host."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record, snapshot
from panel.websites.models import Allowance


@transaction.atomic
def allowance_create(*, actor: User, **values: Any) -> Allowance:
    """`kind`, `value`, `team`, `host`, `note` as the model says. Raises PermissionDenied and ValidationError."""
    require(actor, Action.ADMINISTER)
    row = Allowance(granted_by=actor, **values)
    row.full_clean()
    row.save()
    audit_record(actor=actor, action="allowance.create", target=row, after=snapshot(row))
    return row


@transaction.atomic
def allowance_delete(*, actor: User, allowance: Allowance) -> None:
    """What is deployed stays as it is; the next change or plan of an operator is refused."""
    require(actor, Action.ADMINISTER)
    audit_record(actor=actor, action="allowance.delete", target=allowance, before=snapshot(allowance))
    allowance.delete()
