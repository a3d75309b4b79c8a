"""Dates of cron expressions. Syntax and meaning are those of the library cronsim, which follows Debian's cron.
Five fields: minute, hour, day of the month, month, day of the week; `L` is the last day of a month, `5#2` its second
Friday. When clocks move forward, dates in the skipped hour come right after the change; when clocks move back, each
date comes once. Pure functions.
"""

from __future__ import annotations

import datetime as dt
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from panel.core.errors import ApplicationError

SHORTCUTS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
MOST_COUNTED = 1000  # limit of dates missed while the panel was down
# Names of the fields in cronsim.
_FIELDS = {
    "minute": ("minute", "0 to 59"),
    "hour": ("hour", "0 to 23"),
    "day-of-month": ("day of the month", "1 to 31, or L for the last day of the month"),
    "month": ("month", "1 to 12, or JAN to DEC"),
    "day-of-week": ("day of the week", "0 to 7, SUN to SAT, or 5#2 for the second Friday"),
}


def normal(expression: str) -> str:
    """Return a cron expression with single spaces; a shortcut such as `@daily` becomes the five fields.
    ApplicationError with field `cron` if the expression is invalid.
    """
    words = " ".join(expression.split())
    text = SHORTCUTS.get(words.lower(), words)
    count = len(text.split(" ")) if text else 0
    if count != 5:
        names = ", ".join(name for name, _values in _FIELDS.values())
        raise ApplicationError(
            f"Enter five fields ({names}), for example 30 2 * * 1; you entered {count}.", field="cron"
        )
    try:
        next(CronSim(text, dt.datetime(2024, 1, 1, tzinfo=dt.UTC)))
    except CronSimError as error:
        name, values = _FIELDS[str(error).removeprefix("Bad ")]
        words = f"The field “{name}” is not valid. Enter * or {values}; 1,15 or 1-5 or */10 also work."
        raise ApplicationError(words, field="cron") from error
    except StopIteration as error:
        words = "This date never occurs, because the month does not have that day. Choose another day or month."
        raise ApplicationError(words, field="cron") from error
    return text


def explained(expression: str) -> str:
    """Explain a cron expression in words: `At 02:30 on Monday`. ApplicationError as in `normal`."""
    return CronSim(normal(expression), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)).explain()


def following(expression: str, zone: str, after: dt.datetime, count: int) -> list[dt.datetime]:
    """Return the next `count` dates after `after`, in UTC, of a cron expression in the time zone `zone`."""
    dates = CronSim(normal(expression), after.astimezone(ZoneInfo(zone)))
    return [date.astimezone(dt.UTC) for date in islice(dates, count)]


def next_date(expression: str, zone: str, after: dt.datetime) -> dt.datetime:
    """Return the next date of a cron expression after `after`, in UTC; ApplicationError if the next fifty years have
    none.
    """
    dates = following(expression, zone, after, 1)
    if not dates:
        raise ApplicationError("This schedule has no date in the next 50 years. Choose other dates.", field="cron")
    return dates[0]


def passed(expression: str, zone: str, first: dt.datetime, now: dt.datetime) -> list[dt.datetime]:
    """Return the date `first` of a cron expression, and its dates after `first` up to `now`, in order.
    Of the dates after `first`, only the newest MOST_COUNTED are returned.
    """
    backwards = CronSim(normal(expression), now.astimezone(ZoneInfo(zone)) + dt.timedelta(minutes=1), reverse=True)
    found = []
    for date in islice(backwards, MOST_COUNTED):
        moment = date.astimezone(dt.UTC)
        if moment <= first:
            break
        if moment <= now:
            found.append(moment)
    return [first, *reversed(found)]
