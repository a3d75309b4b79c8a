"""What the pages about one host of several apps begin with."""

from __future__ import annotations

from django.http import Http404

from panel.accounts.permissions import Action, require
from panel.core.http import Request
from panel.hosts.models import Host


def administered(request: Request, name: str) -> Host:
    """The whole host, secrets too, for administrators. Raises PermissionDenied or Http404."""
    require(request.user, Action.ADMINISTER)
    host = Host.objects.filter(name=name).first()
    if host is None:
        raise Http404
    return host
