"""Pages of SSH certificate authorities."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from panel.accounts.permissions import Action, require
from panel.core.errors import ApplicationError
from panel.core.forms import ConfirmNameForm, attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.hosts import services
from panel.hosts.authorities import authorities_visible
from panel.hosts.forms import AuthorityForm

form_page = require_http_methods(["GET", "HEAD", "POST"])


def _crumbs(*, below: bool = False) -> list[Crumb]:
    found = [Crumb(_("Hosts"), reverse("hosts:list"))]
    return [*found, Crumb(_("SSH certificate authorities"), reverse("hosts:authorities"))] if below else found


@login_required
@require_safe
def authorities(request: Request) -> HttpResponse:
    require(request.user, Action.ADMINISTER)
    context = {"authorities": authorities_visible(request.user), "crumbs": _crumbs()}
    return render(request, "hosts/authorities.html", context)


@login_required
@form_page
def add(request: Request) -> HttpResponse:
    require(request.user, Action.ADMINISTER)
    form = AuthorityForm(request.POST or None)
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid():
            row = attempt(form, lambda: services.authority_create(actor=request.user, **form.cleaned_data))
            if row is not None:
                messages.success(request, _("The authority %s was added.") % row.name)
                return redirect("hosts:authorities")
    context = {"form": form, "crumbs": _crumbs(below=True)}
    return render(request, "hosts/authority_form.html", context, status=form_status(form))


@login_required
@form_page
def delete(request: Request, name: str) -> HttpResponse:
    require(request.user, Action.ADMINISTER)
    row = get_object_or_404(authorities_visible(request.user), name=name)
    form = ConfirmNameForm(request.POST or None, expected=row.name)
    if request.method == "POST" and form.is_valid():
        try:
            services.authority_delete(actor=request.user, authority=row)
            messages.success(request, _("The authority %s was deleted.") % name)
        except ApplicationError as error:
            messages.error(request, error.message)
        return redirect("hosts:authorities")
    context = {
        "form": form,
        "title": _("Delete the authority %s?") % row.name,
        "losses": [_("The authority's key, which signs host keys or Paddock's keys")],
        "cancel_url": reverse("hosts:authorities"),
        "crumbs": _crumbs(below=True),
    }
    return render(request, "hosts/confirm.html", context, status=422 if form.is_bound else 200)
