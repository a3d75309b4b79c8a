"""Pages of DNS accounts: access to DNS servers and providers."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from panel.accounts.permissions import Action, may, require, teams_visible
from panel.certificates.dns import services
from panel.certificates.dns.providers import PROVIDERS, DnsKind
from panel.certificates.forms import DnsAccountForm, DnsTestForm
from panel.certificates.models import DnsAccount
from panel.certificates.selectors import dns_accounts_visible
from panel.core.errors import ApplicationError
from panel.core.forms import ConfirmNameForm, attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.websites.views.base import named_get, page_of

form_page = require_http_methods(["GET", "HEAD", "POST"])


def _crumbs(*, below: bool = False) -> list[Crumb]:
    found = [Crumb(_("Sites"), reverse("websites:list")), Crumb(_("Certificates"), reverse("websites:certificates"))]
    return [*found, Crumb(_("DNS accounts"), reverse("certificates:dns_accounts"))] if below else found


def _get(request: Request, name: str, action: Action) -> DnsAccount:
    return named_get(request, dns_accounts_visible(request.user), name, action)


@require_safe
def accounts(request: Request) -> HttpResponse:
    context = {
        "page": page_of(request, dns_accounts_visible(request.user).prefetch_related("automatic__site")),
        "crumbs": _crumbs(),
        "may_change": may(request.user, Action.CHANGE),
        "kinds": _kinds(request),
    }
    return render(request, "certificates/dns_accounts.html", context)


def _kinds(request: Request) -> list[tuple[str, str]]:
    """Return [(kind, label)] of the kinds of DNS accounts that the user may add."""
    is_admin = may(request.user, Action.ADMINISTER)
    return [(kind.value, str(kind.label)) for kind in DnsKind if is_admin or not PROVIDERS[kind].needs_administrator]


@sensitive_post_parameters()
@form_page
def account_add(request: Request, kind: str) -> HttpResponse:
    require(request.user, Action.CHANGE)
    if kind not in dict(_kinds(request)):
        raise Http404
    form = DnsAccountForm(request.POST or None, kind=kind, teams=teams_visible(request.user))
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid():
            row = attempt(form, lambda: _created(request, kind, form))
            if row is not None:
                messages.success(request, _("The DNS account %s was saved. Test it below.") % row.name)
                return redirect("certificates:dns_account", row.name)
    context = {"form": form, "kind": DnsKind(kind), "crumbs": _crumbs(below=True)}
    return render(request, "certificates/dns_account_add.html", context, status=form_status(form))


def _created(request: Request, kind: str, form: DnsAccountForm) -> DnsAccount:
    data = form.cleaned_data
    return services.dns_account_create(
        actor=request.user, team=data["team"], name=data["name"], kind=kind, settings=form.settings_given()
    )


@sensitive_post_parameters()
@form_page
def account(request: Request, name: str) -> HttpResponse:
    """Show and change the settings of a DNS account, with a form to test it."""
    row = _get(request, name, Action.VIEW)
    data = request.POST if request.method == "POST" else None
    form = DnsAccountForm(data, kind=row.kind, teams=teams_visible(request.user), account=row)
    if request.method == "POST":
        require(request.user, Action.CHANGE, row.team)
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid():
            settings = form.settings_given()
            if attempt(form, lambda: services.dns_account_update(actor=request.user, account=row, settings=settings)):
                messages.success(request, _("The DNS account %s was saved.") % row.name)
                return redirect("certificates:dns_account", row.name)
    context = {
        "account": row,
        "form": form,
        "test_form": DnsTestForm(initial={"domain": row.tested_zone}),
        "may_change": may(request.user, Action.CHANGE, row.team),
        "crumbs": _crumbs(below=True),
    }
    return render(request, "certificates/dns_account.html", context, status=form_status(form))


@require_POST
def account_test(request: Request, name: str) -> HttpResponse:
    row = _get(request, name, Action.CHANGE)
    form = DnsTestForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("Enter a domain name in a zone of this account, for example www.example.com."))
        return redirect("certificates:dns_account", name)
    tested = services.dns_account_test(actor=request.user, account=row, domain=form.cleaned_data["domain"])
    if tested.problem:
        messages.error(request, tested.problem)
    else:
        messages.success(
            request,
            _(
                "The test succeeded: Paddock created a record, saw the record on every "
                "authoritative DNS server, and removed the record."
            ),
        )
    return redirect("certificates:dns_account", name)


@form_page
def account_delete(request: Request, name: str) -> HttpResponse:
    row = _get(request, name, Action.CHANGE)
    form = ConfirmNameForm(request.POST or None, expected=row.name)
    if request.method == "POST" and form.is_valid():
        try:
            services.dns_account_delete(actor=request.user, account=row)
            messages.success(request, _("The DNS account %s was deleted.") % row.name)
        except ApplicationError as error:
            messages.error(request, error.message)
        return redirect("certificates:dns_accounts")
    context = {
        "form": form,
        "title": _("Delete the DNS account %s?") % row.name,
        "losses": [_("The account's settings and secrets, which Paddock stores nowhere else")],
        "cancel_url": reverse("certificates:dns_accounts"),
        "crumbs": _crumbs(below=True),
    }
    return render(request, "websites/confirm.html", context, status=422 if form.is_bound else 200)
