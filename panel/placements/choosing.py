"""Choice of the web servers on which the copies of a placement's site run."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from panel.core.tags import with_tags
from panel.hosts.models import Host, WebServer
from panel.placements.models import Placement


@dataclass(frozen=True)
class Target:
    """A host of a placement, with the web server for the copy of the site.
    `web_server` is None if Paddock cannot choose one; `problem` is then the reason.
    """

    host: Host
    web_server: WebServer | None
    problem: str = ""


def targets(placement: Placement) -> list[Target]:
    """Return the hosts that have all tags of the placement, except the host of the site itself, by name."""
    own = placement.site.web_server
    hosts = with_tags(Host.objects.prefetch_related("web_servers"), placement.tags).order_by("name")
    hosts = hosts.prefetch_related("teams")
    team = placement.site.team
    return [_target(host, own) for host in hosts if (own is None or host.pk != own.host_id) and host.permits(team)]


def _target(host: Host, own: WebServer | None) -> Target:
    """Choose the host's web server of the same kind as the site's; if there is none, the host's only web server."""
    found = list(host.web_servers.all())
    alike = [item for item in found if own is not None and (item.engine, item.label) == (own.engine, own.label)]
    alike = alike or [item for item in found if own is not None and item.engine == own.engine]
    if len(alike) == 1:
        return Target(host, alike[0])
    if len(found) == 1:
        return Target(host, found[0])
    if not found:
        return Target(host, None, _("The host has no web server."))
    if own is None:
        return Target(host, None, _("The host has several web servers. Choose a web server for the site first."))
    return Target(
        host,
        None,
        _("The host has no %s and several other web servers, so Paddock cannot choose a web server.")
        % own.get_engine_display(),
    )
