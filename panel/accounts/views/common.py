"""Decorators, breadcrumbs and form handling that the pages of accounts share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.core.forms import attempt
from panel.core.ui import Crumb

R = TypeVar("R")

# Breadcrumbs of these pages. Their URLs are lazy, because this module is imported before the URLconf.
SETTINGS = Crumb(gettext_lazy("Settings"), reverse_lazy("accounts:settings"))
ACCOUNT = Crumb(gettext_lazy("Your account"), reverse_lazy("accounts:account"))
TOKENS = Crumb(gettext_lazy("API tokens"), reverse_lazy("accounts:tokens"))
USERS = Crumb(gettext_lazy("Users"), reverse_lazy("accounts:users"))
TEAMS = Crumb(gettext_lazy("Teams"), reverse_lazy("accounts:teams"))


def actor_of(request: HttpRequest) -> User:
    return cast(User, request.user)


def admin_required(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        require(actor_of(request), Action.ADMINISTER)
        return view(request, *args, **kwargs)

    return guarded


def submit(form: forms.Form, change: Callable[[dict[str, Any]], R]) -> R | None:
    """Return `change(cleaned_data)` if the form is valid and `change` succeeds, otherwise None.

    Errors that `change` raises are added to the form, so that the page can show them.
    """
    return attempt(form, lambda: change(form.cleaned_data)) if form.is_valid() else None
