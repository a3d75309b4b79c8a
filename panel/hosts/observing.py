"""Rules for observations of hosts that are recent enough to be shown as the current state."""

from __future__ import annotations

import datetime as dt

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from panel.hosts.models import Host, HostStatus, WebServer

# The panel checks every watched host, and its sites, at least every minute. Older observations are out of date.
STALE_AFTER = dt.timedelta(minutes=5)
STALE_WHEN_PAUSED = dt.timedelta(minutes=1)  # the panel does not watch a paused host
UNOBSERVED = "unobserved"  # beside the values of HostStatus, in filters


def is_recent(observed_at: dt.datetime | None, *, is_paused: bool) -> bool:
    """Return whether an observation of a host or of its sites is recent enough to be shown as the current state."""
    age = STALE_WHEN_PAUSED if is_paused else STALE_AFTER
    return observed_at is not None and timezone.now() - observed_at < age


def recent(column: str, host: str = "") -> Q:
    """Return a query condition: the time in the field `column` is recent, as `is_recent` defines it. `host` is the
    lookup prefix of the host's fields, for example "web_server__host__".
    """
    now = timezone.now()
    unpaused = Q(**{f"{column}__gt": now - STALE_AFTER, f"{host}is_paused": False})
    return unpaused | Q(**{f"{column}__gt": now - STALE_WHEN_PAUSED})


def is_observed(host: Host) -> bool:
    """Return whether the host responded to a recent check. A ready host without a recorded time of a check counts as
    observed.
    """
    if host.status != HostStatus.READY:
        return False
    return host.last_seen_at is None or is_recent(host.last_seen_at, is_paused=host.is_paused)


def observed() -> Q:
    """Return a query condition for hosts that responded to a recent check (see `is_observed`)."""
    return Q(status=HostStatus.READY) & (Q(last_seen_at=None) | recent("last_seen_at"))


def host_status(host: Host) -> tuple[str, str]:
    """Return (status, label for pages) of a host. The status is "unknown" for a ready host that was not checked
    recently.
    """
    if host.status == HostStatus.READY and not is_observed(host):
        return "unknown", _("Not observed")
    return str(host.status), str(host.get_status_display())


def web_server_state(web_server: WebServer) -> str:
    """Return "running" or "stopped"; "unknown" if its host does not respond or was not checked recently."""
    if not is_observed(web_server.host):
        return "unknown"
    return "running" if web_server.is_running else "stopped"
