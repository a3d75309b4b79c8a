"""The names of time zones."""

from __future__ import annotations

import functools
import zoneinfo


@functools.cache
def time_zones() -> frozenset[str]:
    """All that this machine knows. The standard library opens six hundred files each time that it is asked, which took
    10 ms of each page with a choice of them; those that a new tzdata brings are there after a restart."""
    return frozenset(zoneinfo.available_timezones())
