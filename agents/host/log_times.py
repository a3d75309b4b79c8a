"""Read the time of a line in a web server's access or error log."""

from __future__ import annotations

import datetime as dt
import functools
import re

# nginx, Apache, and OpenLiteSpeed: access logs; the JSON formats; the error logs of nginx, OpenLiteSpeed, and Apache.
_TIME = re.compile(
    rb"\[(?P<common>\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4})\]"
    rb'|"time":"(?P<iso>\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}[+-]\d{2}:?\d{2})"'
    rb"|^(?P<nginx>\d{4}/\d{2}/\d{2} \d{2}:\d{2}:\d{2})"
    rb"|^(?P<openlitespeed>\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2})"
    rb"|^\[[A-Z][a-z]{2} (?P<apache>[A-Z][a-z]{2} \d{2} \d{2}:\d{2}:\d{2})(?:\.\d+)? (?P<year>\d{4})\]"
)
_LONGEST_START = 512  # bytes of a line in which its time is searched; an access log's time follows the user name
_FORMATS = {
    "common": "%d/%b/%Y:%H:%M:%S %z",
    "iso": "%Y-%m-%dT%H:%M:%S%z",
    "nginx": "%Y/%m/%d %H:%M:%S",
    "openlitespeed": "%Y-%m-%d %H:%M:%S",
    "apache": "%b %d %H:%M:%S %Y",
}


def time_of(line: bytes) -> float | None:
    """Return the time at which a log line was written, in seconds since the epoch; None if the line has no known time.

    Times in error logs have no time zone; they are read as times in this host's time zone.
    """
    found = _TIME.search(line[:_LONGEST_START])
    if found is None:
        return None
    kind = found.lastgroup or ""
    if kind == "year":
        return _parsed("apache", found.group("apache") + b" " + found.group("year"))
    return _parsed(kind, found.group(kind))


@functools.lru_cache(maxsize=4096)  # lines of the same second share their time
def _parsed(kind: str, text: bytes) -> float | None:
    words = text.decode("ascii")
    if kind == "iso":
        words = re.sub(r"([+-]\d\d):(\d\d)$", r"\1\2", words)
    try:
        return dt.datetime.strptime(words, _FORMATS[kind]).timestamp()
    except (ValueError, OverflowError):
        return None
