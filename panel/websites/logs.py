"""Logs of a site on its host, and the permission to read them."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import Action, may
from panel.core.errors import ApplicationError
from panel.hosts.log_periods import LogPeriod
from panel.hosts.logs import Log, Search, log_search, log_tail
from panel.hosts.models import WebServer
from panel.websites import paths
from panel.websites.models import Site


def site_logs(user: User, site: Site) -> list[Log]:
    """Return the logs of a site that the user may read. Only administrators get the web server's shared logs, which
    contain visitors of other teams.
    """
    found: list[Log] = []
    for number, block in enumerate(site.blocks.all(), start=1):
        for kind, label in (("access_log", _("Access log")), ("error_log", _("Error log"))):
            path = getattr(block, kind)
            if path and path != "off" and path not in {log.path for log in found}:
                found.append(
                    Log(f"{kind}-{block.pk}", _("%(log)s of server block %(n)d") % {"log": label, "n": number}, path)
                )
    folder = site.web_server.paths.get("log_dir") if site.web_server else ""
    if folder and may(user, Action.ADMINISTER):
        found += [
            Log("server-access", _("The web server's access log"), f"{folder.rstrip('/')}/access.log"),
            Log("server-error", _("The web server's error log"), f"{folder.rstrip('/')}/error.log"),
        ]
    return found


def log_roots(web_server: WebServer) -> list[str]:
    """Return the folders on the host in which logs may be read."""
    return [root for root in [*web_server.host.site_roots, web_server.paths.get("log_dir", "")] if root]


def may_read(user: User, site: Site, log: Log) -> WebServer:
    """Return the site's web server if the user may read `log`, a log from `site_logs`.

    Raises ApplicationError for a site without a web server. Raises PermissionDenied if the log's path is, contains, or
    is inside a path of another team. This check is necessary although paths are checked when a site is saved, because
    older versions of the panel saved sites without checking their paths.
    """
    if site.web_server is None:
        raise ApplicationError(_("%s has no web server yet, so it has no logs.") % site, field="web_server")
    host = site.web_server.host
    if not may(user, Action.ADMINISTER) and paths.foreign_paths([log.path], site.team, host):
        raise PermissionDenied(paths.refusal(log.path, host))
    return site.web_server


def site_log_tail(user: User, site: Site, log: Log, *, lines: int) -> list[str]:
    """Return at most `lines` lines from the end of a log of `site_logs`. Raises the errors of `may_read` and
    `log_tail`.
    """
    web_server = may_read(user, site, log)
    return log_tail(web_server.host, log.path, roots=log_roots(web_server), lines=lines)


def site_log_search(user: User, site: Site, log: Log, wanted: Search) -> LogPeriod:
    """Return the lines of a log of `site_logs` that match a search on a day. Raises the errors of `may_read` and
    `log_period`.
    """
    web_server = may_read(user, site, log)
    return log_search(web_server.host, log.path, log_roots(web_server), wanted)
