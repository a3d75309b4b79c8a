"""Pages for setup of the first account, sign-in, two-factor codes, sign-out, and confirmation of the password."""

from __future__ import annotations

import time
from typing import cast
from urllib.parse import unquote, urlencode, urlsplit

from django.contrib import messages
from django.contrib.auth import authenticate, login, logout
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from panel.accounts.forms import CodeForm, LoginForm, SetupForm, SudoForm
from panel.accounts.guessing import Kind, device_remember, guess, guesser_at_sign_in, wrong_secret_counted
from panel.accounts.models import User
from panel.accounts.selectors import active_user, has_users, user_named
from panel.accounts.services import setup as setup_services
from panel.accounts.services.links import can_mail
from panel.accounts.services.sessions import session_mark
from panel.accounts.sudo import second_factor_passed, sudo_check
from panel.accounts.views.common import submit
from panel.audit.services import audit_record
from panel.core.forms import form_status
from panel.core.http import Request

BACKEND = "django.contrib.auth.backends.ModelBackend"
_PENDING = "second_factor_pending"
_PENDING_SECONDS = 300
_WRONG = "The user name or the password is wrong."


def safe_next(request: HttpRequest, default: str) -> str:
    """Return the URL to redirect to after sign-in: `next` if it is a URL of this panel, otherwise `default`."""
    target = request.POST.get("next") or request.GET.get("next") or ""
    if url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure()):
        return target
    return default


def _enter(request: HttpRequest, user: User, target: str) -> HttpResponse:
    """Sign in `user`, remember the browser, and redirect to `target`."""
    login(request, user, backend=BACKEND)  # this changes the session key
    session_mark(request)
    audit_record(actor=user, action="session.begin", target=user)
    response = redirect(target)
    device_remember(request, response, user)
    return response


def _named(username: str) -> User | str:
    """Return the account with the user name `username`, ignoring case; `username` itself if no such account exists."""
    return user_named(username) or username


def _authenticated(request: HttpRequest, username: str, password: str) -> User | None:
    """Return the user with this name and password, or None. Raises TooManyGuesses after too many wrong attempts."""
    account = _named(username)
    guesser = guesser_at_sign_in(request, account if isinstance(account, User) else None)

    def check() -> User | None:
        return authenticate(request, username=username, password=password)

    return guess(guesser, kind=Kind.PASSWORD, account=account, check=check)


@never_cache
@login_not_required
@sensitive_post_parameters("password", "again")
@require_http_methods(["GET", "POST"])
def setup(request: HttpRequest, secret: str) -> HttpResponse:
    if not setup_services.setup_is_open(secret):
        wrong_secret_counted(request, Kind.SETUP)
        return render(request, "accounts/setup_closed.html", status=404)
    form = SetupForm(request.POST or None)
    if request.method == "POST":
        user = submit(
            form,
            lambda data: setup_services.setup_complete(
                secret=secret,
                username=data["username"],
                password=data["password"],
                email=data["email"],
                timezone_name=data["timezone_name"],
            ),
        )
        if user is not None:
            return _enter(request, user, reverse("accounts:self_check"))
    return render(request, "accounts/setup.html", {"form": form}, status=form_status(form))


@never_cache
@login_not_required
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated:
        return redirect(safe_next(request, reverse("dashboard")))
    if request.headers.get("HX-Request") and request.method == "GET":
        return _ended(cast(Request, request))
    form = LoginForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        user = _authenticated(request, **form.cleaned_data)
        if user is not None:
            target = safe_next(request, reverse("dashboard"))
            if not user.has_second_factor:
                return _enter(request, user, target)
            request.session.cycle_key()
            password = user.get_session_auth_hash()
            request.session[_PENDING] = {"user": user.pk, "at": int(time.time()), "next": target, "password": password}
            return redirect("accounts:code")
        form.add_error(None, _(_WRONG))
    target = safe_next(request, "")
    context = {"form": form, "next": target, "is_set_up": has_users(), "is_cut": _is_cut(request, target)}
    context["can_mail"] = can_mail()
    return render(request, "accounts/login.html", context, status=form_status(form))


def _ended(request: Request) -> HttpResponse:
    """Respond to a request for a part of a page after the session ended.

    A check of a form field gets status 204, so that the form stays as it is. After any other request, the browser
    leaves the page for the sign-in page, which does not fit into a part of a page.
    """
    if (request.htmx.target or "").endswith("-error"):
        return HttpResponse(status=204)
    query = urlencode({"next": request.htmx.current_url_abs_path or "/", "ended": "1"})
    return HttpResponse(headers={"HX-Redirect": f"{reverse('accounts:login')}?{query}"})


def _is_cut(request: HttpRequest, target: str) -> bool:
    """Return whether the browser shows the sign-in page because it sent a form after the session had ended.

    In this case, the page of the form is both the referrer and the target after sign-in.
    """
    came_from = urlsplit(request.META.get("HTTP_REFERER", "")).path
    is_own = bool(target) and unquote(came_from) == unquote(urlsplit(target).path)
    return is_own and request.method == "GET" and "ended" not in request.GET


def _pending_user(request: HttpRequest) -> User | None:
    """Return the user who entered the correct password recently and still has to enter the code, or None."""
    pending = request.session.get(_PENDING)
    if not pending or time.time() - pending["at"] > _PENDING_SECONDS:
        return None
    user = active_user(pending["user"])
    is_same = user is not None and constant_time_compare(pending.get("password", ""), user.get_session_auth_hash())
    return user if is_same else None  # a password changed since then is not valid


@never_cache
@login_not_required
@sensitive_post_parameters("code")
@require_http_methods(["GET", "POST"])
def code(request: HttpRequest) -> HttpResponse:
    user = _pending_user(request)
    if user is None:
        request.session.pop(_PENDING, None)
        return redirect("accounts:login")
    form = CodeForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        if second_factor_passed(guesser_at_sign_in(request, user), user, form.cleaned_data["code"]):
            return _enter(request, user, request.session.pop(_PENDING)["next"])
        form.add_error("code", _("This code is wrong or was already used. Enter the next code."))
    return render(request, "accounts/code.html", {"form": form}, status=form_status(form))


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    messages.success(request, _("You are signed out."))
    return redirect("accounts:login")


@never_cache
@sensitive_post_parameters("password", "code")
@require_http_methods(["GET", "POST"])
def sudo(request: HttpRequest) -> HttpResponse:
    user = cast(User, request.user)
    target = safe_next(request, reverse("accounts:settings"))
    form = SudoForm(request.POST or None, needs_code=user.has_second_factor)
    if request.method == "POST" and form.is_valid():
        if sudo_check(request, password=form.cleaned_data["password"], code=form.cleaned_data.get("code", "")):
            return redirect(target)
        form.add_error(None, _("The password or code is wrong. Enter your password (and the next code) again."))
    context = {"form": form, "next": target}
    return render(request, "accounts/sudo.html", context, status=form_status(form))
