"""Streaming responses: server-sent events (WHATWG HTML, section 9.2) of a part of a page, and long texts."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.http import require_GET

from panel.core.http import is_foreign

POLL_S = 0.5
RECHECK_S = 2.0  # maximum delay until a stream ends after its session, account or permission ended
COMMENT_EVERY_S = 15.0  # keeps proxies from closing a silent stream
CLOSE_AFTER_S = 900.0  # the browser reconnects, which checks the session again
PIECES_AT_ONCE = 500  # number of pieces of a text per thread switch


@dataclass(frozen=True)
class Look:
    """Current state of a part of a page: its HTML is sent whenever `mark` changes. `html` renders the part. `ended`
    is the final status of the object, or "" while the object may still change.
    """

    mark: object
    html: Callable[[], str]
    ended: str = ""


def event(name: str, text: str) -> str:
    """Format one server-sent event. Every line of `text` becomes a data line, so no text can end the event early."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return f"event: {name}\n" + "".join(f"data: {line}\n" for line in lines) + "\n"


def event_response(events: AsyncIterator[str]) -> StreamingHttpResponse:
    """Return a streaming response of server-sent events that neither browsers nor proxies buffer."""
    response = StreamingHttpResponse(events, content_type="text/event-stream")
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


def as_served(
    request: HttpRequest, text: Generator[str, None, None]
) -> Generator[str, None, None] | AsyncIterator[str]:
    """Return a long text in pieces for StreamingHttpResponse, in a form that makes Django send each piece at once.

    Under ASGI, this is an asynchronous generator, because Django would collect the pieces of a synchronous generator
    before it sends the first.
    """
    return _made_in_turn(text) if isinstance(request, ASGIRequest) else text


async def _made_in_turn(text: Generator[str, None, None]) -> AsyncIterator[str]:
    """Yield the pieces of `text`, a generator, joined in groups of PIECES_AT_ONCE.

    The generator runs in the request's own thread, which has the database connection.
    """

    def some() -> str:
        return "".join(islice(text, PIECES_AT_ONCE))

    try:
        while made := await sync_to_async(some)():
            yield made
    finally:  # also after a disconnect, because the database keeps rows ready
        await sync_to_async(text.close)()


def region_view(
    is_readable: Callable[[Any, UUID], Awaitable[bool]], events: Callable[[UUID], AsyncIterator[str]]
) -> Callable[..., Coroutine[Any, Any, HttpResponse | StreamingHttpResponse]]:
    """Build a view that streams the events of an object.

    The view responds with 403 to requests from pages of other sites, and with 404 to users without access to the
    object.
    """

    @require_GET
    async def view(request: HttpRequest, uuid: UUID) -> HttpResponse | StreamingHttpResponse:
        if is_foreign(request):
            return HttpResponse(
                "Only the panel's own pages can read event streams.", status=403, content_type="text/plain"
            )
        user = await request.auser()
        if user.is_anonymous or not await is_readable(user, uuid):
            raise Http404
        return event_response(_while_allowed(events(uuid), lambda: _is_allowed(request, is_readable, uuid)))

    return view


async def _is_allowed(request: HttpRequest, is_readable: Callable[[Any, UUID], Awaitable[bool]], uuid: UUID) -> bool:
    """Return whether the session and its account are active and the user still has access to the stream's object."""
    user = await sync_to_async(user_of_session)(request.session.session_key or "")
    return user is not None and await is_readable(user, uuid)


def user_of_session(session_key: str) -> AbstractBaseUser | None:
    """Return the active user of a session, read from the database; None if the session has ended."""
    data = import_module(settings.SESSION_ENGINE).SessionStore(session_key).load()
    user: AbstractBaseUser | None = (
        get_user_model()._default_manager.filter(pk=data.get(SESSION_KEY), is_active=True).first()
    )
    is_same = user is not None and constant_time_compare(data.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash())
    return user if is_same else None


async def _while_allowed(events: AsyncIterator[str], is_allowed: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
    """Yield the events until `is_allowed` returns false.
    `is_allowed` is called before each event, and every RECHECK_S seconds between events.
    """
    following = asyncio.ensure_future(anext(events))
    try:
        while True:
            done, _waiting = await asyncio.wait({following}, timeout=RECHECK_S)
            if not await is_allowed():
                return
            if done:
                try:
                    text = following.result()
                except StopAsyncIteration:
                    return
                yield text
                following = asyncio.ensure_future(anext(events))
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
            await following


async def region_events(look: Callable[[], Look | None]) -> AsyncIterator[str]:
    """Yield a `live` event after each change of an object, and finally `done` with the object's status.

    Ends without `done` after CLOSE_AFTER_S seconds, or when the object was deleted (`look` returns None).
    """
    last: object = None
    opened = spoken = time.monotonic()
    while time.monotonic() - opened < CLOSE_AFTER_S:
        now = await sync_to_async(look)()
        if now is None:
            return
        if now.mark != last:
            last, spoken = now.mark, time.monotonic()
            yield event("live", await sync_to_async(now.html)())
        if now.ended:
            yield event("done", now.ended)
            return
        if time.monotonic() - spoken > COMMENT_EVERY_S:
            spoken = time.monotonic()
            yield ": still here\n\n"
        await asyncio.sleep(POLL_S)
