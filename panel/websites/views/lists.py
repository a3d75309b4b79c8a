"""The list of sites and what is done to many of them at once."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from panel.accounts.permissions import Action, may
from panel.core.errors import ApplicationError
from panel.core.http import Request
from panel.websites import services
from panel.websites.forms.sites import SiteFilterForm
from panel.websites.listing import ORDERINGS, sites_filtered, sites_listed
from panel.websites.views.base import page_of, teams_of


@login_required
@require_safe
def site_list(request: Request) -> HttpResponse:
    filters = SiteFilterForm(request.GET, teams=teams_of(request.user))
    wanted = filters.cleaned_data if filters.is_valid() else None
    sites = sites_listed(request.user).order_by(*ORDERINGS.get(request.GET.get("ordering", ""), ("name",)))
    # A filter that names nothing known shows nothing, rather than everything.
    sites = sites_filtered(sites, wanted) if wanted is not None else sites.none()
    page = page_of(request, sites)
    context = {
        "page": page,
        "filters": filters,
        "is_empty": not page.paginator.count and not filters.has_changed(),
        "may_change": may(request.user, Action.CHANGE),
        "may_benchmark": may(request.user, Action.BENCHMARK),
        "may_deploy": may(request.user, Action.DEPLOY),
    }
    return render(request, "websites/list.html", context)


@login_required
@require_POST
def bulk(request: Request) -> HttpResponse:
    """Enable or disable the ticked sites, all of them or none, or go on to measuring them. Planning them is
    deployments:plan."""
    wanted = request.POST.getlist("site")
    sites = list(sites_listed(request.user).filter(name__in=wanted))
    if not sites or len(sites) != len(set(wanted)):
        messages.error(request, _("Nothing was done: tick the sites first; one may have been deleted meanwhile."))
        return redirect("websites:list")
    action = request.POST.get("action")
    if action == "measure":
        return redirect(f"{reverse('benchmarks:run-create')}?{urlencode([('site', site.name) for site in sites])}")
    if action not in ("enable", "disable"):
        return HttpResponse(status=400)
    try:
        with transaction.atomic():
            for site in sites:
                services.site_enable(actor=request.user, site=site, enabled=action == "enable")
    except ApplicationError as error:
        messages.error(request, error.message)
        return redirect("websites:list")
    words = (
        ngettext("%d site enabled.", "%d sites enabled.", len(sites))
        if action == "enable"
        else ngettext("%d site disabled.", "%d sites disabled.", len(sites))
    )
    messages.success(request, words % len(sites) + " " + _("Their hosts follow with the next deployment."))
    return redirect("websites:list")
