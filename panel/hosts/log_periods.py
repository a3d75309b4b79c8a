"""Search a log on a host for the lines of a period, and count its requests per hour. The agent on the
host does both.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from panel.hosts.models import Host
from panel.hosts.targets import target_for
from panel.remote import pool
from panel.remote.errors import RemoteError

TIMEOUT_S = 30.0  # the agent stops after 20 s and reports what it has
MOST_LINES = 1000
CLASSES = "12345"


@dataclass(frozen=True)
class Hour:
    """Requests of one hour in a log: their number, the bytes of the response bodies (with headers in Apache's logs),
    and their number by the first digit of the status.
    """

    begin: dt.datetime
    requests: int = 0
    sent_bytes: int = 0
    statuses: dict[str, int] = field(default_factory=dict)  # {"2": 200 to 299, ...}


@dataclass(frozen=True)
class LogPeriod:
    """Result of a search in a log. `matching` is the number of matching lines, and `lines` are the newest of them.
    `is_complete` is False if a limit ended the search early.
    """

    lines: list[str]
    matching: int
    hours: list[Hour]
    is_complete: bool


def log_period(
    host: Host,
    path: str,
    *,
    roots: Sequence[str],
    begin: dt.datetime,
    end: dt.datetime,
    text: str = "",
    most: int = 0,
) -> LogPeriod:
    """Search a log and its rotated files between two times. Return the newest lines that contain `text`, at most
    `most`, and the number of all requests per hour. The log must be below one of `roots`, folders on the host.

    Raises RemoteError, with the host's own message if the host refuses to read the log; Conflict if the host key
    changed.
    """
    args = {"path": path, "roots": list(roots), "text": text, "most": most}
    args |= {"begin": begin.timestamp(), "end": end.timestamp()}
    with pool.session(target_for(host)) as session:
        answer = session.call("log_period", args, timeout=TIMEOUT_S)
    try:
        return LogPeriod(
            lines=[str(line) for line in answer["lines"]][:MOST_LINES],
            matching=max(0, int(answer["matching"])),
            hours=[_hour(row) for row in answer["hours"]][: 33 * 24],
            is_complete=answer["is_complete"] is True,
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError) as error:
        raise RemoteError(_("The agent on %s sent a result that is not valid. Check the host again.") % host) from error


def _hour(row: Any) -> Hour:
    return Hour(
        begin=dt.datetime.fromtimestamp(int(row["begin"]), dt.UTC),
        requests=max(0, int(row["requests"])),
        sent_bytes=max(0, int(row["bytes"])),
        statuses={key: max(0, int(row["statuses"].get(key, 0))) for key in CLASSES},
    )
