"""Recent confirmation of identity, for actions that could give control of the panel to others.

The session must have confirmed the password (and code) within the last settings.SUDO_SECONDS.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from panel.accounts.guessing import Guesser, Kind, guess, guesser_in_session
from panel.accounts.models import User
from panel.accounts.services import second_factor

_KEY = "sudo_at"


def sudo_open(request: HttpRequest) -> None:
    """Record that the user just confirmed the password: sensitive actions are permitted for settings.SUDO_SECONDS."""
    request.session[_KEY] = int(time.time())


def opened_by_sign_in(sender: object, request: HttpRequest | None = None, **kwargs: Any) -> None:
    """Count a sign-in as confirmation of the password; receiver of Django's user_logged_in."""
    if request is not None and hasattr(request, "session"):
        sudo_open(request)


def sudo_is_open(request: HttpRequest) -> bool:
    try:
        return 0 <= time.time() - float(request.session[_KEY]) <= float(settings.SUDO_SECONDS)
    except (KeyError, TypeError, ValueError):
        return False


def second_factor_passed(guesser: Guesser, user: User, code: str) -> bool:
    """Return True if `user` does not use two-factor authentication, or if `code` is correct.

    Raises TooManyGuesses after too many wrong codes.
    """
    if not user.has_second_factor:
        return True
    return guess(guesser, kind=Kind.CODE, account=user, check=lambda: second_factor.code_spend(user=user, code=code))


def sudo_check(request: HttpRequest, *, password: str, code: str) -> bool:
    """Check password and code; return whether both are correct. If they are, permit sensitive actions for
    settings.SUDO_SECONDS.

    Raises TooManyGuesses after too many wrong attempts.
    """
    user, guesser = cast(User, request.user), guesser_in_session(request)
    right = guess(guesser, kind=Kind.PASSWORD, account=user, check=lambda: user.check_password(password))
    if not right or not second_factor_passed(guesser, user, code):
        return False
    sudo_open(request)
    return True


def _page_before(request: HttpRequest) -> str:
    """Return the URL of the page whose form was submitted; the user submits it again after the confirmation."""
    referrer = urlsplit(request.META.get("HTTP_REFERER", ""))
    if referrer.netloc != request.get_host() or not referrer.path.startswith("/"):
        return reverse("accounts:settings")
    return f"{referrer.path}?{referrer.query}" if referrer.query else referrer.path


def sudo_required(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Decorate a view to require a recent confirmation of the password.

    Without a recent confirmation, the view redirects to the confirmation page, which redirects back afterwards.
    """

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if sudo_is_open(request):
            return view(request, *args, **kwargs)
        back = request.get_full_path() if request.method in {"GET", "HEAD"} else _page_before(request)
        address = f"{reverse('accounts:sudo')}?{urlencode({'next': back})}"
        if request.headers.get("HX-Request"):
            return HttpResponse(headers={"HX-Redirect": address})
        return HttpResponseRedirect(address)

    return guarded
