"""Progress of a comparison, its run and its move as server-sent events with the page's partial,
sent when it changes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from uuid import UUID

from panel.core.stream import Look, region_events
from panel.trials.models import Trial


def events(uuid: UUID, render: Callable[[Trial], str]) -> AsyncIterator[str]:
    """Yield `live` events until the comparison and its move have ended; then `done`."""

    def look() -> Look | None:
        trial = Trial.objects.select_related("site", "run", "switch").filter(uuid=uuid).first()
        if trial is None:
            return None
        run, switch = trial.run, trial.switch
        mark = (trial.status, trial.row_version, run and run.row_version, switch and (switch.status, switch.error))
        return Look(mark, lambda: render(trial), "" if trial.is_live else trial.status)

    return region_events(look)
