"""Pages of virtual addresses."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from panel.accounts.permissions import Action, may, require
from panel.core.errors import ApplicationError, words_of
from panel.core.forms import ConfirmNameForm, attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.failover import services
from panel.failover.forms import VirtualAddressForm
from panel.failover.models import VirtualAddress
from panel.failover.selectors import hosts_of, is_changed, state_of, states_of, virtual_addresses_visible
from panel.hosts.models import HostJob
from panel.hosts.selectors import hosts_visible

form_page = require_http_methods(["GET", "HEAD", "POST"])


def _crumbs(*more: Crumb) -> list[Crumb]:
    return [Crumb(_("Hosts"), reverse("hosts:list")), *more]


def _below() -> list[Crumb]:
    return _crumbs(Crumb(_("Virtual addresses"), reverse("failover:list")))


@require_safe
def address_list(request: Request) -> HttpResponse:
    found = list(virtual_addresses_visible(request.user))
    rows = [(row, state, is_changed(row)) for row, state in zip(found, states_of(found), strict=True)]
    context = {"rows": rows, "crumbs": _crumbs(), "may_change": may(request.user, Action.ADMINISTER)}
    return render(request, "failover/list.html", context)


@form_page
def add(request: Request) -> HttpResponse:
    require(request.user, Action.ADMINISTER)
    form = VirtualAddressForm(request.POST or None, hosts=hosts_visible(request.user))
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid():
            hosts = form.cleaned_data["hosts"]
            row = attempt(
                form,
                lambda: services.virtual_address_create(actor=request.user, hosts=hosts, values=form.values()),
            )
            if row is not None:
                messages.success(
                    request, _("The virtual address is saved. No host has the address before you apply it.")
                )
                return redirect("failover:detail", row.name)
    return render(request, "failover/add.html", {"form": form, "crumbs": _below()}, status=form_status(form))


@form_page
def detail(request: Request, name: str) -> HttpResponse:
    """Show the state of a virtual address on its hosts, and a form to change its settings."""
    row = get_object_or_404(virtual_addresses_visible(request.user), name=name)
    form = VirtualAddressForm(request.POST or None, instance=row, hosts=hosts_visible(request.user))
    if request.method == "POST":
        require(request.user, Action.ADMINISTER)
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid() and _changed(request, row.pk, form):
            return redirect("failover:detail", name)
    stored = get_object_or_404(virtual_addresses_visible(request.user), pk=row.pk)  # the form has changed `row`
    hosts = hosts_of(stored)
    context = {
        "row": stored,
        "form": form,
        "state": state_of(stored),
        "is_changed": is_changed(stored),
        "hosts": hosts,
        "is_edited": any(item.seen is not None and item.seen.edited for item in hosts),
        "may_change": may(request.user, Action.ADMINISTER),
        "crumbs": _below(),
    }
    return render(request, "failover/detail.html", context, status=form_status(form))


def _changed(request: Request, pk: int, form: VirtualAddressForm) -> bool:
    row = virtual_addresses_visible(request.user).get(pk=pk)
    hosts, expected = form.cleaned_data["hosts"], form.cleaned_data["version"]
    work = lambda: services.virtual_address_change(  # noqa: E731
        actor=request.user, row=row, hosts=hosts, values=form.values(), expected_version=expected
    )
    if attempt(form, work) is None:
        return False
    messages.success(request, _("The virtual address is saved. Apply the address to change the hosts."))
    return True


@require_POST
def apply(request: Request, name: str) -> HttpResponse:
    """Start the job that applies the saved configuration of a virtual address to its hosts."""
    replace = request.POST.get("replace") == "yes"
    return _job(
        request,
        name,
        lambda row: services.virtual_address_apply(actor=request.user, row=row, replace=replace),
    )


@require_POST
def withdraw(request: Request, name: str) -> HttpResponse:
    """Start the job that removes a virtual address from its hosts."""
    return _job(request, name, lambda row: services.virtual_address_withdraw(actor=request.user, row=row))


def _job(request: Request, name: str, work: Callable[[VirtualAddress], HostJob]) -> HttpResponse:
    row = get_object_or_404(virtual_addresses_visible(request.user), name=name)
    try:
        job = work(row)
    except (ApplicationError, ValidationError) as error:
        messages.error(request, words_of(error))
        return redirect("failover:detail", name)
    return redirect("job", job.uuid)


@form_page
def delete(request: Request, name: str) -> HttpResponse:
    require(request.user, Action.ADMINISTER)
    row = get_object_or_404(virtual_addresses_visible(request.user), name=name)
    form = ConfirmNameForm(request.POST or None, expected=row.name)
    if request.method == "POST" and form.is_valid():
        try:
            services.virtual_address_delete(actor=request.user, row=row, forget=True)
        except ApplicationError as error:
            messages.error(request, error.message)
            return redirect("failover:detail", name)
        messages.success(request, _("%s was deleted.") % name)
        return redirect("failover:list")
    losses = [_("the settings of the virtual address")]
    if row.applied:
        losses.append(
            _(
                "Paddock's control of keepalived: the hosts use the address until you remove Paddock's keepalived "
                "file by hand"
            )
        )
    context = {
        "form": form,
        "title": _("Delete the virtual address %s?") % row.name,
        "losses": losses,
        "cancel_url": reverse("failover:detail", args=[row.name]),
        "crumbs": _below(),
    }
    return render(request, "websites/confirm.html", context, status=form_status(form))
