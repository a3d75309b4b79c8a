"""Pages of the user's own account: profile, password, two-factor authentication, tokens."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from panel.accounts import selectors
from panel.accounts.forms import CodeForm, PasswordForm, ProfileForm, SavedViewForm, TokenForm
from panel.accounts.guessing import guesser_in_session
from panel.accounts.models import ApiToken, SavedView
from panel.accounts.services import saved_views, second_factor, sessions, tokens, users
from panel.accounts.sudo import sudo_required
from panel.accounts.views.common import ACCOUNT, SETTINGS, TOKENS, actor_of, submit
from panel.alerts.selectors import alert_mail_of
from panel.core.errors import ApplicationError
from panel.core.forms import form_status
from panel.core.mail import has_server


@require_http_methods(["GET", "POST"])
def profile(request: HttpRequest) -> HttpResponse:
    user = actor_of(request)
    initial = {
        "email": user.email,
        "timezone_name": user.timezone,
        "theme": user.theme,
        "mail_alerts": user.mail_alerts,
    }
    form = ProfileForm(request.POST or None, initial=initial)
    saved = submit(form, lambda data: users.profile_update(actor=user, **data)) if request.method == "POST" else None
    if saved:
        messages.success(request, _("Your profile was saved."))
        return redirect("accounts:account")
    context = {
        "form": form,
        "crumbs": [SETTINGS],
        "has_mail": has_server(),
        "alerts": alert_mail_of(user),
    }
    return render(request, "accounts/profile.html", context, status=form_status(form))


@never_cache
@sensitive_post_parameters("current", "password", "again")
@require_http_methods(["GET", "POST"])
def password(request: HttpRequest) -> HttpResponse:
    user = actor_of(request)
    form = PasswordForm(request.POST or None)

    def change(data: dict[str, str]) -> bool:
        key = request.session.session_key
        users.password_change(
            actor=user,
            current=data["current"],
            new=data["password"],
            guesser=guesser_in_session(request),
            session_key=key,
        )
        return True

    if request.method == "POST" and submit(form, change):
        update_session_auth_hash(request, user)
        messages.success(request, _("Your password was changed. You were signed out on all other devices."))
        return redirect("accounts:account")
    return render(
        request, "accounts/password.html", {"form": form, "crumbs": [SETTINGS, ACCOUNT]}, status=form_status(form)
    )


@never_cache
@require_GET
def session_list(request: HttpRequest) -> HttpResponse:
    lines = sessions.sessions_of(actor_of(request), current=request.session.session_key)
    return render(request, "accounts/sessions.html", {"sessions": lines, "crumbs": [SETTINGS, ACCOUNT]})


@require_POST
def session_end(request: HttpRequest, name: str) -> HttpResponse:
    try:
        sessions.session_end(actor=actor_of(request), name=name)
    except ApplicationError as error:
        messages.error(request, error.message)
    else:
        messages.success(request, _("The session was ended. That browser has to sign in again."))
    return redirect("accounts:sessions")


@require_POST
def sessions_end(request: HttpRequest) -> HttpResponse:
    """End all sessions of the user except the current one."""
    count = users.sessions_end_others(actor=actor_of(request), keep=request.session.session_key)
    messages.success(request, ngettext("Ended %d other session.", "Ended %d other sessions.", count) % count)
    return redirect("accounts:sessions")


@never_cache
@sudo_required
@sensitive_post_parameters("code")
@require_http_methods(["GET", "POST"])
def second_factor_page(request: HttpRequest) -> HttpResponse:
    user = actor_of(request)
    if user.has_second_factor:
        context: dict[str, object] = {"codes_left": len(user.recovery_codes), "crumbs": [SETTINGS, ACCOUNT]}
        return render(request, "accounts/second_factor.html", context)
    uri = second_factor.enrolment_begin(user=user)
    form = CodeForm(request.POST or None)
    form.fields["code"].help_text = _("The six digits that the app shows now, for example `492039`.")
    if request.method == "POST":
        codes = submit(form, lambda data: second_factor.enrolment_confirm(user=user, code=data["code"]))
        if codes:
            return render(request, "accounts/recovery_codes.html", {"codes": codes})
    context = {
        "crumbs": [SETTINGS, ACCOUNT],
        "form": form,
        "qr": second_factor.qr_data_uri(uri),
        "secret": user.totp_secret,
    }
    return render(request, "accounts/second_factor_enrol.html", context, status=form_status(form))


@never_cache
@sudo_required
@require_POST
def recovery_codes(request: HttpRequest) -> HttpResponse:
    codes = second_factor.recovery_codes_renew(user=actor_of(request))
    return render(request, "accounts/recovery_codes.html", {"codes": codes})


@sudo_required
@require_POST
def second_factor_off(request: HttpRequest) -> HttpResponse:
    user = actor_of(request)
    second_factor.second_factor_disable(actor=user, user=user)
    messages.success(request, _("Two-factor authentication is off."))
    return redirect("accounts:second_factor")


@require_POST
def view_save(request: HttpRequest) -> HttpResponse:
    """Save the current filter of a list under a name, and return to the list."""
    form = SavedViewForm(request.POST)
    view = submit(form, lambda data: saved_views.view_save(actor=actor_of(request), **data))
    if view is None:
        messages.error(request, " ".join(str(word) for words in form.errors.values() for word in words))
        page, query = form.cleaned_data.get("page"), saved_views.essence(request.POST.get("query", ""))
        return redirect(f"{reverse(page)}?{query}" if page else "dashboard")
    messages.success(request, _("The view “%(name)s” was saved. Only you can see it.") % {"name": view.name})
    return redirect(f"{reverse(view.page)}?{view.query}")


@require_POST
def view_delete(request: HttpRequest, pk: int) -> HttpResponse:
    view = get_object_or_404(SavedView, pk=pk, user=actor_of(request))
    page, query = view.page, view.query
    saved_views.view_delete(actor=actor_of(request), view=view)
    messages.success(request, _("The view “%(name)s” was deleted.") % {"name": view.name})
    return redirect(f"{reverse(page)}?{query}")


@require_GET
def token_list(request: HttpRequest) -> HttpResponse:
    context = {"tokens": selectors.token_list(actor_of(request)), "crumbs": [SETTINGS, ACCOUNT]}
    return render(request, "accounts/tokens.html", context)


@never_cache
@sudo_required
@require_http_methods(["GET", "POST"])
def token_new(request: HttpRequest) -> HttpResponse:
    form = TokenForm(request.POST or None)
    if request.method == "POST":
        made = submit(
            form,
            lambda data: tokens.token_create(
                actor=actor_of(request),
                name=data["name"],
                scopes=data["scopes"],
                expires_at=form.expires_at(),
                addresses=form.allowed_addresses(),
            ),
        )
        if made:
            token, plain = made
            return render(request, "accounts/token_made.html", {"token": token, "plain": plain})
    return render(
        request,
        "accounts/token_form.html",
        {"form": form, "crumbs": [SETTINGS, ACCOUNT, TOKENS]},
        status=form_status(form),
    )


@require_http_methods(["GET", "POST"])
def token_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """Revoke a token after a confirmation page: revoking is permanent and breaks the programs that use the token."""
    token = get_object_or_404(ApiToken, pk=pk, user=actor_of(request))
    if request.method == "POST":
        tokens.token_revoke(actor=actor_of(request), token=token)
        messages.success(request, _("The token %(name)s was revoked.") % {"name": token.name})
        return redirect("accounts:tokens")
    context = {
        "title": _("Revoke the token %(name)s?") % {"name": token.name},
        "text": _(
            "Programs that use this token lose access. A revoked token cannot be restored; create a new token instead."
        ),
        "verb": _("Revoke"),
        "cancel_url": reverse("accounts:tokens"),
        "crumbs": [SETTINGS, ACCOUNT, TOKENS],
    }
    return render(request, "accounts/delete.html", context)
