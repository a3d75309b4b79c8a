"""Shared code of the pages of one site: lookup, permission, tabs."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.paginator import Page, Paginator
from django.db.models import Model, QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _

from panel.accounts.models import Role, Team, User
from panel.accounts.permissions import Action, may, require
from panel.core.http import Request
from panel.core.ui import Crumb, Tab
from panel.websites.listing import sites_listed
from panel.websites.models import Site

PER_PAGE = 50


def site_get(request: Request, name: str, action: Action = Action.VIEW) -> Site:
    """The site; 404 if the user has no access, PermissionDenied if the user lacks the permission for `action`."""
    site = sites_listed(request.user).filter(name=name).first()
    if site is None:
        raise Http404
    require(request.user, action, site.team)
    return site


def part_get(rows: QuerySet[Any], pk: int) -> Any:
    part: Model | None = rows.filter(pk=pk).first()
    if part is None:
        raise Http404
    return part


def teams_of(user: User) -> QuerySet[Team]:
    """Teams whose sites the user may change."""
    teams = Team.objects.all()
    return teams if user.role == Role.ADMIN else teams.filter(members=user)


def page_of(request: Request, rows: QuerySet[Any], per_page: int = PER_PAGE) -> Page[Any]:
    return Paginator(rows, per_page).get_page(request.GET.get("page"))


def site_tabs(site: Site, current: str) -> list[Tab]:
    """Tabs of a site's pages; those of other apps are links."""
    tabs = [
        ("detail", _("Overview")),
        ("blocks", _("Server blocks")),
        ("php", _("PHP")),
        ("upstreams", _("Upstreams")),
        ("tls", _("TLS")),
        ("explain", _("Find location")),
        ("raw", _("Rendered files")),
        ("history", _("History")),
        ("benchmarks", _("Benchmarks")),
        ("comparisons", _("Server comparison")),
        ("traffic", _("Traffic")),
        ("logs", _("Logs")),
    ]
    found = []
    for name, label in tabs:
        try:
            url = reverse(f"websites:{name}", args=[site.name])
        except NoReverseMatch:
            continue
        found.append(Tab(label, url, current == name))
    return found


def crumbs_below(site: Site) -> list[Crumb]:
    """Breadcrumbs of a page below a site's own."""
    here = Crumb(site.name, reverse("websites:detail", args=[site.name]))
    return [Crumb(_("Sites"), reverse("websites:list")), here]


def saved(request: Request, to: str, site: Site, words: str) -> HttpResponse:
    """Show a message and redirect to a page of the site."""
    messages.success(request, words)
    return redirect(to, site.name)


def site_render(request: Request, site: Site, tab: str, template: str, **context: Any) -> HttpResponse:
    crumbs = [Crumb(_("Sites"), reverse("websites:list"))]
    status = context.pop("status_code", 200)
    base = {
        "site": site,
        "crumbs": crumbs,
        "tabs": site_tabs(site, tab),
        "may_change": may(request.user, Action.CHANGE, site.team),
        "may_deploy": may(request.user, Action.DEPLOY, site.team),
        "may_administer": may(request.user, Action.ADMINISTER),
    }
    return render(request, template, base | context, status=status)
