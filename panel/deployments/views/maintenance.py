"""Pages to start and to end the maintenance of sites."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST

from panel.accounts.permissions import Action, require
from panel.core.errors import ApplicationError, words_of
from panel.core.forms import attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.row_selection import ticked
from panel.core.ui import Crumb
from panel.deployments.forms import MaintenanceForm
from panel.deployments.maintenance import services
from panel.deployments.models import Deployment
from panel.websites.models import Site
from panel.websites.selectors import sites_visible


def _sites(request: Request, names: list[str]) -> list[Site]:
    """Return the named sites that the user may see."""
    return list(sites_visible(request.user).filter(name__in=names).select_related("maintenance").order_by("name"))


def _shown(plans: list[Deployment]) -> HttpResponse:
    """Redirect to the page of the first deployment, which lists its batch. Without deployments, redirect to the list of
    sites.
    """
    return redirect("deployments:detail", plans[0].uuid) if plans else redirect("websites:list")


@require_http_methods(["GET", "HEAD", "POST"])
def start(request: Request) -> HttpResponse:
    """Show the form for the maintenance of the sites in the query; on POST, start the maintenance."""
    require(request.user, Action.DEPLOY)
    sites = _sites(request, ticked(request, "site"))
    if not sites:
        messages.error(request, _("No sites selected. Choose at least one site."))
        return redirect("websites:list")
    form = MaintenanceForm(request.POST or None, current=getattr(sites[0], "maintenance", None))
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid():
            plans = attempt(
                form,
                lambda: services.maintenance_start(actor=request.user, sites=sites, settings=form.settings()),
            )
            if plans is not None:
                messages.success(
                    request,
                    _("The maintenance settings are saved.")
                    if not plans
                    else _("Paddock deploys the maintenance page now."),
                )
                return _shown(plans)
    names = ", ".join(site.name for site in sites[:10])
    context = {
        "form": form,
        "names": names + (", …" if len(sites) > 10 else ""),
        "title": ngettext("Maintenance of %d site", "Maintenance of %d sites", len(sites)) % len(sites),
        "crumbs": [Crumb(_("Sites"), reverse("websites:list"))],
    }
    return render(request, "deployments/maintenance.html", context, status=form_status(form))


@require_POST
def end(request: Request) -> HttpResponse:
    """End the maintenance of the posted sites."""
    sites = _sites(request, request.POST.getlist("site"))
    try:
        plans = services.maintenance_end(actor=request.user, sites=sites)
    except (ApplicationError, ValidationError) as error:
        messages.error(request, words_of(error))
        return redirect("websites:detail", sites[0].name) if len(sites) == 1 else redirect("websites:list")
    if not plans:
        messages.info(request, _("None of these sites is in maintenance."))
    return _shown(plans)
