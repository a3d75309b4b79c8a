"""Pages for a forgotten password and for one-time links, open without a session."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from panel.accounts.forms import ForgottenForm, NewPasswordForm
from panel.accounts.guessing import Kind, wrong_secret_counted
from panel.accounts.services import links
from panel.accounts.views.common import submit
from panel.core.forms import form_status
from panel.core.messages import Task, task_send


@never_cache
@login_not_required
@require_http_methods(["GET", "POST"])
def forgotten(request: HttpRequest) -> HttpResponse:
    """Request a one-time link to set a new password. The response does not reveal whether the account exists."""
    form = ForgottenForm(request.POST or None)
    is_sent = request.method == "POST" and form.is_valid() and links.can_mail()
    if is_sent:
        wrong_secret_counted(request, Kind.RESET)
        is_sent = task_send(Task.PASSWORD_FORGOTTEN, form.cleaned_data["name"])
        if not is_sent:
            form.add_error(None, _("The panel cannot send mail at the moment. Try again in a few minutes."))
    context = {"form": form, "is_sent": is_sent, "can_mail": links.can_mail()}
    return render(request, "accounts/forgotten.html", context, status=form_status(form))


@never_cache
@login_not_required
@sensitive_post_parameters("password", "again")
@require_http_methods(["GET", "POST"])
def link(request: HttpRequest, secret: str) -> HttpResponse:
    """Show the form for a new password, and set it on POST.
    A GET does not use up the link, because mail scanners open links.
    """
    found = links.link_found(secret)
    if found is None:
        wrong_secret_counted(request, Kind.SETUP)
        return render(request, "accounts/link_closed.html", {"can_mail": links.can_mail()}, status=404)
    form = NewPasswordForm(request.POST or None)
    if request.method == "POST":
        user = submit(form, lambda data: links.link_use(secret=secret, password=data["password"]))
        if user is not None:
            messages.success(request, _("The new password was set. Sign in with the new password."))
            return redirect("accounts:login")
    return render(request, "accounts/link.html", {"form": form, "account": found.user}, status=form_status(form))
