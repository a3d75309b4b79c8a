"""Confirmed deployments that wait for their wave of a rollout: status `planned`, with `confirmed_at` set."""

from __future__ import annotations

from collections.abc import Collection

from django.db import transaction
from django.utils import timezone

from panel.core.errors import Conflict
from panel.deployments.confirmation.services import UNKNOWN_RESULT, refuse_busy, refuse_other_live, wake_workers
from panel.deployments.locking import sites_lock
from panel.deployments.models import Deployment, DeploymentItem, DeploymentStatus
from panel.hosts.services import refuse_paused


def held_release(pks: Collection[int]) -> None:
    """Queue confirmed deployments that waited for their wave. Raises Conflict, and queues none, if another revision
    went live meanwhile, if a site is being deployed, or if a host is paused.

    A changed draft does not matter: the deployment carries the revision that was confirmed.
    """
    rows = DeploymentItem.objects.filter(deployment__in=pks).select_related("site", "previous", "deployment__host")
    rows = rows.defer("previous__spec", "previous__files", "deployment__plan")
    items = list(rows.order_by("deployment", "pk"))
    refuse_paused({item.deployment.host for item in items})
    with transaction.atomic():
        sites_lock(item.site_id for item in items)
        refuse_busy(item.site_id for item in items)
        refuse_other_live(items)
        held = Deployment.objects.filter(pk__in=pks, status=DeploymentStatus.PLANNED, confirmed_at__isnull=False)
        if held.update(status=DeploymentStatus.QUEUED) != len(pks):
            raise Conflict(
                "Somebody cancelled a deployment of this wave, so the wave did not start. Plan the sites again."
            )
        wake_workers(list(Deployment.objects.filter(pk__in=pks).only("uuid").order_by("pk")))


def waiting_cancel(pks: Collection[int], words: str) -> int:
    """Cancel the given deployments that wait for their wave or are queued; return the number of canceled deployments.

    `words` becomes the error of each of them. A deployment that was already sent to its host, and got no response, has
    the error UNKNOWN_RESULT instead.
    """
    now = timezone.now()
    waiting = Deployment.objects.filter(
        pk__in=pks, status__in=(DeploymentStatus.PLANNED, DeploymentStatus.QUEUED), confirmed_at__isnull=False
    )
    with transaction.atomic():
        told = waiting.filter(started_at__isnull=False)
        count = told.update(status=DeploymentStatus.CANCELLED, finished_at=now, error=UNKNOWN_RESULT)
        return count + waiting.update(status=DeploymentStatus.CANCELLED, finished_at=now, error=words)
