"""Which logs on its host belong to a site."""

from __future__ import annotations

from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import Action, may
from panel.hosts.logs import Log
from panel.hosts.models import EngineInstall
from panel.websites.models import Site


def site_logs(user: User, site: Site) -> list[Log]:
    """The site's own logs. A server's common logs hold other teams' visitors, so they are for administrators."""
    found: list[Log] = []
    for number, block in enumerate(site.blocks.all(), start=1):
        for kind, label in (("access_log", _("Access log")), ("error_log", _("Error log"))):
            path = getattr(block, kind)
            if path and path != "off" and path not in {log.path for log in found}:
                found.append(Log(f"{kind}-{block.pk}", _("%(log)s of block %(n)d") % {"log": label, "n": number}, path))
    folder = site.install.paths.get("log_dir") if site.install else ""
    if folder and may(user, Action.ADMINISTER):
        found += [
            Log("server-access", _("The server's access log"), f"{folder.rstrip('/')}/access.log"),
            Log("server-error", _("The server's error log"), f"{folder.rstrip('/')}/error.log"),
        ]
    return found


def log_roots(install: EngineInstall) -> list[str]:
    """The folders on the host that a log may lie in."""
    return [root for root in [*install.host.site_roots, install.paths.get("log_dir", "")] if root]
