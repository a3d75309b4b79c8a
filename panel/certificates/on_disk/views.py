"""Page of the certificates on a host's disk."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from panel.certificates.on_disk.selectors import certificates_of_host, lines, reading_of_host
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.hosts.views.common import administered
from panel.websites.views.base import page_of


@require_safe
def on_host(request: Request, name: str) -> HttpResponse:
    """Show every certificate that the last reading of the host found, the first to expire first."""
    host = administered(request, name)
    page = page_of(request, certificates_of_host(request.user, host))
    context = {
        "host": host,
        "page": page,
        "lines": lines(page.object_list),
        "reading": reading_of_host(request.user, host),
        "now": timezone.now(),
        "crumbs": [
            Crumb(_("Hosts"), reverse("hosts:list")),
            Crumb(host.name, reverse("hosts:detail", args=[host.name])),
        ],
    }
    return render(request, "certificates/on_host.html", context)
