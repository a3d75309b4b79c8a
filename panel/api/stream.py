"""Server-sent events of a job (WHATWG HTML section 9.2): every change until the job ends."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async

from panel.accounts.models import ApiToken, User
from panel.accounts.services.tokens import address_allowed
from panel.api.jobs import JobData, job_find
from panel.core.stream import CLOSE_AFTER_S, COMMENT_EVERY_S, POLL_S, user_of_session


def event(name: str, data: Any) -> str:
    """Format one server-sent event. JSON contains no raw line breaks, so data cannot end the event early."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def _still_allowed(user: User, token: ApiToken | None, address: str, session: str) -> User | None:
    """Return the caller with current permissions, or None if the stream of events must end.

    The stream must end if the account is inactive, the token is revoked or not allowed from the address, or the session
    has ended.
    """
    if token is None:
        found = user_of_session(session)
        return found if isinstance(found, User) and found.pk == user.pk else None
    fresh = User.objects.filter(pk=user.pk, is_active=True).first()
    if fresh is None:
        return None
    row = ApiToken.objects.filter(pk=token.pk).first()
    if row is None or not row.is_usable or not address_allowed(row, address):
        return None
    fresh.scopes = frozenset(row.scopes)
    return fresh


def _look(user: User, token: ApiToken | None, address: str, session: str, uuid: UUID) -> JobData | None:
    caller = _still_allowed(user, token, address, session)
    return job_find(caller, uuid) if caller else None


async def events(
    user: User, token: ApiToken | None, address: str, uuid: UUID, *, session: str = ""
) -> AsyncIterator[str]:
    """Yield the events of a job: `step` for each new or changed step, `job` (without steps) for other changes, then
    `end`.
    Comments keep an idle connection open.
    """
    seen: dict[int, Any] = {}
    last: Any = None
    opened = spoken = time.monotonic()
    while time.monotonic() - opened < CLOSE_AFTER_S:
        job = await sync_to_async(_look)(user, token, address, session, uuid)
        if job is None:
            return
        for position, step in enumerate(job["steps"]):
            if seen.get(position) != step:
                seen[position], spoken = step, time.monotonic()
                yield event("step", {"position": position, **step})
        rest = {name: value for name, value in job.items() if name not in ("steps", "log")}
        if rest != last:
            last, spoken = rest, time.monotonic()
            yield event("job", rest)
        if job["is_finished"]:
            yield event("end", {"status": job["status"]})
            return
        if time.monotonic() - spoken > COMMENT_EVERY_S:
            spoken = time.monotonic()
            yield ": still here\n\n"
        await asyncio.sleep(POLL_S)
