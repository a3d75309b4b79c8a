"""h2load's per-request log as a histogram: small enough to keep, exact enough to take any percentile from.

Each latency keeps its nine leading binary digits (as HDR histograms do), so a percentile is off by less than 0.2 %.
"""

from __future__ import annotations

import os
from typing import Any

_KEPT_BITS = 9


def bucket(value_us: int) -> int:
    """The middle of the range of values that share `value_us`'s leading digits; itself when it is short."""
    shift = value_us.bit_length() - _KEPT_BITS
    if shift <= 0:
        return value_us
    return (value_us >> shift << shift) + (1 << (shift - 1))


def from_h2load_log(path: str) -> dict[str, Any]:
    """Rows `start (us since epoch) \\t status \\t us until the end of the answer` -> counts of answered requests.

    {"counts": [[us, n], ...], "statuses": {"200": n}, "max_us", "mean_us", "active_s"}; {} when there is no log.
    `active_s` runs from the first request's start to the last answer: shorter than the load was meant to be
    when connections ended early.
    """
    counts: dict[int, int] = {}
    statuses: dict[str, int] = {}
    total = answered = longest = last = 0
    first = None
    if not os.path.exists(path):
        return {}
    with open(path, encoding="ascii", errors="replace") as file:
        for line in file:
            try:
                start, status, taken = (int(field) for field in line.split("\t")[:3])
            except ValueError:
                continue  # a last row cut short by the end of the tool
            statuses[str(status)] = statuses.get(str(status), 0) + 1
            if status == -1:
                continue  # a stream that failed has no start either
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
    }
