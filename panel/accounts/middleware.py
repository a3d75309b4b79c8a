"""Middleware for each request: the caller's address for the audit log, the user's time zone, and limits of guesses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from panel.accounts.guessing import TooManyGuesses
from panel.accounts.models import User
from panel.accounts.services.sessions import session_seen
from panel.audit.services import Caller, caller
from panel.core.middleware import Finish, Middleware
from panel.core.network import client_address


def _activate_timezone(request: HttpRequest) -> None:
    user = request.user
    if isinstance(user, User):
        try:
            timezone.activate(ZoneInfo(user.timezone))
            return
        except (ZoneInfoNotFoundError, ValueError):  # the zone no longer exists on this machine: use UTC
            pass
    timezone.deactivate()


class CallerMiddleware(Middleware):
    """Activates the user's time zone and records the session's last use and the caller's address for the audit log."""

    def prepare(self, request: HttpRequest) -> None:
        _activate_timezone(request)
        if request.user.is_authenticated:
            session_seen(request)

    @contextmanager
    def around(self, request: HttpRequest) -> Iterator[Finish]:
        token = caller.set(Caller(address=client_address(request) or None))
        try:
            yield lambda response: response
        finally:
            caller.reset(token)


class GuessLimitMiddleware(Middleware):
    """Responds with 429 and Retry-After after too many wrong passwords, codes, or links."""

    @contextmanager
    def around(self, request: HttpRequest) -> Iterator[Finish]:
        yield lambda response: response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, TooManyGuesses):
            return None
        response = render(request, "accounts/locked.html", {"message": exception.message}, status=429)
        response.headers["Retry-After"] = str(exception.retry_after)
        return response
