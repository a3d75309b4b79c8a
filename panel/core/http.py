"""Request type of views: signed in, with htmx data."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

if TYPE_CHECKING:
    from panel.accounts.models import User


class Request(HttpRequest):
    """Type annotation of a request after the sign-in middleware."""

    user: User
    htmx: HtmxDetails


def is_foreign(request: HttpRequest) -> bool:
    """Return whether a page of another site sent the request; browsers send cookies with EventSource requests too."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return True
    origin = request.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc != request.get_host()
