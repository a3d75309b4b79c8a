"""Cancel unconfirmed plans that another deployment made outdated, because their confirmation would be rejected."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils import timezone

from panel.deployments.models import Deployment, DeploymentItem, DeploymentKind, DeploymentStatus

WORDS = "This plan is outdated because another plan has deployed {site}. Plan again."


def outdated_plans_cancel(done: Sequence[DeploymentItem]) -> None:
    """Cancel unconfirmed plans for sites that were just deployed, if the plans start from a revision that is no longer
    live.

    The other plans of their batches are canceled too. Plans that start from the revision that is live now stay, for
    example plans made before drift was overwritten.
    """
    stands = {item.site_id: item.revision_id for item in done}
    waiting = DeploymentItem.objects.filter(
        site__in=stands, deployment__status=DeploymentStatus.PLANNED, deployment__confirmed_at=None
    )
    # The second half of a move starts from nothing, wherever the site is deployed.
    waiting = waiting.exclude(deployment__kind=DeploymentKind.MOVE, previous=None)
    names = {
        batch: name
        for batch, name, site, previous in waiting.values_list(
            "deployment__batch", "site__name", "site_id", "previous_id"
        )
        if previous != stands[site]
    }
    for batch, name in names.items():
        Deployment.objects.filter(batch=batch, status=DeploymentStatus.PLANNED, confirmed_at=None).update(
            status=DeploymentStatus.CANCELLED, finished_at=timezone.now(), error=WORDS.format(site=name)
        )
