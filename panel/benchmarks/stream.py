"""One run's progress as server-sent events: the page's partial, whenever it changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from uuid import UUID

from asgiref.sync import sync_to_async

from panel.benchmarks.models import Run
from panel.deployments.stream import event

POLL_S = 0.5
COMMENT_EVERY_S = 15.0  # so that proxies do not close a silent stream
CLOSE_AFTER_S = 900.0  # the browser opens it again, which checks the session again


async def events(uuid: UUID, render: Callable[[Run], str]) -> AsyncIterator[str]:
    """`live` events until the run has ended, then `done` with its status."""
    last: tuple[object, ...] | None = None
    opened = spoken = time.monotonic()
    while time.monotonic() - opened < CLOSE_AFTER_S:
        run = await Run.objects.filter(uuid=uuid).afirst()
        if run is None:
            return
        now = (run.status, run.progress, run.row_version, run.cancel_requested)
        if now != last:
            last, spoken = now, time.monotonic()
            yield event("live", await sync_to_async(render)(run))
        if run.is_ended:
            yield event("done", run.status)
            return
        if time.monotonic() - spoken > COMMENT_EVERY_S:
            spoken = time.monotonic()
            yield ": still here\n\n"
        await asyncio.sleep(POLL_S)
