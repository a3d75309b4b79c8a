"""Page of a host's resources: the last reading, problems, and charts."""

from __future__ import annotations

import datetime as dt

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from panel.core.http import Request
from panel.core.ui import Crumb
from panel.hosts.resources import pictures, selectors
from panel.hosts.views.pages import host_get

SPANS = {
    "day": (dt.timedelta(days=1), gettext_lazy("24 hours")),
    "week": (dt.timedelta(days=7), gettext_lazy("7 days")),
    "fortnight": (dt.timedelta(days=14), gettext_lazy("14 days")),
}


@login_required
@require_safe
def resources(request: Request, name: str) -> HttpResponse:
    host = host_get(request, name)
    span = request.GET.get("span", "")
    span = span if span in SPANS else "day"
    context = {
        "host": host,
        "reading": selectors.last_reading(host),
        "is_current": selectors.is_current(host),
        "troubles": selectors.host_troubles(host),
        "span": span,
        "spans": [(name, label) for name, (_length, label) in SPANS.items()],
        "charts": pictures.charts(selectors.history(host, timezone.now() - SPANS[span][0])),
        "crumbs": [
            Crumb(_("Hosts"), reverse("hosts:list")),
            Crumb(host.name, reverse("hosts:detail", args=[host.name])),
        ],
    }
    return render(request, "hosts/resources.html", context)
