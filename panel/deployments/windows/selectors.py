"""Selectors for change windows, and for hosts that they now close to changes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from panel.deployments.change_windows import ChangeWindow
from panel.deployments.windows.times import Freeze, is_open, next_open
from panel.hosts.models import Host


@dataclass(frozen=True)
class Closed:
    """A host that cannot be changed now, with the freezes or windows that forbid changes.
    `opens_at`: the next time at which changes are allowed; None if changes are forbidden for more than a year.
    """

    host: Host
    windows: list[ChangeWindow]
    opens_at: dt.datetime | None

    @property
    def words(self) -> str:
        names = ", ".join(f"“{window.name}”" for window in self.windows)
        if self.opens_at is None:
            return _(
                "%(host)s cannot be changed for more than a year because of the change windows and freezes %(names)s."
            ) % {
                "host": self.host.name,
                "names": names,
            }
        values = {"host": self.host.name, "names": names, "at": f"{self.opens_at:%Y-%m-%d %H:%M} UTC"}
        return (
            _("%(host)s cannot be changed before %(at)s because of the change windows and freezes %(names)s.") % values
        )


def change_windows() -> QuerySet[ChangeWindow]:
    """Return all change windows and freezes, in order of name; every user can read them."""
    return ChangeWindow.objects.all()


def windows_of(host: Host, rows: Iterable[ChangeWindow]) -> list[ChangeWindow]:
    """Return the change windows and freezes among `rows` that apply to the host: it has all of their tags."""
    own = set(host.tags)
    return [row for row in rows if own.issuperset(row.tags)]


def closed_hosts(hosts: Iterable[Host], at: dt.datetime | None = None) -> list[Closed]:
    """Return the hosts that cannot be changed at the moment `at` (default: now), with one query for all."""
    rows, moment, found = list(change_windows()), at or timezone.now(), []
    for host in dict.fromkeys(hosts) if rows else ():
        windows = windows_of(host, rows)
        times = [window.times for window in windows]
        if not is_open(times, moment):
            freezes = [row for row in windows if isinstance(row.times, Freeze) and row.times.covers(moment)]
            found.append(Closed(host, freezes or windows, next_open(times, moment)))
    return found
