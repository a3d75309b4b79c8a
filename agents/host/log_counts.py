"""Count the responses in a site's access log before and after a point in time. Only the end of the log is read.

Gates of a rollout compare the two counts. Visitors write these lines, so a visitor can influence the counts. Paddock's
own requests do not count.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import re
import threading
import time
from typing import Any

from agents.host import paths, probe
from agents.host.errors import Refusal
from agents.host.operations import Emit

MAX_LOGS = 100
MAX_BYTES = 4 * 1024 * 1024
_STATUS = re.compile(rb'" (\d{3}) |"status":"?(\d{3})')
_CLOCK = re.compile(rb'\[(\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4})\]|"time":"([0-9T:+-]{19,25})"')
# the last field of the format `timed` (seconds on nginx, milliseconds on Apache), and the fields of the JSON formats
_SECONDS = re.compile(rb'" (\d+\.\d{3})$|"seconds":(\d+\.\d+)')
_MILLISECONDS = re.compile(rb'" (\d+)$|"milliseconds":(\d+)')


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Count the responses in access logs before and after a point in time: `ago_s` seconds ago, by this host's own
    clock.

    {"logs": [{"path", "roots"}], "ago_s"} -> {"counts": [{"before", "after"} for each log]}. "before" and "after" are
    each {"requests", "errors", "p99_ms"}, where "p99_ms" is None if the log has no response times.
    """
    logs, ago_s = args.get("logs"), args.get("ago_s")
    if not isinstance(logs, list) or len(logs) > MAX_LOGS or not isinstance(ago_s, (int, float)):
        raise Refusal("invalid", "logs is a list of at most %d, and ago_s a number of seconds" % MAX_LOGS)
    since = time.time() - ago_s
    return {"counts": [counts(str(log["path"]), log["roots"], since) for log in logs]}


def counts(path: str, roots: list[str], since: float) -> dict[str, Any]:
    """Return {"before", "after"} as in `run` for the log at `path`: the responses before and after the Unix time
    `since`. All counts are 0 if the log cannot be read.
    """
    before, after = _Part(), _Part()
    for line in _lines(path, roots):
        status, at = _status(line), _time(line)
        if status and at is not None and probe.AGENT not in line:
            # The log has whole seconds: requests of the second of the change itself belong to neither part.
            part = after if at > since else before if at < math.floor(since) else None
            if part is not None:
                part.add(status, line)
    return {"before": before.shown(), "after": after.shown()}


def _lines(path: str, roots: list[str]) -> list[bytes]:
    try:
        descriptor = paths.open_file(paths.resolve(path, paths.resolve_roots(roots)))
    except (OSError, Refusal):
        return []
    try:
        size = os.fstat(descriptor).st_size
        data = os.pread(descriptor, MAX_BYTES, max(0, size - MAX_BYTES))
    except OSError:
        return []
    finally:
        os.close(descriptor)
    return data.split(b"\n")[1 if size > MAX_BYTES else 0 :]


class _Part:
    def __init__(self) -> None:
        self.requests = 0
        self.errors = 0
        self.times: list[float] = []

    def add(self, status: int, line: bytes) -> None:
        self.requests += 1
        self.errors += status >= 500
        took = _took_ms(line)
        if took is not None:
            self.times.append(took)

    def shown(self) -> dict[str, Any]:
        times = sorted(self.times)
        p99 = times[max(0, math.ceil(len(times) * 0.99) - 1)] if times else None
        return {"requests": self.requests, "errors": self.errors, "p99_ms": p99}


def _status(line: bytes) -> int:
    found = _STATUS.search(line)
    return int(found.group(1) or found.group(2)) if found else 0


def _time(line: bytes) -> float | None:
    found = _CLOCK.search(line)
    if not found:
        return None
    try:
        if found.group(1):
            return dt.datetime.strptime(found.group(1).decode(), "%d/%b/%Y:%H:%M:%S %z").timestamp()
        text = re.sub(r"([+-]\d\d):(\d\d)$", r"\1\2", found.group(2).decode())
        return dt.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except ValueError:
        return None


def _took_ms(line: bytes) -> float | None:
    seconds = _SECONDS.search(line)
    if seconds:
        return float(seconds.group(1) or seconds.group(2)) * 1000
    whole = _MILLISECONDS.search(line)
    return float(whole.group(1) or whole.group(2)) if whole else None
