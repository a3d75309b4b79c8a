"""Middleware that gives errors from outside the API's views the format of API errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from panel.api.problems import CONTENT_TYPE, kind_of_status, plain_response
from panel.core.middleware import Finish, Middleware

PREFIX = "/api/"


class ProblemMiddleware(Middleware):
    """Converts errors for API callers to problem details: wrong Host, missing CSRF token, too many guesses."""

    @contextmanager
    def around(self, request: HttpRequest) -> Iterator[Finish]:
        yield lambda response: self._translated(request, response)

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
