"""Convert h2load's per-request log to a histogram that is compact, and precise enough for any percentile.

Each latency keeps its nine leading binary digits (like HDR histograms), so a percentile is off by less than 0.2 %. Very
long logs are sampled in evenly spaced blocks that include beginning and end; "sampled" in the result is the fraction of
the log that was read.
"""

from __future__ import annotations

import os
from typing import Any, BinaryIO, Iterator

_KEPT_BITS = 9
_BLOCK = 256 * 1024
MAX_READ_BYTES = 96 * 1024 * 1024  # about three million requests


def bucket(value_us: int) -> int:
    """Return the value that represents `value_us` in the histogram: the middle of all values with the same _KEPT_BITS
    leading binary digits. Values with at most _KEPT_BITS digits stay exact.
    """
    shift = value_us.bit_length() - _KEPT_BITS
    if shift <= 0:
        return value_us
    return (value_us >> shift << shift) + (1 << (shift - 1))


def from_h2load_log(path: str, limit: int = MAX_READ_BYTES) -> dict[str, Any]:
    r"""Count the completed requests in h2load's log, whose rows are `start (us since epoch) \t status \t duration in
    us`. Read at most about `limit` bytes of the log.

    Returns {"counts": [[us, n], ...], "statuses": {"200": n}, "max_us", "mean_us", "active_s", "sampled"}; {} if there
    is no log, or no row in it. `active_s` is the time from the start of the first request to the last response, which
    is shorter than planned if connections ended early. `sampled` is the fraction of the log that was read.
    """
    if not os.path.exists(path):
        return {}
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        return _counted(_rows(file, size, limit), min(1.0, limit / size) if size else 1.0)


def _rows(file: BinaryIO, size: int, limit: int) -> Iterator[bytes]:
    if size <= limit:
        yield from file
        return
    blocks = max(2, limit // _BLOCK)
    for number in range(blocks):
        at = (size - _BLOCK) * number // (blocks - 1)
        file.seek(at)
        lines = file.read(_BLOCK).split(b"\n")
        # The first and last rows of a block are incomplete, except at the ends of the file.
        yield from lines[1 if at else 0 : -1]


def _counted(rows: Iterator[bytes], share: float) -> dict[str, Any]:
    counts: dict[int, int] = {}
    statuses: dict[str, int] = {}
    total = answered = longest = last = 0
    first = None
    for line in rows:
        try:
            start, status, taken = (int(field) for field in line.split(b"\t")[:3])
        except ValueError:
            continue  # an incomplete last row after the tool was stopped
        statuses[str(status)] = statuses.get(str(status), 0) + 1
        if status == -1:
            continue  # a failed stream has no start time
        first = start if first is None or start < first else first
        last = max(last, start + taken)
        answered, total, longest = answered + 1, total + taken, max(longest, taken)
        kept = bucket(taken)
        counts[kept] = counts.get(kept, 0) + 1
    if not statuses:
        return {}
    return {
        "counts": [[value, counts[value]] for value in sorted(counts)],
        "statuses": statuses,
        "max_us": longest,
        "mean_us": round(total / answered, 3) if answered else None,
        "active_s": round((last - first) / 1e6, 6) if first is not None else 0.0,
        "sampled": round(share, 6),
    }
