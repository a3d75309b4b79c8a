"""Helper of pages about one host, shared by several apps."""

from __future__ import annotations

from django.http import Http404

from panel.accounts.permissions import Action, require
from panel.core.http import Request
from panel.hosts.models import Host
from panel.hosts.selectors import host_with_secrets


def administered(request: Request, name: str) -> Host:
    """Return the host with a name, including its secrets. Raises PermissionDenied unless the user is an administrator,
    and Http404 for an unknown name.
    """
    require(request.user, Action.ADMINISTER)
    host = host_with_secrets(name)
    if host is None:
        raise Http404
    return host
