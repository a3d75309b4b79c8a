"""A request id in every answer and log line."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

_current: ContextVar[str] = ContextVar("request_id", default="-")


def current_request_id() -> str:
    """The id of the request being answered, or `-` outside one."""
    return _current.get()


class RequestIdFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = _current.get()
        return True


class RequestIdMiddleware:
    """Gives every request a fresh id; a client's own X-Request-Id is not believed, so that logs cannot be forged."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self.is_async:
            return self._answer(request)
        token = _current.set(uuid.uuid4().hex)
        try:
            response = self.get_response(request)
            assert not isinstance(response, Awaitable)
            response["X-Request-Id"] = _current.get()
            return response
        finally:
            _current.reset(token)

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        token = _current.set(uuid.uuid4().hex)
        try:
            pending = self.get_response(request)
            assert isinstance(pending, Awaitable)
            response = await pending
            response["X-Request-Id"] = _current.get()
            return response
        finally:
            _current.reset(token)
