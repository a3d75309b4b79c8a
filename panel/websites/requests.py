"""Numbers of requests to a site by hour or day, which the host's agent counts in the site's own access logs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.utils import timezone
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.core.errors import ApplicationError
from panel.hosts.log_periods import CLASSES, Hour, log_period
from panel.websites.logs import log_roots, may_read, site_logs
from panel.websites.models import Site

MAX_HOURS = 31 * 24
_BY_DAY = 48  # a longer time is shown by day


@dataclass(frozen=True)
class SiteRequests:
    """Numbers of requests since `begin`, in steps of an hour or a day in the user's time zone, without gaps.

    `whole` is the sum of all steps. `logs` is the number of access logs in which the requests were counted;
    `is_complete` is False if a log was too long to be read completely.
    """

    begin: dt.datetime
    counted_at: dt.datetime
    by_day: bool
    steps: list[Hour]
    whole: Hour
    logs: int
    is_complete: bool


def site_requests(user: User, site: Site, hours: int) -> SiteRequests:
    """Return the numbers of requests to a site in the last `hours` hours (1 to MAX_HOURS), including the current hour.

    Raises ApplicationError for a site without a web server or access log. Raises PermissionDenied for a log at a path
    of another team. Errors of `log_period` are passed on.
    """
    if site.web_server is None:
        raise ApplicationError(_("%s has no web server yet, so it has no requests.") % site, field="web_server")
    logs = [log for log in site_logs(user, site) if log.key.startswith("access_log-")]
    if not logs:
        raise ApplicationError(
            _("%s has no access log of its own. Set an access log in a server block, and deploy the site.") % site
        )
    now = timezone.now()
    begin = now.replace(minute=0, second=0, microsecond=0) - dt.timedelta(hours=hours - 1)
    found = []
    for log in logs:
        may_read(user, site, log)
        found.append(log_period(site.web_server.host, log.path, roots=log_roots(site.web_server), begin=begin, end=now))
    rows = [row for period in found for row in period.hours if begin <= row.begin <= now]
    by_day = hours > _BY_DAY
    return SiteRequests(
        begin=begin,
        counted_at=now,
        by_day=by_day,
        steps=steps(rows, begin, now, by_day=by_day),
        whole=added(begin, rows),
        logs=len(logs),
        is_complete=all(period.is_complete for period in found),
    )


def steps(rows: Iterable[Hour], begin: dt.datetime, end: dt.datetime, *, by_day: bool) -> list[Hour]:
    """Add up `rows`, hourly numbers of requests, in steps of an hour, or of a day if `by_day`, from `begin` to `end`.

    Steps without requests are included. Days are those of the user's time zone.
    """
    start: Callable[[dt.datetime], dt.datetime] = _day if by_day else _hour
    found: dict[dt.datetime, list[Hour]] = {}
    at = begin
    while at <= end:
        found.setdefault(start(at), [])
        at += dt.timedelta(hours=1)
    for row in rows:
        found.setdefault(start(row.begin), []).append(row)
    return [added(at, found[at]) for at in sorted(found)]


def _hour(at: dt.datetime) -> dt.datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def _day(at: dt.datetime) -> dt.datetime:
    return timezone.localtime(at).replace(hour=0, minute=0, second=0, microsecond=0)


def added(begin: dt.datetime, rows: list[Hour]) -> Hour:
    """Return the sum of `rows`, hourly numbers of requests, as one Hour that begins at `begin`."""
    return Hour(
        begin,
        requests=sum(row.requests for row in rows),
        sent_bytes=sum(row.sent_bytes for row in rows),
        statuses={key: sum(row.statuses.get(key, 0) for row in rows) for key in CLASSES},
    )
