"""What every request carries: where it came from (for the audit) and the reader's time zone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone

from panel.accounts.models import User
from panel.audit.services import Caller, caller
from panel.core.network import client_address


def _activate_timezone(request: HttpRequest) -> None:
    user = request.user
    if isinstance(user, User):
        try:
            timezone.activate(ZoneInfo(user.timezone))
            return
        except (ZoneInfoNotFoundError, ValueError):  # the zone left the machine's database: show UTC
            pass
    timezone.deactivate()


class CallerMiddleware:
    """Tells the audit the caller's address; API authentication adds the token's prefix."""

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
        token = caller.set(Caller(address=client_address(request) or None))
        try:
            _activate_timezone(request)
            response = self.get_response(request)
            assert not isinstance(response, Awaitable)
            return response
        finally:
            caller.reset(token)

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        token = caller.set(Caller(address=client_address(request) or None))
        try:
            await sync_to_async(_activate_timezone)(request)
            pending = self.get_response(request)
            assert isinstance(pending, Awaitable)
            return await pending
        finally:
            caller.reset(token)
