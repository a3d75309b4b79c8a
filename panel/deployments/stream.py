"""One deployment's progress as server-sent events (WHATWG HTML, section 9.2): the page's partial, when it changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from uuid import UUID

from asgiref.sync import sync_to_async

from panel.deployments.models import Deployment

POLL_S = 0.4
COMMENT_EVERY_S = 15.0  # so that proxies do not close a silent stream
CLOSE_AFTER_S = 900.0  # the browser opens it again, which checks the session again


def event(name: str, text: str) -> str:
    """One event; every line of `text` becomes a data line, so no text can end the event early."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return f"event: {name}\n" + "".join(f"data: {line}\n" for line in lines) + "\n"


def fingerprint(deployment: Deployment) -> tuple[object, ...]:
    steps = tuple(deployment.steps.values_list("position", "status", "finished_at"))
    return (deployment.status, deployment.error, steps)


async def events(uuid: UUID, render: Callable[[Deployment], str]) -> AsyncIterator[str]:
    """`live` events with the rendered partial until the deployment has ended, then `done`."""
    last: tuple[object, ...] | None = None
    opened = spoken = time.monotonic()
    while time.monotonic() - opened < CLOSE_AFTER_S:
        deployment = await Deployment.objects.select_related("host", "requested_by").filter(uuid=uuid).afirst()
        if deployment is None:
            return
        now = await sync_to_async(fingerprint)(deployment)
        if now != last:
            last, spoken = now, time.monotonic()
            yield event("live", await sync_to_async(render)(deployment))
        if deployment.is_finished:
            yield event("done", deployment.status)
            return
        if time.monotonic() - spoken > COMMENT_EVERY_S:
            spoken = time.monotonic()
            yield ": still here\n\n"
        await asyncio.sleep(POLL_S)
