"""Page of the traffic counters of a host's web servers. Administrators only, because the
counters cover the sites of all teams.
"""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from panel.accounts.permissions import Action
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.hosts.traffic import host_traffic
from panel.hosts.views.pages import host_get
from panel.websites.selectors import sites_visible


@login_required
@require_safe
def traffic(request: Request, name: str) -> HttpResponse:
    """Show the traffic counters of a host's web servers, or only the part that refreshes every few seconds."""
    host = host_get(request, name, Action.ADMINISTER)
    sites = sites_visible(request.user).filter(web_server__host=host)
    context: dict[str, object] = {
        "host": host,
        "servers": sorted(host_traffic(host), key=lambda server: server.traffic is None),  # servers with counters first
        "names": set(sites.values_list("name", flat=True)),
        "crumbs": [
            Crumb(_("Hosts"), reverse("hosts:list")),
            Crumb(host.name, reverse("hosts:detail", args=[host.name])),
        ],
    }
    is_part = request.htmx and request.htmx.target == "traffic"
    return render(request, "hosts/traffic_live.html" if is_part else "hosts/traffic.html", context)
