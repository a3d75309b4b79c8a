"""One query that tells which kinds of alerts exist for anyone, because most installations have few of them.

Each source of alerts names the rows that it reads, without the user's access: `found_in`. A source whose rows do not
exist has no alerts for any user, and its own query, which costs several times as much, is not made.
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
    """The hour for which a query is built. It must find what a source can have an alert about at any time in it."""

    begins: dt.datetime

    @property
    def ends(self) -> dt.datetime:
        return self.begins + _HOUR


Rows = Callable[[Hour], QuerySet[Any]]
_ROWS: dict[Source, Rows] = {}


def found_in(rows: Rows) -> Callable[[Source], Source]:
    """Decorator of a source: all rows, of every team, about which it can have an alert."""

    def remember(source: Source) -> Source:
        _ROWS[source] = rows
        return source

    return remember


def existing(sources: Sequence[Source]) -> list[Source]:
    """Those of these sources that can have alerts now, in the same order."""
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
    """One query with a truth value for each source. Kept for its hour: building it takes as long as ten others."""
    parts = [_ROWS[source](Hour(begins)).query.exists().sql_with_params() for source in sources]
    return (
        "SELECT " + ", ".join(f"EXISTS({sql})" for sql, _values in parts),
        tuple(value for _sql, values in parts for value in values),
    )
