"""Pages of access lists."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from panel.accounts.permissions import Action, may, require
from panel.core.errors import ApplicationError
from panel.core.forms import ConfirmNameForm, attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.websites import services
from panel.websites.forms.access_lists import AccessListForm
from panel.websites.models import AccessList
from panel.websites.selectors import access_lists_visible, sites_of_access_list, sites_of_access_lists
from panel.websites.views.base import named_get, page_of, teams_of

form_page = require_http_methods(["GET", "HEAD", "POST"])


def _crumbs(*, below: bool = False) -> list[Crumb]:
    found = [Crumb(_("Sites"), reverse("websites:list"))]
    return [*found, Crumb(_("Access lists"), reverse("websites:access_lists"))] if below else found


def _get(request: Request, name: str, action: Action) -> AccessList:
    return named_get(request, access_lists_visible(request.user), name, action)


@require_safe
def access_lists(request: Request) -> HttpResponse:
    page = page_of(request, access_lists_visible(request.user))
    sites = sites_of_access_lists(page.object_list)
    context = {
        "page": page,
        "rows": [(row, sites[row.name]) for row in page],
        "crumbs": _crumbs(),
        "may_change": may(request.user, Action.CHANGE),
    }
    return render(request, "websites/access_lists.html", context)


@form_page
def access_list_add(request: Request) -> HttpResponse:
    require(request.user, Action.CHANGE)
    form = AccessListForm(request.POST or None, teams=teams_of(request.user))
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid():
            row = attempt(form, lambda: services.access_list_create(actor=request.user, **form.values()))
            if row is not None:
                messages.success(request, _("The access list %s was saved.") % row.name)
                return redirect("websites:access_lists")
    context = {"form": form, "crumbs": _crumbs(below=True)}
    return render(request, "websites/access_list.html", context, status=form_status(form))


@form_page
def access_list(request: Request, name: str) -> HttpResponse:
    """The addresses of a list, which can be changed, and the sites that use it."""
    row = _get(request, name, Action.VIEW)
    form = AccessListForm(request.POST or None, instance=row, teams=teams_of(request.user))
    if request.method == "POST":
        require(request.user, Action.CHANGE, row.team)
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid() and _changed(request, row.pk, form):
            return redirect("websites:access_list", name)
    context = {
        "access_list": row,
        "form": form,
        "sites": sites_of_access_list(row),
        "may_change": may(request.user, Action.CHANGE, row.team),
        "crumbs": _crumbs(below=True),
    }
    return render(request, "websites/access_list.html", context, status=form_status(form))


def _changed(request: Request, pk: int, form: AccessListForm) -> bool:
    """Save the form's sources; False with an error in the form."""
    row = access_lists_visible(request.user).get(pk=pk)  # the form has changed its own
    saved = attempt(
        form,
        lambda: services.access_list_update(
            actor=request.user,
            access_list=row,
            sources=form.cleaned_data["sources"],
            expected_version=form.expected_version,
        ),
    )
    if saved is None:
        return False
    words = _("The access list %s was saved.") % row.name
    if sites := sites_of_access_list(row):
        words += " " + _("Deploy the sites that use it: %s.") % ", ".join(site.name for site in sites)
    messages.success(request, words)
    return True


@form_page
def access_list_delete(request: Request, name: str) -> HttpResponse:
    row = _get(request, name, Action.CHANGE)
    form = ConfirmNameForm(request.POST or None, expected=row.name)
    if request.method == "POST" and form.is_valid():
        try:
            services.access_list_delete(actor=request.user, access_list=row)
            messages.success(request, _("The access list %s was deleted.") % name)
        except ApplicationError as error:
            messages.error(request, error.message)
        return redirect("websites:access_lists")
    context = {
        "form": form,
        "title": _("Delete the access list %s?") % row.name,
        "losses": [_("Its addresses and networks")],
        "cancel_url": reverse("websites:access_list", args=[row.name]),
        "crumbs": _crumbs(below=True),
    }
    return render(request, "websites/confirm.html", context, status=422 if form.is_bound else 200)
