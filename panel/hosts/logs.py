"""Read the last lines of a log on a host, or search one day of a log. The agent reads only below folders that the panel
names.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils import timezone
from django.utils.translation import gettext as _

from panel.hosts.log_periods import LogPeriod, log_period
from panel.hosts.models import Host, WebServer
from panel.hosts.targets import target_for
from panel.remote import pool

TIMEOUT_S = 8.0


@dataclass(frozen=True)
class Log:
    """A log that users can choose: `key` names it in URLs, which contain no paths."""

    key: str
    label: str
    path: str


@dataclass(frozen=True)
class ServerLog(Log):
    """An access or error log that a web server writes for all sites; `root` is its folder."""

    root: str


def _server_words(web_server: WebServer) -> str:
    """Return the name of a web server, with its label in parentheses unless the label is "default"."""
    label = "" if web_server.label == "default" else f" ({web_server.label})"
    return f"{web_server.get_engine_display()}{label}"


def host_logs(host: Host) -> list[ServerLog]:
    """Return the access and error logs of a host's web servers. Administrators only, because the logs cover the sites
    of all teams.
    """
    found = []
    for web_server in host.web_servers.all():
        root = web_server.paths.get("log_dir", "")
        for kind, label in (("error", _("error log")), ("access", _("access log"))):
            if root:
                name = f"{_server_words(web_server)} {label}"
                found.append(ServerLog(f"{kind}-{web_server.pk}", name, f"{root.rstrip('/')}/{kind}.log", root))
    return found


def host_log_tail(host: Host, log: ServerLog, *, lines: int = 200) -> list[str]:
    """Return at most `lines` lines from the end of `log`, one of `host_logs`. Raises the same errors as `log_tail`."""
    return log_tail(Host.objects.get(pk=host.pk), log.path, roots=[log.root], lines=lines)


def log_tail(host: Host, path: str, *, roots: Sequence[str], lines: int = 200) -> list[str]:
    """Return at most `lines` whole lines from the end of `path`, which must be below one of `roots` on the host.

    Raises RemoteError, with the host's own message if the host refuses to read the log; Conflict if the host key
    changed.
    """
    with pool.session(target_for(host)) as session:
        answer = session.call("tail", {"path": path, "roots": list(roots), "lines": lines}, timeout=TIMEOUT_S)
    found: list[str] = answer["lines"]
    return found


@dataclass(frozen=True)
class Search:
    """Search in a log: find the newest `most` lines of the day `day` that contain `text`, ignoring case. The day is in
    Django's current time zone.
    """

    day: dt.date
    text: str = ""
    most: int = 200


def log_search(host: Host, path: str, roots: Sequence[str], wanted: Search) -> LogPeriod:
    """Search a log and its rotated files; return the result. Raises the same errors as `log_period`."""
    begin = timezone.make_aware(dt.datetime.combine(wanted.day, dt.time()))
    end = timezone.make_aware(dt.datetime.combine(wanted.day + dt.timedelta(days=1), dt.time()))
    return log_period(host, path, roots=roots, begin=begin, end=end, text=wanted.text, most=wanted.most)


def host_log_search(host: Host, log: ServerLog, wanted: Search) -> LogPeriod:
    """Search `log`, one of `host_logs`; return the result. Raises the same errors as `log_period`."""
    return log_search(Host.objects.get(pk=host.pk), log.path, [log.root], wanted)
