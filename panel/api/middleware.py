"""Errors that arise before or beside the API's views, in the API's form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from panel.api.problems import CONTENT_TYPE, kind_of_status, plain_response

PREFIX = "/api/"


class ProblemMiddleware:
    """A wrong Host header, a missing CSRF token or a lockout answers API callers with problem details too."""

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
        response = self.get_response(request)
        assert not isinstance(response, Awaitable)
        return self._translated(request, response)

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        pending = self.get_response(request)
        assert isinstance(pending, Awaitable)
        return self._translated(request, await pending)

    def _translated(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if response.status_code < 400 or not request.path.startswith(PREFIX):
            return response
        if response.headers.get("Content-Type", "").startswith(CONTENT_TYPE):
            return response
        problem = plain_response(kind_of_status(response.status_code))
        for name in ("Allow", "Retry-After", "WWW-Authenticate"):
            if name in response.headers:
                problem.headers[name] = response.headers[name]
        return problem
