"""Size limits of request bodies, checked before the body is read (decision 0412).

Under ASGI Django reads the whole body before views and middleware run, so the limit wraps the application. Streamed
bodies are counted while they arrive.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from http.cookies import CookieError, SimpleCookie
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.db import DatabaseError, connections
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.html import escape
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.services.tokens import token_is_good
from panel.accounts.services.users import session_store
from panel.api.problems import body_of, plain_response
from panel.core.middleware import Finish, Middleware
from panel.imports.sources import MAX_ARCHIVE_BYTES
from panel.publishing.archives import MAX_UPLOAD_BYTES

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

MIB = 1024 * 1024
USUAL = 2 * MIB
# For unauthenticated callers: enough for the forms of sign-in and of the first account.
ANONYMOUS = 64 * 1024
FORM = 64 * 1024  # form data besides a file
# Configuration folders and content of sites; as Base64 in JSON, four bytes for three.
_LARGER = (
    (re.compile(r"/hosts/[^/]+/imports/\+upload/?"), MAX_ARCHIVE_BYTES + FORM),
    (re.compile(r"/api/v1/imports/upload/?"), MAX_ARCHIVE_BYTES * 4 // 3 + FORM),
    (re.compile(r"/content/site/[^/]+/upload/?"), MAX_UPLOAD_BYTES + FORM),
    (re.compile(r"/api/v1/publications/?"), MAX_ARCHIVE_BYTES * 4 // 3 + FORM),
)
LARGEST = max(limit for _pattern, limit in _LARGER)


def limit_of(path: str) -> int:
    """Return the maximum number of body bytes of a request to `path`."""
    return next((limit for pattern, limit in _LARGER if pattern.fullmatch(path)), USUAL)


def words(limit: int) -> str:
    size = f"{limit // MIB} MiB" if limit >= MIB else f"{limit // 1024} KiB"
    return _("The request body is larger than %s, the limit for this URL. Nothing was changed.") % size


def refusal(path: str, kind: str, detail: str) -> HttpResponse:
    """Return the response that rejects a body: problem details for the API, a line of HTML for pages.
    It closes the connection, because the rest of the body is not read.
    """
    if path.startswith("/api/"):
        response: HttpResponse = plain_response(kind, detail)
    else:
        row = body_of(kind, detail)
        page = f"<!doctype html><title>{escape(row['title'])}</title><p>{escape(detail or row['detail'])}</p>"
        response = HttpResponse(page, status=row["status"])
    response.headers["Connection"] = "close"
    response.headers["Content-Length"] = str(len(response.content))
    response.headers["Cache-Control"] = "no-store"
    return response


class BodyLimitMiddleware(Middleware):
    """Rejects requests whose Content-Length exceeds the limit, also where a WSGI server runs the panel."""

    @contextmanager
    def around(self, request: HttpRequest) -> Iterator[Finish]:
        yield lambda response: response

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        length, limit = request.META.get("CONTENT_LENGTH") or "0", limit_of(request.path_info)
        if not length.isdecimal() or int(length) <= limit:
            return super().__call__(request)
        response = refusal(request.path_info, "too-large", words(limit))
        return _ready(response) if self.is_async else response


async def _ready(response: HttpResponse) -> HttpResponse:
    return response


class _TooLarge(Exception):
    pass


class BodyLimit:
    """Wrapper of the ASGI application that limits request bodies.
    Only authenticated callers may send more than ANONYMOUS bytes.
    """

    def __init__(self, application: App) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        path, limit = scope["path"], limit_of(scope["path"])
        length = _header(scope, b"content-length")
        announced = int(length) if length.isdecimal() else None
        if announced is not None and announced > limit:
            await _send(send, refusal(path, "too-large", words(limit)))
            return
        counted = _Counted(receive, limit, lambda: _is_known(scope))
        try:
            if announced is not None and announced > ANONYMOUS:
                await counted.require_known()
            await self.application(scope, counted, send)
        except _TooLarge:
            await _send(send, refusal(path, "too-large", words(limit)))
        except _Unknown:
            await _send(send, refusal(path, "unauthenticated", _("Sign in before you send a body of this size.")))


class _Unknown(Exception):
    pass


class _Counted:
    """ASGI `receive` that counts body bytes.

    Raises _TooLarge beyond the limit, and _Unknown if an anonymous caller sends more than ANONYMOUS bytes.
    """

    def __init__(self, receive: Receive, limit: int, is_known: Callable[[], Awaitable[bool]]) -> None:
        self.receive, self.limit, self.is_known = receive, limit, is_known
        self.count = 0
        self.known = False

    async def require_known(self) -> None:
        self.known = self.known or await self.is_known()
        if not self.known:
            raise _Unknown

    async def __call__(self) -> Message:
        message = await self.receive()
        self.count += len(message.get("body", b""))
        if self.count > self.limit:
            raise _TooLarge
        if self.count > ANONYMOUS:
            await self.require_known()
        return message


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


async def _is_known(scope: Scope) -> bool:
    """Return whether the request has a session or token of an active account. Views check permissions later."""
    scheme, _blank, token = _header(scope, b"authorization").partition(" ")
    if scheme:
        return scheme.lower() == "bearer" and await _asked(token_is_good, token.strip())
    try:
        cookie = SimpleCookie(_header(scope, b"cookie")).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return False
    return cookie is not None and await _asked(_is_session, cookie.value)


async def _asked(question: Callable[[str], bool], text: str) -> bool:
    """Return the result of the query `question(text)`, run in a separate thread with its own database connections.

    Returns True if the database is unavailable, so that the request continues and its view reports the error.
    """

    def ask() -> bool:
        try:
            return question(text)
        except DatabaseError:
            return True
        finally:
            connections.close_all()

    async with ThreadSensitiveContext():
        return await sync_to_async(ask)()


def _is_session(key: str) -> bool:
    pk = session_store(key).get("_auth_user_id")
    return pk is not None and User.objects.filter(pk=pk, is_active=True).exists()


async def _send(send: Send, response: HttpResponse) -> None:
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.items()]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.content})
