"""Pages of the list of sites, and of its bulk actions."""

from __future__ import annotations

from functools import partial

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from panel.accounts.permissions import Action, may, require, teams_read, teams_visible
from panel.core.errors import ApplicationError
from panel.core.forms import ConfirmNameForm
from panel.core.http import Request
from panel.core.row_selection import can_select_all, go_on, the_others, ticked
from panel.core.tags import tags_counted
from panel.core.ui import Crumb
from panel.core.views.tags import TagsPage, tags_page
from panel.deployments.models import Deployment
from panel.deployments.planning import services as deployments
from panel.deployments.views.deployments import planned
from panel.hosts.forms import offer_web_servers
from panel.hosts.models import WebServer
from panel.hosts.selectors import hosts_visible
from panel.websites import services
from panel.websites.forms.sites import SiteFilterForm, SitesMoveForm
from panel.websites.listing import ORDERINGS, site_tags, sites_filtered, sites_listed, sites_on_page, with_domains
from panel.websites.models import Site
from panel.websites.selectors import sites_visible
from panel.websites.views.actions import site_is_live, site_is_there
from panel.websites.views.base import page_of

# Actions with a page of their own, which takes the selected sites in its query.
_GO_ON = {
    "measure": "benchmarks:run-create",
    "delete": "websites:bulk_delete",
    "move": "websites:bulk_move",
    "tag": "websites:bulk_tag",
    "maintenance": "deployments:maintenance",
}


@login_required
@require_safe
def site_list(request: Request) -> HttpResponse:
    teams_read(request.user)
    filters = SiteFilterForm(
        request.GET,
        teams=teams_visible(request.user),
        hosts=hosts_visible(request.user),
        tags=site_tags(sites_visible(request.user)),
    )
    wanted = filters.cleaned_data if filters.is_valid() else None
    sites = sites_visible(request.user).order_by(*ORDERINGS.get(request.GET.get("ordering", ""), ("name",)))
    # An invalid filter shows nothing instead of everything.
    sites = sites_filtered(sites, wanted) if wanted is not None else sites.none()
    page = page_of(request, sites, shown=sites_on_page(request.user))
    others = the_others(request, page, "site") if may(request.user, Action.CHANGE) else None
    if others is not None:
        return others
    page.object_list = with_domains(page.object_list)
    context = {
        "page": page,
        "can_select_all": can_select_all(page),
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
    """Enable or disable all selected sites, or redirect to the page of another action. If one site is rejected, no site
    changes.
    """
    sites = _ticked(request, request.POST.getlist("site"))
    action = request.POST.get("action")
    if action not in (*_GO_ON, "enable", "disable"):
        return HttpResponse(status=400)
    if not sites:
        return redirect("websites:list")
    if action in _GO_ON:
        return go_on(request, reverse(_GO_ON[action]), "site", (site.name for site in sites))
    if action == "disable":
        done = ngettext(
            "%d site disabled. No deployment was needed because the site is not on a host.",
            "%d sites disabled. No deployment was needed because the sites are not on a host.",
            len(sites),
        )
        work = partial(deployments.sites_disable, actor=request.user, sites=sites)
        return planned(request, work, reverse("websites:list"), done % len(sites))
    return _enabled(request, sites)


def _ticked(request: Request, names: list[str]) -> list[Site]:
    """Return the sites with the given names. If any does not exist, or none is given, show an error message and return
    [].
    """
    sites = list(sites_listed(request.user).filter(name__in=names).order_by("name"))
    if sites and len(sites) == len(set(names)):
        return sites
    messages.error(request, _("Nothing was changed. Select sites first; a selected site may have been deleted."))
    return []


def _enabled(request: Request, sites: list[Site]) -> HttpResponse:
    try:
        with transaction.atomic():
            for site in sites:
                services.site_enable(actor=request.user, site=site, enabled=True)
    except ApplicationError as error:
        messages.error(request, error.message)
        return redirect("websites:list")
    words = ngettext("%d site enabled.", "%d sites enabled.", len(sites)) % len(sites)
    messages.success(request, words + " " + _("Plan a deployment to apply this change on the hosts of the sites."))
    return redirect("websites:list")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def bulk_delete(request: Request) -> HttpResponse:
    """Delete the sites in the query after the user typed their number. Sites on hosts are first removed by a plan."""
    require(request.user, Action.CHANGE)
    sites = _ticked(request, ticked(request, "site"))
    if not sites:
        return redirect("websites:list")
    count = len(sites)
    form = ConfirmNameForm(request.POST or None, expected=ngettext("%d site", "%d sites", count) % count)
    if request.method == "POST" and form.is_valid():
        work = partial(deployments.sites_delete, actor=request.user, sites=sites)
        done = ngettext("%d site deleted.", "%d sites deleted.", count) % count
        return planned(request, work, reverse("websites:list"), done)
    text = _(
        "Paddock also deletes the server blocks, locations, and revisions of these sites. Document roots on the hosts "
        "are kept."
    )
    if any(site_is_there(site) for site in sites):
        text += " " + _("You first review the plan that removes live sites from their hosts.")
    context = {
        "form": form,
        "title": ngettext("Delete %d site?", "Delete %d sites?", count) % count,
        "text": text,
        "losses": [_loss(site) for site in sites],
        "action": request.get_full_path(),
        "cancel_url": reverse("websites:list"),
        "crumbs": [Crumb(_("Sites"), reverse("websites:list"))],
    }
    return render(request, "websites/confirm.html", context, status=422 if form.is_bound else 200)


def _loss(site: Site) -> str:
    words = {"site": site.name, "server": site.web_server}
    if site_is_live(site):
        return _("%(site)s, live on %(server)s") % words
    if site_is_there(site):
        return _("%(site)s, disabled on %(server)s") % words
    return _("%(site)s, not deployed") % words


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def bulk_move(request: Request) -> HttpResponse:
    """Move the sites in the query to one web server. Sites on hosts are moved by a plan; drafts change immediately."""
    require(request.user, Action.CHANGE)
    sites = _ticked(request, ticked(request, "site"))
    if not sites:
        return redirect("websites:list")
    form = SitesMoveForm(request.POST if request.method == "POST" else None)
    offer_web_servers(form, request.user)
    drafts = [site for site in sites if not site_is_there(site)]
    disabled = [site for site in sites if site_is_there(site) and not site_is_live(site)]
    if request.method == "POST" and form.is_valid():
        return _moved(request, sites, drafts, form.cleaned_data["web_server"])
    context = {
        "form": form,
        "sites": sites,
        "drafts": len(drafts),
        "deployed": len(sites) - len(drafts) - len(disabled),
        "disabled": disabled,
        "is_mixed": bool(disabled) and len(disabled) < len(sites),
        "title": ngettext("Move %d site", "Move %d sites", len(sites)) % len(sites),
        "crumbs": [Crumb(_("Sites"), reverse("websites:list"))],
    }
    return render(request, "websites/move.html", context, status=422 if form.is_bound else 200)


def _moved(request: Request, sites: list[Site], drafts: list[Site], web_server: WebServer) -> HttpResponse:
    words = ngettext("%(count)d draft now uses %(server)s.", "%(count)d drafts now use %(server)s.", len(drafts))
    done = words % {"count": len(drafts), "server": web_server}

    def work() -> list[Deployment]:
        plans = deployments.sites_move(actor=request.user, sites=sites, web_server=web_server)
        if plans and drafts:
            messages.success(request, done + " " + _("The plan below is for the other sites."))
        return plans

    return planned(request, work, request.get_full_path(), done, then=reverse("websites:list"))


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def bulk_tag(request: Request) -> HttpResponse:
    """Add tags to the sites in the query, or remove tags."""
    require(request.user, Action.CHANGE)
    sites = _ticked(request, ticked(request, "site"))
    if not sites:
        return redirect("websites:list")
    page = TagsPage(
        title=ngettext("Tags of %d site", "Tags of %d sites", len(sites)) % len(sites),
        lead=_("Tags do not affect the hosts, so no deployment is needed."),
        done=ngettext("Changed the tags of %d site.", "Changed the tags of %d sites.", len(sites)) % len(sites),
        back=Crumb(_("Sites"), reverse("websites:list")),
    )
    known = tags_counted(sites_visible(request.user))
    return tags_page(
        request, sites, page=page, known=known, change=partial(services.sites_tag, actor=request.user, sites=sites)
    )
