"""Settings for administrators: users, teams, the self-check."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods

from panel.accounts import selectors
from panel.accounts.forms import TeamForm, UserForm
from panel.accounts.models import Team, User
from panel.accounts.services import second_factor, users
from panel.accounts.sudo import sudo_required
from panel.accounts.views.common import actor_of, admin_required, form_status, submit
from panel.core.errors import ApplicationError


@require_GET
def settings_index(request: HttpRequest) -> HttpResponse:
    return render(request, "accounts/settings.html", {"user": actor_of(request)})


@never_cache
@require_GET
@admin_required
def self_check(request: HttpRequest) -> HttpResponse:
    checks = selectors.self_check()
    return render(
        request, "accounts/self_check.html", {"checks": checks, "all_well": all(c.state == "ok" for c in checks)}
    )


@require_GET
@admin_required
def user_list(request: HttpRequest) -> HttpResponse:
    return render(request, "accounts/users.html", {"users": selectors.user_list()})


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
@admin_required
@sudo_required
def user_new(request: HttpRequest) -> HttpResponse:
    form = UserForm(request.POST or None)
    if request.method == "POST":
        user = submit(form, lambda data: users.user_create(actor=actor_of(request), **data))
        if user:
            messages.success(request, _("The account %(name)s is made.") % {"name": user.username})
            return redirect("accounts:users")
    return render(request, "accounts/user_form.html", {"form": form}, status=form_status(form))


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
@admin_required
@sudo_required
def user_edit(request: HttpRequest, pk: int) -> HttpResponse:
    account = get_object_or_404(User, pk=pk)
    form = UserForm(request.POST or None, user=account)
    if request.method == "POST":
        saved = submit(form, lambda data: users.user_update(actor=actor_of(request), user=account, **data))
        if saved:
            messages.success(request, _("The account %(name)s is saved.") % {"name": saved.username})
            return redirect("accounts:users")
    return render(request, "accounts/user_form.html", {"form": form, "account": account}, status=form_status(form))


@require_http_methods(["GET", "POST"])
@admin_required
@sudo_required
def user_delete(request: HttpRequest, pk: int) -> HttpResponse:
    account = get_object_or_404(User, pk=pk)
    error = ""
    if request.method == "POST":
        if request.POST.get("confirm") != account.username:
            error = _("This is not the name. Type exactly: %(name)s") % {"name": account.username}
        else:
            try:
                users.user_delete(actor=actor_of(request), user=account)
            except ApplicationError as refusal:
                error = refusal.message
            else:
                messages.success(request, _("The account %(name)s is deleted.") % {"name": account.username})
                return redirect("accounts:users")
    context = {"kind": _("account"), "name": account.username, "error": error, "back": "accounts:users"}
    context["lost"] = _("Its tokens stop working and its sessions end. What it did stays in the audit.")
    return render(request, "accounts/delete.html", context, status=422 if error else 200)


@require_http_methods(["POST"])
@admin_required
@sudo_required
def user_second_factor_off(request: HttpRequest, pk: int) -> HttpResponse:
    account = get_object_or_404(User, pk=pk)
    second_factor.second_factor_disable(actor=actor_of(request), user=account)
    messages.success(request, _("The second factor of %(name)s is off.") % {"name": account.username})
    return redirect("accounts:user", pk=pk)


@require_GET
@admin_required
def team_list(request: HttpRequest) -> HttpResponse:
    return render(request, "accounts/teams.html", {"teams": selectors.team_list()})


@require_http_methods(["GET", "POST"])
@admin_required
def team_new(request: HttpRequest) -> HttpResponse:
    form = TeamForm(request.POST or None)
    if request.method == "POST":
        team = submit(form, lambda data: users.team_create(actor=actor_of(request), **data))
        if team:
            messages.success(request, _("The team %(name)s is made.") % {"name": team.name})
            return redirect("accounts:teams")
    return render(request, "accounts/team_form.html", {"form": form}, status=form_status(form))


@require_http_methods(["GET", "POST"])
@admin_required
def team_edit(request: HttpRequest, pk: int) -> HttpResponse:
    team = get_object_or_404(Team, pk=pk)
    form = TeamForm(request.POST or None, initial={"name": team.name, "slug": team.slug})
    if request.method == "POST":
        saved = submit(form, lambda data: users.team_update(actor=actor_of(request), team=team, **data))
        if saved:
            messages.success(request, _("The team %(name)s is saved.") % {"name": saved.name})
            return redirect("accounts:teams")
    return render(request, "accounts/team_form.html", {"form": form, "team": team}, status=form_status(form))


@require_http_methods(["GET", "POST"])
@admin_required
def team_delete(request: HttpRequest, pk: int) -> HttpResponse:
    team = get_object_or_404(Team, pk=pk)
    error = ""
    if request.method == "POST":
        if request.POST.get("confirm") != team.name:
            error = _("This is not the name. Type exactly: %(name)s") % {"name": team.name}
        else:
            try:
                users.team_delete(actor=actor_of(request), team=team)
            except ApplicationError as refusal:
                error = refusal.message
            else:
                messages.success(request, _("The team %(name)s is deleted.") % {"name": team.name})
                return redirect("accounts:teams")
    context = {"kind": _("team"), "name": team.name, "error": error, "back": "accounts:teams"}
    context["lost"] = _("Its members lose nothing but their belonging to it. A team that owns sites stays.")
    return render(request, "accounts/delete.html", context, status=422 if error else 200)
