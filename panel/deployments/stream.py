"""Progress of one deployment as server-sent events with the page's partial, sent when it changes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from uuid import UUID

from panel.core.stream import Look, region_events
from panel.deployments.models import Deployment


def fingerprint(deployment: Deployment) -> tuple[object, ...]:
    steps = tuple(deployment.steps.values_list("position", "status", "finished_at"))
    return (deployment.status, deployment.error, steps)


def events(uuid: UUID, render: Callable[[Deployment], str]) -> AsyncIterator[str]:
    """Yield `live` events with the rendered partial until the deployment has ended, then `done`."""

    def look() -> Look | None:
        deployment = Deployment.objects.select_related("host", "requested_by").filter(uuid=uuid).first()
        if deployment is None:
            return None
        ended = deployment.status if deployment.is_finished else ""
        return Look(fingerprint(deployment), lambda: render(deployment), ended)

    return region_events(look)
