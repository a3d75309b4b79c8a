"""Times of weekly windows and freezes: whether changes are allowed at a moment, and the next moment at which they are
allowed. No I/O.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

AHEAD = dt.timedelta(days=400)
_DAY = dt.timedelta(days=1)


def zone_named(name: str) -> ZoneInfo | None:
    """Return the time zone with the IANA name `name`; None for an unknown name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


@dataclass(frozen=True)
class Freeze:
    """Period without changes, from `begins` (inclusive) to `ends` (exclusive)."""

    begins: dt.datetime
    ends: dt.datetime

    def covers(self, at: dt.datetime) -> bool:
        return self.begins <= at < self.ends


@dataclass(frozen=True)
class Weekly:
    """Weekly window: changes are allowed on `days` (0: Monday) from `opens` to `closes` in the time zone `zone`, past
    midnight if `closes` is earlier.
    """

    days: tuple[int, ...]
    opens: dt.time
    closes: dt.time
    zone: str = "UTC"

    def covers(self, at: dt.datetime) -> bool:
        return any(begins <= at < ends for begins, ends in self._around(at, 1))

    def openings(self, after: dt.datetime) -> Iterator[dt.datetime]:
        """Yield the times at which the window opens, from `after` on, for the period AHEAD."""
        for begins, _ends in self._around(after, AHEAD.days):
            if begins >= after:
                yield begins

    def _around(self, at: dt.datetime, days: int) -> Iterator[tuple[dt.datetime, dt.datetime]]:
        """Yield (beginning, end), in UTC, of each window that begins between a day before `at` and `days` days after
        it.

        Local times follow the zone's daylight saving time.
        """
        zone = zone_named(self.zone) or dt.UTC
        today = at.astimezone(zone).date()
        for number in range(-1, days + 1):
            day = today + number * _DAY
            if day.weekday() in self.days:
                last = day + _DAY if self.closes < self.opens else day
                begins = dt.datetime.combine(day, self.opens, zone)
                yield begins.astimezone(dt.UTC), dt.datetime.combine(last, self.closes, zone).astimezone(dt.UTC)


def is_open(times: Sequence[Weekly | Freeze], at: dt.datetime) -> bool:
    """Return whether changes are allowed at a moment: outside of all freezes and, if there are weekly windows, in one
    of them.
    """
    if any(item.covers(at) for item in times if isinstance(item, Freeze)):
        return False
    weekly = [item for item in times if isinstance(item, Weekly)]
    return not weekly or any(item.covers(at) for item in weekly)


def next_open(times: Sequence[Weekly | Freeze], at: dt.datetime) -> dt.datetime | None:
    """Return the first moment, `at` or later, at which changes are allowed; None if there is no such moment within 400
    days (AHEAD).
    """
    moments = {at, *(item.ends for item in times if isinstance(item, Freeze))}
    for item in times:
        if isinstance(item, Weekly):
            moments.update(item.openings(at))
    return next((moment for moment in sorted(moments) if moment >= at and is_open(times, moment)), None)
