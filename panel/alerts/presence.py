"""Find by one query which sources of alerts (functions that return alerts) can have any alerts.

Most installations have few alerts, and the query of one source costs several times as much as its part of this query.
So a source is called only if this query finds rows that can cause its alerts. `found_in` registers the query of these
rows, of every team, for a source.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from panel.alerts.kinds import Source

_HOUR = dt.timedelta(hours=1)


@dataclass(frozen=True)
class Hour:
    """An hour for which `existing` builds and caches its query.
    The query must find all rows that can cause an alert at any time in this hour.
    """

    begins: dt.datetime

    @property
    def ends(self) -> dt.datetime:
        return self.begins + _HOUR


Rows = Callable[[Hour], QuerySet[Any]]
_ROWS: dict[Source, Rows] = {}


def found_in(rows: Rows) -> Callable[[Source], Source]:
    """Return a decorator that registers a source of alerts (a function that returns alerts).
    `rows` returns the query of all rows, of every team, that can cause alerts of the source in an Hour.
    """

    def remember(source: Source) -> Source:
        _ROWS[source] = rows
        return source

    return remember


def existing(sources: Sequence[Source]) -> list[Source]:
    """Return those of `sources` (functions that return alerts) that can have alerts for any user now, in the order
    given.
    Sources that are not registered by `found_in` are always included.
    """
    now = timezone.now()
    hour = now.replace(minute=0, second=0, microsecond=0)
    known = tuple(source for source in sources if source in _ROWS)
    sql, values = _query(connection.vendor, known, hour)
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        found = dict(zip(known, cursor.fetchone() or (), strict=True))
    return [source for source in sources if found.get(source, True)]


@lru_cache(maxsize=8)
def _query(_vendor: str, sources: tuple[Source, ...], begins: dt.datetime) -> tuple[str, tuple[Any, ...]]:
    """Return the SQL of one query with an EXISTS column for each of `sources`, and the parameters of the SQL.
    Both are cached for the hour that starts at `begins`, because building the query takes as long as ten other queries.
    """
    parts = [_ROWS[source](Hour(begins)).query.exists().sql_with_params() for source in sources]
    return (
        "SELECT " + ", ".join(f"EXISTS({sql})" for sql, _values in parts),
        tuple(value for _sql, values in parts for value in values),
    )
