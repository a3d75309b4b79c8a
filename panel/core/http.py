"""Requests as views see them: signed in, with htmx's own remarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

if TYPE_CHECKING:
    from panel.accounts.models import User


class Request(HttpRequest):
    """For annotations only: what the middleware makes of a request behind the login."""

    user: User
    htmx: HtmxDetails
