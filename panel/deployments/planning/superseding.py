"""Cancel unconfirmed plans that a newer plan of the same kind and sites replaces."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from panel.accounts.models import User
from panel.audit.services import audit_record_all
from panel.deployments.models import Deployment, DeploymentItem, DeploymentKind, DeploymentStatus

WORDS = "A newer plan replaced this plan. Nothing was changed."


def _waiting(kind: str) -> QuerySet[Deployment]:
    return Deployment.objects.filter(kind=kind, status=DeploymentStatus.PLANNED, confirmed_at=None)


def supersede(actor: User | None, rows: Sequence[Deployment], sites: set[int]) -> None:
    """Cancel older waiting plans that the new deployments `rows` replace. `sites` are the ids of the sites in `rows`.

    A batch of older plans is canceled only if `sites` contains all of its sites. The caller stores the new plan in the
    same database transaction.
    """
    new = rows[0]
    items = DeploymentItem.objects.filter(deployment__in=_waiting(new.kind).exclude(batch=new.batch))
    batches = set(items.filter(site__in=sites).values_list("deployment__batch", flat=True))
    if batches:
        named = DeploymentItem.objects.filter(deployment__batch__in=batches).values_list("deployment__batch", "site")
        _close(actor, new, batches - {batch for batch, site in named if site not in sites})


def main_supersede(actor: User, new: Deployment) -> None:
    """Cancel waiting plans for the main file of the new plan's web server; such plans have no sites."""
    rows = _waiting(DeploymentKind.MAIN).filter(host=new.host_id).exclude(pk=new.pk)
    _close(actor, new, {row.batch for row in rows if row.target_id == new.target_id})


def _close(actor: User | None, new: Deployment, batches: set[UUID]) -> None:
    old = list(_waiting(new.kind).filter(batch__in=batches).select_related("host")) if batches else []
    if not old:
        return
    pks = [row.pk for row in old]
    _waiting(new.kind).filter(pk__in=pks).update(
        status=DeploymentStatus.CANCELLED, finished_at=timezone.now(), error=WORDS, superseded_by=new
    )
    Deployment.objects.filter(superseded_by__in=pks).update(superseded_by=new)  # always points to the newest
    targets = [(row, None, {"by": str(new.uuid)}) for row in old]
    audit_record_all(actor=actor, action="deployment.supersede", targets=targets)
