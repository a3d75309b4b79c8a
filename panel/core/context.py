"""Context processor with the variables that every template can use."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch


def shell(request: HttpRequest) -> dict[str, str]:
    """Return the variables of every page.

    `login_path` is the URL of the sign-in page; if an htmx request ends at this URL, the session has ended.
    `command` is the command that runs management commands on this installation.
    """
    try:
        login_path = resolve_url(settings.LOGIN_URL)
    except NoReverseMatch:
        login_path = ""
    return {"login_path": login_path, "command": settings.COMMAND}
