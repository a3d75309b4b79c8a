"""Pages of change windows and freezes."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from panel.accounts.permissions import Action, may, require
from panel.core.forms import attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.deployments.forms import ChangeWindowForm
from panel.deployments.views.deployments import crumbs
from panel.deployments.windows import services
from panel.deployments.windows.selectors import change_windows


@require_safe
def window_list(request: Request) -> HttpResponse:
    require(request.user, Action.VIEW)
    may_administer = may(request.user, Action.ADMINISTER)
    context = {"windows": change_windows(), "may_administer": may_administer, "crumbs": crumbs()}
    return render(request, "deployments/windows.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def window_edit(request: Request, pk: int | None = None) -> HttpResponse:
    """Show the form for a new change window or freeze, or for the one with the id `pk`; on POST, save it."""
    require(request.user, Action.ADMINISTER)
    row = None if pk is None else get_object_or_404(change_windows(), pk=pk)
    form = ChangeWindowForm(request.POST or None, current=row)
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid():
            values = {name: form.cleaned_data[name] for name in services.FIELDS}
            expected = form.cleaned_data["version"]
            work = lambda: services.change_window_set(  # noqa: E731
                actor=request.user, window=row, expected_version=expected, **values
            )
            if attempt(form, work) is not None:
                messages.success(request, _("The change window is saved."))
                return redirect("deployments:windows")
    way = crumbs(Crumb(_("Change windows"), reverse("deployments:windows")))
    context = {"form": form, "title": row.name if row else _("New window or freeze"), "crumbs": way}
    return render(request, "deployments/window.html", context, status=form_status(form))


@require_POST
def window_delete(request: Request, pk: int) -> HttpResponse:
    row = get_object_or_404(change_windows(), pk=pk)
    services.change_window_delete(actor=request.user, window=row)
    messages.success(request, _("The window %s was deleted.") % row)
    return redirect("deployments:windows")
