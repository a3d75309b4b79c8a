"""One run's progress as server-sent events: the page's partial, whenever it changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from uuid import UUID

from panel.benchmarks.models import Run
from panel.core.stream import Look, region_events


def events(uuid: UUID, render: Callable[[Run], str]) -> AsyncIterator[str]:
    """`live` events until the run has ended, then `done` with its status."""

    def look() -> Look | None:
        run = Run.objects.filter(uuid=uuid).first()
        if run is None:
            return None
        mark = (run.status, run.progress, run.row_version, run.cancel_requested)
        return Look(mark, lambda: render(run), run.status if run.is_ended else "")

    return region_events(look)
