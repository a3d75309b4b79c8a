"""Requests as views see them: signed in, with htmx's own remarks."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

if TYPE_CHECKING:
    from panel.accounts.models import User


class Request(HttpRequest):
    """For annotations only: what the middleware makes of a request behind the login."""

    user: User
    htmx: HtmxDetails


def is_foreign(request: HttpRequest) -> bool:
    """Whether another site's page opened the stream: EventSource sends cookies along and names its origin."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return True
    origin = request.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc != request.get_host()
