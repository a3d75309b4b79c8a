"""Where a site runs."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from panel.accounts.permissions import Action
from panel.core.forms import attempt
from panel.core.http import Request
from panel.websites import services
from panel.websites.forms.sites import SiteServerForm
from panel.websites.models import Site
from panel.websites.views.base import site_get, site_render

form_page = require_http_methods(["GET", "HEAD", "POST"])


@login_required
@form_page
def server(request: Request, name: str) -> HttpResponse:
    """Choose the server of a site that stands on no host yet."""
    site = site_get(request, name, Action.CHANGE)
    form = SiteServerForm(request.POST or None, initial={"install": site.install_id})
    if request.method == "POST" and form.is_valid():
        install = form.cleaned_data["install"]
        target = Site.objects.select_related("team", "install__host").get(pk=site.pk)
        if attempt(form, lambda: services.site_install_set(actor=request.user, site=target, install=install)):
            words = {"site": site, "server": install or _("no server")}
            messages.success(request, _("%(site)s runs on %(server)s.") % words)
            return redirect("websites:detail", site.name)
    context = {"form": form, "is_live": False, "status_code": 422 if form.errors else 200}
    return site_render(request, site, "detail", "websites/server.html", **context)
