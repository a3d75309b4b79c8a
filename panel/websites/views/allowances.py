"""Pages of allowances: shared names, and the local services of a host."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from panel.accounts.permissions import Action, may, require
from panel.core.forms import attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.hosts.views.common import administered
from panel.hosts.views.pages import host_get
from panel.websites import services
from panel.websites.forms.allowances import LocalServiceForm, SharedNameForm
from panel.websites.models import Allowance, AllowanceKind
from panel.websites.selectors import allowances_visible
from panel.websites.views.base import page_of

list_page = require_http_methods(["GET", "HEAD", "POST"])


def _list_page(
    request: Request, form: Any, rows: QuerySet[Allowance], values: dict[str, object], **context: Any
) -> HttpResponse:
    """Show a list of allowances and a form, or add the allowance that the form describes. `values` are fields of the
    new allowance that the form does not have.
    """
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid():
            row = attempt(form, lambda: services.allowance_create(actor=request.user, **(form.values() | values)))
            if row is not None:
                messages.success(request, _("%s was added.") % row.value)
                return redirect(request.path)
    context |= {"form": form, "page": page_of(request, rows), "may_administer": may(request.user, Action.ADMINISTER)}
    return render(request, "websites/allowances.html", context, status=form_status(form))


@login_required
@list_page
def shared_names(request: Request) -> HttpResponse:
    require(request.user, Action.ADMINISTER)
    rows = allowances_visible(request.user).exclude(kind=AllowanceKind.SERVICE).order_by("kind", "value", "pk")
    form = SharedNameForm(request.POST or None, instance=Allowance())
    crumbs = [Crumb(_("Sites"), reverse("websites:list"))]
    lead = _(
        "A server name or address belongs to the team that used it first. The teams in this list can use a name or "
        "address although another team uses an overlapping name or address."
    )
    titles = {"title": _("Shared names"), "empty_title": _("No shared names yet"), "add_title": _("Add shared name")}
    return _list_page(request, form, rows, {}, **titles, lead=lead, crumbs=crumbs, icon="sites")


@login_required
@list_page
def local_services(request: Request, name: str) -> HttpResponse:
    host = administered(request, name) if request.method == "POST" else host_get(request, name)
    rows = allowances_visible(request.user).filter(kind=AllowanceKind.SERVICE, host=host).order_by("value", "pk")
    values = {"kind": AllowanceKind.SERVICE, "host": host}
    form = LocalServiceForm(request.POST or None, instance=Allowance(**values))
    crumbs = [Crumb(_("Hosts"), reverse("hosts:list")), Crumb(host.name, reverse("hosts:detail", args=[host.name]))]
    lead = _(
        "Upstreams and PHP pools can pass requests to these sockets and addresses on the host itself. Operators "
        "cannot use any other local service."
    )
    titles = {
        "title": _("Local services"),
        "empty_title": _("No local services yet"),
        "add_title": _("Add local service"),
    }
    return _list_page(request, form, rows, values, **titles, lead=lead, crumbs=crumbs, icon="route", host=host)


@login_required
@require_POST
def withdraw(request: Request, pk: int) -> HttpResponse:
    require(request.user, Action.ADMINISTER)
    row = allowances_visible(request.user).filter(pk=pk).first()
    if row is None:
        raise Http404
    services.allowance_delete(actor=request.user, allowance=row)
    messages.success(request, _("%s was removed. Deployed sites stay as they are.") % row.value)
    if row.kind == AllowanceKind.SERVICE and row.host is not None:
        return redirect("hosts:local_services", row.host.name)
    return redirect("websites:shared_names")
