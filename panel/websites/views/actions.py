"""Pages of a site for actions that lead to a deployment: move, delete, history. Users see a plan before a
host changes.
"""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_safe

from panel.accounts.permissions import Action
from panel.core.forms import ConfirmNameForm, attempt, form_status
from panel.core.http import Request
from panel.deployments.models import Deployment
from panel.deployments.planning import services as deployments
from panel.deployments.views.deployments import history_context, planned
from panel.hosts.forms import offer_web_servers
from panel.websites import services
from panel.websites.forms.sites import SiteServerForm
from panel.websites.models import Site
from panel.websites.selectors import site_again
from panel.websites.views.base import crumbs_below, saved, site_get, site_render

form_page = require_http_methods(["GET", "HEAD", "POST"])


def site_is_live(site: Site) -> bool:
    state = getattr(site, "state", None)
    return state is not None and state.revision_id is not None


def site_is_there(site: Site) -> bool:
    """Return whether the site is deployed on its host, or disabled with its files kept on the host."""
    state = getattr(site, "state", None)
    return state is not None and (state.revision_id or state.disabled_revision_id) is not None


@login_required
@form_page
def server(request: Request, name: str) -> HttpResponse:
    """Set the web server of a draft, or plan the move of a site that is on a host."""
    site = site_get(request, name, Action.CHANGE)
    form = SiteServerForm(
        request.POST or None, initial={"web_server": request.GET.get("web_server") or site.web_server_id}
    )
    offer_web_servers(form, request.user)
    is_live, is_there = site_is_live(site), site_is_there(site)
    if is_there:
        form.leave(site.web_server)
    if request.method == "POST" and form.is_valid():
        web_server = form.cleaned_data["web_server"]
        if is_there and web_server is None:
            form.add_error(
                "web_server",
                _("This site is disabled and still has files on its host. Choose the web server to move the site to."),
            )
        elif is_there:
            back = f"{reverse('websites:server', args=[site.name])}?web_server={web_server.pk}"
            version = form.cleaned_data["php_version"]

            def work() -> list[Deployment]:
                return deployments.site_move(actor=request.user, site=site, web_server=web_server, php_version=version)

            return planned(request, work, back)
        elif attempt(
            form, lambda: services.site_web_server_set(actor=request.user, site=site_again(site), web_server=web_server)
        ):
            words = {"site": site, "server": web_server or _("no web server yet")}
            return saved(request, "websites:detail", site, _("%(site)s now uses %(server)s.") % words)
    context = {"form": form, "is_live": is_live, "is_there": is_there, "status_code": form_status(form)}
    return site_render(request, site, "detail", "websites/server.html", **context)


@login_required
@form_page
def delete(request: Request, name: str) -> HttpResponse:
    site = site_get(request, name, Action.CHANGE)
    form = ConfirmNameForm(request.POST or None, expected=site.name)
    if request.method == "POST" and form.is_valid():

        def work() -> list[Deployment]:
            plan = deployments.site_delete(actor=request.user, site=site_again(site))
            return [plan] if plan else []

        return planned(request, work, reverse("websites:list"), _("The site %s was deleted.") % site.name)
    text = _("Paddock keeps the site's document root on the host.")
    if site_is_there(site):
        text += " " + _("You first review the plan that removes the site from its host.")
    context = {
        "form": form,
        "title": _("Delete the site %s?") % site.name,
        "losses": _losses(site),
        "text": text,
        "cancel_url": reverse("websites:detail", args=[site.name]),
        "crumbs": crumbs_below(site),
        "status_code": 422 if form.is_bound else 200,
    }
    return site_render(request, site, "detail", "websites/confirm.html", **context)


def _losses(site: Site) -> list[str]:
    losses = []
    blocks, revisions = site.blocks.count(), site.revisions.count()
    if blocks:
        words = ngettext("%d server block with its locations", "%d server blocks with their locations", blocks)
        losses.append(words % blocks)
    if revisions:
        words = ngettext("%d revision to roll back to", "%d revisions to roll back to", revisions)
        losses.append(words % revisions)
    if site_is_there(site):
        losses.append(_("The site's configuration on %s") % site.web_server)
    return losses


@login_required
@require_safe
def history(request: Request, name: str) -> HttpResponse:
    site = site_get(request, name)
    context = history_context(site)
    context.pop("site")
    return site_render(request, site, "history", "websites/history.html", **context)
