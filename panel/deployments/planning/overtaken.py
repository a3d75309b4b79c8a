"""Plans that nobody confirmed and a later deployment made stale: they could only be refused, so they are closed."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils import timezone

from panel.deployments.models import Deployment, DeploymentItem, DeploymentKind, DeploymentStatus

WORDS = "Outdated: another plan has deployed {site}. Plan again."


def overtaken_cancel(done: Sequence[DeploymentItem]) -> None:
    """Cancel what was planned, with its batch, from another state of these sites than the one that stands now.

    A plan that begins at the revision that stands (one made before drift was overwritten, say) is still good.
    """
    stands = {item.site_id: item.revision_id for item in done}
    waiting = DeploymentItem.objects.filter(
        site__in=stands, deployment__status=DeploymentStatus.PLANNED, deployment__confirmed_at=None
    )
    # The second half of a move begins with nothing, wherever the site stands.
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
