"""Pages of ACME accounts and of automatic HTTPS of a site."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from panel.accounts.permissions import Action, may, require, teams_visible
from panel.certificates import limiting, services
from panel.certificates.forms import AccountForm, AutomaticForm, RevokeForm
from panel.certificates.models import AcmeAccount, AutomaticCertificate
from panel.certificates.selectors import (
    accounts_visible,
    automatic_elsewhere,
    automatic_visible,
    certificates_due,
    dns_accounts_visible,
    step_lines,
)
from panel.core.errors import ApplicationError
from panel.core.forms import ConfirmNameForm, attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.websites.models import Site
from panel.websites.views.base import named_get, page_of, site_get, site_render

form_page = require_http_methods(["GET", "HEAD", "POST"])


def _crumbs(*, below_accounts: bool = False) -> list[Crumb]:
    found = [Crumb(_("Sites"), reverse("websites:list")), Crumb(_("Certificates"), reverse("websites:certificates"))]
    return [*found, Crumb(_("ACME accounts"), reverse("certificates:accounts"))] if below_accounts else found


@require_safe
def accounts(request: Request) -> HttpResponse:
    context = {
        "page": page_of(request, accounts_visible(request.user).prefetch_related("automatic__site")),
        "crumbs": _crumbs(),
        "may_change": may(request.user, Action.CHANGE),
    }
    return render(request, "certificates/accounts.html", context)


@form_page
def account_add(request: Request) -> HttpResponse:
    require(request.user, Action.CHANGE)
    form = AccountForm(request.POST or None, instance=AcmeAccount(), teams=teams_visible(request.user))
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid():
            row = attempt(form, lambda: services.account_create(actor=request.user, **form.values()))
            if row is not None:
                messages.success(
                    request,
                    _("The account %s was saved. The first order of a certificate registers the account.") % row.name,
                )
                return redirect("certificates:accounts")
    context = {"form": form, "crumbs": _crumbs(below_accounts=True)}
    return render(request, "certificates/account_form.html", context, status=form_status(form))


@form_page
def account_delete(request: Request, name: str) -> HttpResponse:
    row = named_get(request, accounts_visible(request.user), name, Action.CHANGE)
    form = ConfirmNameForm(request.POST or None, expected=row.name)
    if request.method == "POST" and form.is_valid():
        try:
            services.account_delete(actor=request.user, account=row)
            messages.success(request, _("The account %s was deleted.") % row.name)
        except ApplicationError as error:
            messages.error(request, error.message)
        return redirect("certificates:accounts")
    context = {
        "form": form,
        "title": _("Delete the account %s?") % row.name,
        "losses": [_("The account's key, the only access to the account at the certificate authority")],
        "cancel_url": reverse("certificates:accounts"),
        "crumbs": _crumbs(below_accounts=True),
    }
    return render(request, "websites/confirm.html", context, status=422 if form.is_bound else 200)


@require_POST
def account_key_change(request: Request, name: str) -> HttpResponse:
    row = accounts_visible(request.user).filter(name=name).first()
    if row is None:
        raise Http404
    try:
        services.account_key_change(actor=request.user, account=row)
        messages.success(request, _("The account %s has a new key.") % row.name)
    except ApplicationError as error:
        messages.error(request, error.message)
    return redirect("certificates:accounts")


@form_page
def account_deactivate(request: Request, name: str) -> HttpResponse:
    row = named_get(request, accounts_visible(request.user), name, Action.CHANGE)
    form = ConfirmNameForm(request.POST or None, expected=row.name)
    if request.method == "POST" and form.is_valid():
        try:
            services.account_deactivate(actor=request.user, account=row)
            messages.success(request, _("The account %s is deactivated.") % row.name)
        except ApplicationError as error:
            messages.error(request, error.message)
        return redirect("certificates:accounts")
    context = {
        "form": form,
        "title": _("Deactivate the account %s?") % row.name,
        "losses": [
            _("The use of the account at the certificate authority; a deactivated account cannot be activated again")
        ],
        "cancel_url": reverse("certificates:accounts"),
        "crumbs": _crumbs(below_accounts=True),
    }
    return render(request, "websites/confirm.html", context, status=422 if form.is_bound else 200)


@require_safe
def calendar(request: Request) -> HttpResponse:
    """Show the renewals and expiries of certificates within CALENDAR_DAYS, by day."""
    context = {"page": page_of(request, certificates_due(request.user)), "crumbs": _crumbs()}
    return render(request, "certificates/calendar.html", context)


def _automatic(request: Request, site: Site) -> AutomaticCertificate | None:
    return automatic_visible(request.user).filter(site=site).first()


def _state(automatic: AutomaticCertificate | None) -> dict[str, object]:
    """Return the template context of the live part of the page: orders with their steps, and rate limits."""
    orders = list(automatic.orders.all()[:10]) if automatic is not None else []
    return {
        "automatic": automatic,
        "order": orders[0] if orders else None,
        "lines": step_lines(orders[0]) if orders else [],
        "earlier": orders[1:],
        "limits": limiting.of_site(automatic) if automatic is not None else [],
    }


@form_page
def site(request: Request, name: str) -> HttpResponse:
    """Show automatic HTTPS of a site: the form to turn it on, the newest order with its steps, and the next renewal."""
    row = site_get(request, name)
    automatic = _automatic(request, row)
    choices = accounts_visible(request.user).filter(team=row.team).exclude(status="deactivated")
    data = request.POST if request.method == "POST" and automatic is None else None
    dns_choices = dns_accounts_visible(request.user).filter(team=row.team)
    empty = AutomaticCertificate(site=row)
    form = AutomaticForm(data, instance=empty, accounts=choices, dns_accounts=dns_choices)
    if request.method == "POST":
        require(request.user, Action.CHANGE, row.team)
        require(request.user, Action.DEPLOY, row.team)
        if "_field" in request.POST:
            return field_errors(request, form)
        if automatic is not None:
            messages.error(request, _("Automatic HTTPS of %s is already on.") % row.name)
            return redirect("certificates:site", row.name)
        if form.is_valid():
            made = attempt(form, lambda: services.automatic_enable(actor=request.user, site=row, **form.values()))
            if made is not None:
                messages.success(request, _("Automatic HTTPS is on. Paddock orders the certificate now."))
                return redirect("certificates:site", row.name)
    elsewhere = automatic_elsewhere(request.user, row)
    context = {"form": form, "accounts": choices, "elsewhere": elsewhere, "status_code": form_status(form)}
    context |= _state(automatic)
    return site_render(request, row, "tls", "certificates/site.html", **context)


@require_safe
def live(request: Request, name: str) -> HttpResponse:
    """Render the part of the automatic HTTPS page that the browser refreshes."""
    row = site_get(request, name)
    return render(request, "certificates/live.html", {"site": row, **_state(_automatic(request, row))})


@require_POST
def order(request: Request, name: str) -> HttpResponse:
    row = site_get(request, name, Action.DEPLOY)
    try:
        services.certificate_order(actor=request.user, site=row)
        messages.success(request, _("Paddock orders a new certificate now."))
    except ApplicationError as error:
        messages.error(request, error.message)
    return redirect("certificates:site", row.name)


@require_POST
def disable(request: Request, name: str) -> HttpResponse:
    row = site_get(request, name, Action.CHANGE)
    try:
        services.automatic_disable(actor=request.user, site=row)
        messages.success(request, _("Automatic HTTPS is off. The current certificate stays in use until it expires."))
    except ApplicationError as error:
        messages.error(request, error.message)
    return redirect("certificates:site", row.name)


@form_page
def revoke(request: Request, name: str) -> HttpResponse:
    row = site_get(request, name, Action.CHANGE)
    automatic = _automatic(request, row)
    if automatic is None or automatic.certificate is None:
        raise Http404
    form = RevokeForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        values = form.cleaned_data
        made = attempt(form, lambda: services.certificate_revoke(actor=request.user, site=row, **values))
        if made is not None:
            messages.success(request, _("The certificate of %s is revoked.") % row.name)
            return redirect("certificates:site", row.name)
    status = form_status(form)
    context = {"form": form, "certificate": automatic.certificate, "status_code": status}
    return site_render(request, row, "tls", "certificates/revoke.html", **context)
