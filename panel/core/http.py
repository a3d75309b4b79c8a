"""Type of requests of signed-in users, and a check for requests from other sites."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

if TYPE_CHECKING:
    from panel.accounts.models import User


class Request(HttpRequest):
    """Type annotation of requests after the sign-in middleware, with `user` and htmx data."""

    user: User
    htmx: HtmxDetails


def is_foreign(request: HttpRequest) -> bool:
    """Return whether a page of another site sent the request.
    This check is needed because browsers send cookies with EventSource requests of other sites too.
    """
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return True
    origin = request.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc != request.get_host()
