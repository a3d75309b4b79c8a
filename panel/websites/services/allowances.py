"""Services for allowances, which administrators give to teams: overlapping names and addresses, and
services of a host.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record, snapshot
from panel.websites.models import Allowance, Site
from panel.websites.versions import plans_outdate


def _sites(allowance: Allowance) -> list[int]:
    """Return the ids of the sites to which the allowance applies."""
    sites = Site.objects.all()
    if allowance.team_id is not None:
        sites = sites.filter(team=allowance.team_id)
    if allowance.host_id is not None:
        sites = sites.filter(web_server__host=allowance.host_id)
    return list(sites.values_list("pk", flat=True))


@transaction.atomic
def allowance_create(*, actor: User, **values: Any) -> Allowance:
    """Create an allowance with the model's fields `kind`, `value`, `team`, `host`, `note`.

    Raises PermissionDenied if `actor` is not an administrator, ValidationError for invalid values.
    """
    require(actor, Action.ADMINISTER)
    row = Allowance(granted_by=actor, **values)
    row.full_clean()
    row.save()
    plans_outdate(_sites(row))
    audit_record(actor=actor, action="allowance.create", target=row, after=snapshot(row))
    return row


@transaction.atomic
def allowance_delete(*, actor: User, allowance: Allowance) -> None:
    """Delete an allowance. Deployed sites stay unchanged. Operators' next changes and plans that need the allowance are
    rejected, and existing plans become outdated.
    """
    require(actor, Action.ADMINISTER)
    plans_outdate(_sites(allowance))
    audit_record(actor=actor, action="allowance.delete", target=allowance, before=snapshot(allowance))
    allowance.delete()
