"""Progress of runs and suites as server-sent events with the page's partial, sent when it changes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from uuid import UUID

from panel.benchmarks.models import Run, SuiteRun
from panel.core.stream import Look, region_events


def events(uuid: UUID, render: Callable[[Run], str]) -> AsyncIterator[str]:
    """Yield `live` events until the run has ended, then `done` with its status."""

    def look() -> Look | None:
        run = Run.objects.filter(uuid=uuid).first()
        if run is None:
            return None
        return Look(_mark(run), lambda: render(run), run.status if run.is_ended else "")

    return region_events(look)


def suite_events(uuid: UUID, render: Callable[[SuiteRun], str]) -> AsyncIterator[str]:
    """Like `events`, for a suite and its current run."""

    def look() -> Look | None:
        row = SuiteRun.objects.filter(uuid=uuid).first()
        if row is None:
            return None
        last = row.runs.order_by("-case").first()
        mark = (row.status, row.position, *(_mark(last) if last else ()))
        return Look(mark, lambda: render(row), row.status if row.is_ended else "")

    return region_events(look)


def _mark(run: Run) -> tuple[object, ...]:
    return (run.status, run.progress, run.row_version, run.cancel_requested)
