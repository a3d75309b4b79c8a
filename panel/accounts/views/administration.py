"""Pages for administrators: users, teams, and the self-check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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
from panel.accounts.permissions import teams_visible
from panel.accounts.services import links, second_factor, users
from panel.accounts.sudo import sudo_required
from panel.accounts.views.common import SETTINGS, TEAMS, USERS, actor_of, admin_required, submit
from panel.core.errors import ApplicationError
from panel.core.forms import ConfirmNameForm, form_status
from panel.core.ui import Crumb
from panel.hosts.selectors import hosts_visible
from panel.reports.selectors import looked_at


@require_GET
def settings_index(request: HttpRequest) -> HttpResponse:
    return render(request, "accounts/settings.html", {"user": actor_of(request)})


@never_cache
@require_GET
@admin_required
def self_check(request: HttpRequest) -> HttpResponse:
    checks = selectors.self_check(looked_at=looked_at())
    context = {
        "checks": checks,
        "all_well": all(check.state == "ok" for check in checks),
        "has_hosts": hosts_visible(actor_of(request)).exists(),
        "has_sites": teams_visible(actor_of(request)).filter(sites__isnull=False).exists(),
        "crumbs": [SETTINGS],
    }
    return render(request, "accounts/self_check.html", context)


@require_GET
@admin_required
def user_list(request: HttpRequest) -> HttpResponse:
    return render(request, "accounts/users.html", {"users": selectors.user_list(), "crumbs": [SETTINGS]})


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
@admin_required
@sudo_required
def user_new(request: HttpRequest) -> HttpResponse:
    form = UserForm(request.POST or None)
    if request.method == "POST":
        made = submit(form, lambda data: _user_made(request, data))
        if isinstance(made, links.NewLink):
            return _link_page(request, made)
        if made:
            messages.success(request, _("The account %(name)s was created.") % {"name": made.username})
            return redirect("accounts:users")
    return render(
        request, "accounts/user_form.html", {"form": form, "crumbs": [SETTINGS, USERS]}, status=form_status(form)
    )


def _user_made(request: HttpRequest, data: Mapping[str, Any]) -> User | links.NewLink:
    """Create an account with the entered password, and return its user.

    If no password was entered, invite the user by a one-time link that sets the password, and return the link.
    """
    if data["password"]:
        return users.user_create(actor=actor_of(request), **data)
    values = {name: value for name, value in data.items() if name != "password"}
    return links.user_invite(actor=actor_of(request), **values)


def _link_page(request: HttpRequest, made: links.NewLink) -> HttpResponse:
    """Show a new one-time link; no other page shows it."""
    context = {"made": made, "url": request.build_absolute_uri(made.path), "crumbs": [SETTINGS, USERS]}
    return render(request, "accounts/link_made.html", context)


@never_cache
@require_http_methods(["POST"])
@admin_required
@sudo_required
def user_link(request: HttpRequest, pk: int) -> HttpResponse:
    """Create and show a one-time link with which the user sets a new password."""
    account = get_object_or_404(User, pk=pk)
    try:
        made = links.link_create(actor=actor_of(request), user=account)
    except ApplicationError as error:
        messages.error(request, error.message)
        return redirect("accounts:user", pk=pk)
    return _link_page(request, made)


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
            messages.success(request, _("The account %(name)s was saved.") % {"name": saved.username})
            return redirect("accounts:users")
    context = {"form": form, "account": account, "crumbs": [SETTINGS, USERS]}
    return render(request, "accounts/user_form.html", context, status=form_status(form))


def _delete_page(
    request: HttpRequest, name: str, *, title: str, losses: list[str], above: Crumb, delete: Callable[[], None]
) -> HttpResponse:
    """Ask the user to type the name of an object to confirm its deletion; then delete the object.
    `above` is the list to which the page redirects afterwards.
    """
    form = ConfirmNameForm(request.POST or None, expected=name)

    def confirmed(_data: dict[str, Any]) -> bool:
        delete()
        return True

    if request.method == "POST" and submit(form, confirmed):
        messages.success(request, _("%(name)s was deleted.") % {"name": name})
        return redirect(str(above.url))
    context = {"form": form, "title": title, "losses": losses, "verb": _("Delete"), "cancel_url": above.url}
    context["crumbs"] = [SETTINGS, above]
    return render(request, "accounts/delete.html", context, status=form_status(form))


@require_http_methods(["GET", "POST"])
@admin_required
@sudo_required
def user_delete(request: HttpRequest, pk: int) -> HttpResponse:
    account = get_object_or_404(User, pk=pk)
    return _delete_page(
        request,
        account.username,
        title=_("Delete the account %(name)s?") % {"name": account.username},
        losses=[
            _("the API tokens of the account"),
            _("the sessions of the account"),
            _("the two-factor authentication of the account"),
        ],
        above=USERS,
        delete=lambda: users.user_delete(actor=actor_of(request), user=account),
    )


@require_http_methods(["POST"])
@admin_required
@sudo_required
def user_second_factor_off(request: HttpRequest, pk: int) -> HttpResponse:
    account = get_object_or_404(User, pk=pk)
    second_factor.second_factor_disable(actor=actor_of(request), user=account)
    messages.success(request, _("Two-factor authentication of %(name)s is off.") % {"name": account.username})
    return redirect("accounts:user", pk=pk)


@require_GET
@admin_required
def team_list(request: HttpRequest) -> HttpResponse:
    return render(request, "accounts/teams.html", {"teams": selectors.team_list(), "crumbs": [SETTINGS]})


@require_http_methods(["GET", "POST"])
@admin_required
@sudo_required
def team_new(request: HttpRequest) -> HttpResponse:
    form = TeamForm(request.POST or None)
    if request.method == "POST":
        team = submit(form, lambda data: users.team_create(actor=actor_of(request), **data))
        if team:
            messages.success(request, _("The team %(name)s was created.") % {"name": team.name})
            return redirect("accounts:teams")
    return render(
        request, "accounts/team_form.html", {"form": form, "crumbs": [SETTINGS, TEAMS]}, status=form_status(form)
    )


@require_http_methods(["GET", "POST"])
@admin_required
@sudo_required
def team_edit(request: HttpRequest, pk: int) -> HttpResponse:
    team = get_object_or_404(Team, pk=pk)
    stored = {"name": team.name, "slug": team.slug, "members": list(team.members.all())}
    form = TeamForm(request.POST or None, initial=stored)
    if request.method == "POST":
        saved = submit(form, lambda data: users.team_update(actor=actor_of(request), team=team, **data))
        if saved:
            messages.success(request, _("The team %(name)s was saved.") % {"name": saved.name})
            return redirect("accounts:teams")
    context = {"form": form, "team": team, "sites": team.sites.count(), "crumbs": [SETTINGS, TEAMS]}
    return render(request, "accounts/team_form.html", context, status=form_status(form))


@require_http_methods(["GET", "POST"])
@admin_required
def team_delete(request: HttpRequest, pk: int) -> HttpResponse:
    team = get_object_or_404(Team, pk=pk)
    return _delete_page(
        request,
        team.name,
        title=_("Delete the team %(name)s?") % {"name": team.name},
        losses=[_("the memberships of all users in the team")],
        above=TEAMS,
        delete=lambda: users.team_delete(actor=actor_of(request), team=team),
    )
