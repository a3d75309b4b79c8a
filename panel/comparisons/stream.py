"""Progress of a comparison, its run and its move as server-sent events with the page's partial,
sent when it changes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from uuid import UUID

from panel.comparisons.models import Comparison
from panel.core.stream import Look, region_events


def events(uuid: UUID, render: Callable[[Comparison], str]) -> AsyncIterator[str]:
    """Yield `live` events until the comparison and its move have ended; then `done`."""

    def look() -> Look | None:
        comparison = Comparison.objects.select_related("site", "run", "switch").filter(uuid=uuid).first()
        if comparison is None:
            return None
        run, switch = comparison.run, comparison.switch
        mark = (
            comparison.status,
            comparison.row_version,
            run and run.row_version,
            switch and (switch.status, switch.error),
        )
        return Look(mark, lambda: render(comparison), "" if comparison.is_live else comparison.status)

    return region_events(look)
