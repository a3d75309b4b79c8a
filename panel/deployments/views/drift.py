"""Pages of drift: list the edited files on hosts, adopt or overwrite them, and check hosts for drift."""

from __future__ import annotations

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from panel.accounts.permissions import Action, may
from panel.accounts.sudo import sudo_required
from panel.core.errors import ApplicationError
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.deployments import selectors
from panel.deployments.drift import services
from panel.deployments.forms import DriftCheckForm
from panel.deployments.main_file.services import main_records
from panel.deployments.views.deployments import PAGE, crumbs, planned, refused, site_or_404
from panel.hosts.edited_files import edited_files
from panel.hosts.models import HostJobKind
from panel.hosts.selectors import host_jobs_visible, hosts_visible
from panel.hosts.services.jobs import UNFINISHED, host_jobs_request


@require_safe
def drift_list(request: Request) -> HttpResponse:
    page = Paginator(selectors.drifts_on_page(request.user), PAGE).get_page(request.GET.get("page"))
    pins = selectors.pins_visible(request.user)
    check = DriftCheckForm(hosts=hosts_visible(request.user)) if request.user.is_admin else None
    context = {"page": page, "pins": pins, "check": check, "crumbs": crumbs(), **_checks_context(request)}
    context["edited_files"] = edited_files(request.user) if page.number == 1 else []
    return render(request, "deployments/drift_list.html", context)


@require_safe
def drift_detail(request: Request, pk: int) -> HttpResponse:
    drift = get_object_or_404(selectors.drifts_visible(request.user, only_open=False), pk=pk)
    context = {
        "drift": drift,
        "is_main": drift.path in main_records(drift.web_server),
        "crumbs": crumbs(Crumb(_("Drift"), reverse("deployments:drift"))),
        "may_overwrite": may(request.user, Action.DEPLOY, drift.site.team if drift.site else None),
        "may_adopt": may(request.user, Action.ADMINISTER) and drift.site is not None and drift.found,
    }
    return render(request, "deployments/drift_detail.html", context)


@require_safe
def checks(request: Request) -> HttpResponse:
    """Render a partial with the results of the latest drift checks, which the page refreshes while they run."""
    return render(request, "deployments/drift_checks.html", _checks_context(request))


def _checks_context(request: Request) -> dict[str, object]:
    """Return the template context for the last drift check of each host; empty for users who cannot start checks."""
    if not may(request.user, Action.ADMINISTER):
        return {"jobs": [], "is_checking": False}
    rows = host_jobs_visible(request.user).filter(kind=HostJobKind.DRIFT).order_by("-pk")[:200]
    last = {row.host_id: row for row in reversed(rows)}
    jobs = sorted(last.values(), key=lambda row: row.host.name)
    return {"jobs": jobs, "is_checking": any(row.status in UNFINISHED for row in jobs)}


@require_POST
def check(request: Request) -> HttpResponse:
    """Queue a drift check of one host, or of all hosts."""
    name, shown = request.POST.get("host", ""), hosts_visible(request.user)
    hosts = [get_object_or_404(shown, name=name)] if name else list(shown)
    back = reverse("deployments:drift")
    try:
        host_jobs_request(actor=request.user, hosts=hosts, kind=HostJobKind.DRIFT)
    except ApplicationError as error:
        return refused(request, error, back)
    return redirect(back)


@require_POST
@sudo_required
def adopt(request: Request, pk: int) -> HttpResponse:
    drift = get_object_or_404(selectors.drifts_visible(request.user), pk=pk)
    try:
        services.drift_adopt(actor=request.user, drift=drift)
    except ApplicationError as error:
        return refused(request, error, reverse("deployments:drift-detail", args=[pk]))
    messages.success(
        request,
        _("The edit is adopted. Deployments keep this version of %s until you choose Manage again.") % drift.path,
    )
    return redirect("deployments:drift")


@require_POST
def overwrite(request: Request, name: str) -> HttpResponse:
    site = site_or_404(request, name)
    back = reverse("deployments:drift")
    return planned(request, lambda: [services.drift_overwrite(actor=request.user, site=site)], back)


@require_POST
def release(request: Request, pk: int) -> HttpResponse:
    pin = get_object_or_404(selectors.pins_visible(request.user), pk=pk)
    services.pin_release(actor=request.user, pin=pin)
    messages.success(request, _("The next deployment of %s writes the file from the draft again.") % pin.site)
    return redirect("deployments:drift")
