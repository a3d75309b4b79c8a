"""Base class of the panel's middleware, and middleware for request IDs, caching, and error responses."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import is_valid_path
from django.utils.encoding import escape_uri_path
from django.utils.http import escape_leading_slashes
from django.utils.translation import gettext as _

from panel.core.errors import NULL_WORDS, is_null_refused

_current: ContextVar[str] = ContextVar("request_id", default="-")
Finish = Callable[[HttpResponseBase], HttpResponseBase]


def current_request_id() -> str:
    """Return the ID of the current request, or `-` outside a request."""
    return _current.get()


class RequestIdFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = _current.get()
        return True


class Middleware:
    """Base class of middleware for sync and async requests; subclasses implement `around`.

    An optional `prepare` may query the database; it runs inside `around`, before the request continues.
    """

    sync_capable = True
    async_capable = True
    prepare: Callable[[HttpRequest], None] | None = None

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def around(self, request: HttpRequest) -> AbstractContextManager[Finish]:
        """Return a context manager for one request.

        Its value is a function that takes the response of the view and of inner middleware, and returns the final
        response.
        """
        raise NotImplementedError

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self.is_async:
            return self._answer(request)
        with self.around(request) as finish:
            if self.prepare is not None:
                self.prepare(request)
            response = self.get_response(request)
            assert not isinstance(response, Awaitable)
            return finish(response)

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        with self.around(request) as finish:
            if self.prepare is not None:
                await sync_to_async(self.prepare)(request)
            pending = self.get_response(request)
            assert isinstance(pending, Awaitable)
            return finish(await pending)


class RequestIdMiddleware(Middleware):
    """Gives every request a new ID; a client's X-Request-Id is ignored, so that logs cannot be forged."""

    @contextmanager
    def around(self, request: HttpRequest) -> Iterator[Finish]:
        token = _current.set(uuid.uuid4().hex)

        def finish(response: HttpResponseBase) -> HttpResponseBase:
            response["X-Request-Id"] = _current.get()
            return response

        try:
            yield finish
        finally:
            _current.reset(token)


class NoStoreMiddleware(Middleware):
    """Keeps pages and API responses, which are personal, out of caches and the browser history.
    Static files do not pass through this middleware.
    """

    @contextmanager
    def around(self, request: HttpRequest) -> Iterator[Finish]:
        def finish(response: HttpResponseBase) -> HttpResponseBase:
            if "no-store" not in response.headers.get("Cache-Control", ""):
                response.headers["Cache-Control"] = "no-store, private"
            return response

        yield finish


class NullCharacterMiddleware(Middleware):
    """Responds with 400 instead of 500 to null characters, which the database cannot search for."""

    @contextmanager
    def around(self, request: HttpRequest) -> Iterator[Finish]:
        yield lambda response: response

    def process_exception(self, request: HttpRequest, exception: Exception) -> None:
        if is_null_refused(exception):
            raise BadRequest(NULL_WORDS) from exception


class FormAddressMiddleware(Middleware):
    """Explains GET requests for URLs that accept only forms, in place of an empty 405 response.
    Browsers send such requests, for example, after users sign in again.
    """

    @contextmanager
    def around(self, request: HttpRequest) -> Iterator[Finish]:
        yield lambda response: response

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        response = super().__call__(request)
        return response if isinstance(response, Awaitable) else self._shown(request, response)

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        response = await super()._answer(request)
        if not self._is_blank(request, response):
            return response
        return await sync_to_async(self._shown)(request, response)  # reading the user queries the database

    def _is_blank(self, request: HttpRequest, response: HttpResponseBase) -> bool:
        return response.status_code == 405 and request.method == "GET" and not getattr(response, "content", b"-")

    def _shown(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if not self._is_blank(request, response):
            return response
        words = {
            "status": 405,
            "title": _("This page has no content"),
            "detail": _(
                "This URL only accepts submitted forms. Nothing was changed. Go back to the page with the form."
            ),
            "request_id": current_request_id(),
        }
        shown = render(request, "error.html", words, status=405)
        shown["Allow"] = response.headers["Allow"]
        return shown


class FinalSlashMiddleware(Middleware):
    """Redirects to the URL with or without a final slash, whichever exists.

    Callers cannot know which form a URL has. Only GET and HEAD are redirected, because a redirect would lose the
    data of a form.
    """

    @contextmanager
    def around(self, request: HttpRequest) -> Iterator[Finish]:
        yield lambda response: self._led_on(request, response)

    def _led_on(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if response.status_code != 404 or request.method not in ("GET", "HEAD") or is_valid_path(request.path_info):
            return response
        path = request.path_info
        other = path.rstrip("/") if path.endswith("/") else f"{path}/"
        if not is_valid_path(other):
            return response
        query = f"?{query}" if (query := request.META.get("QUERY_STRING", "")) else ""
        # "//host/" would redirect to another host.
        return HttpResponsePermanentRedirect(escape_leading_slashes(escape_uri_path(other) + query))
