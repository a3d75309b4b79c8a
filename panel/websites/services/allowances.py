"""Allowances by administrators: overlapping names and addresses, and services of a host."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record, snapshot
from panel.websites.models import Allowance


@transaction.atomic
def allowance_create(*, actor: User, **values: Any) -> Allowance:
    """Create an allowance with `kind`, `value`, `team`, `host`, `note` as in the model. Raises PermissionDenied and
    ValidationError.
    """
    require(actor, Action.ADMINISTER)
    row = Allowance(granted_by=actor, **values)
    row.full_clean()
    row.save()
    audit_record(actor=actor, action="allowance.create", target=row, after=snapshot(row))
    return row


@transaction.atomic
def allowance_delete(*, actor: User, allowance: Allowance) -> None:
    """Delete an allowance. Deployed sites stay unchanged; the next change or plan of an operator is rejected."""
    require(actor, Action.ADMINISTER)
    audit_record(actor=actor, action="allowance.delete", target=allowance, before=snapshot(allowance))
    allowance.delete()
