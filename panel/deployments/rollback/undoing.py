"""Plan to undo deployments: restore the revisions that were live before them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from panel.deployments.models import Deployment, DeploymentItem, DeploymentKind
from panel.deployments.planning.changes import Change
from panel.deployments.planning.selectors import live_numbers
from panel.deployments.planning.services import changes_plan
from panel.deployments.rollback.services import is_said
from panel.hosts.models import Host


@dataclass(frozen=True)
class Undo:
    """Plans that restore the revisions which deployments replaced. `plans`: one for each host, not confirmed.

    `kept`: {deployment id: [message about a site that is not restored, because its live revision has changed since]}.
    """

    plans: list[Deployment]
    kept: dict[int, list[str]]


def undo_plan(deployments: Sequence[Deployment]) -> Undo:
    """Plan to restore the revisions that successful deployments replaced; a site that was deployed for the first time
    is removed from its host.

    Raises ApplicationError if the plans cannot be made.
    """
    rows = DeploymentItem.objects.filter(deployment__in=deployments).select_related(
        "site__team", "revision__web_server__host", "previous__web_server__host", "disabled_before"
    )
    items = list(rows.order_by("deployment", "pk"))
    live = live_numbers([item.site for item in items])
    changes: list[tuple[Host, Change]] = []
    kept: dict[int, list[str]] = {}
    for item in items:
        if item.revision is None:
            continue
        if live.get(item.site_id) != item.revision_id:
            kept.setdefault(item.deployment_id, []).append(
                f"The live revision of {item.site} has changed after this deployment, so "
                "Paddock does not roll the site back."
            )
            continue
        changes.append((item.revision.web_server.host, _change(item)))
    return Undo(changes_plan(DeploymentKind.ROLLBACK, changes) if changes else [], kept)


def _change(item: DeploymentItem) -> Change:
    before = item.previous
    version = item.site.version if before is not None and is_said(item.site, before) else None
    return Change(item.site, item.revision, before, version, disabled_after=item.disabled_before)
