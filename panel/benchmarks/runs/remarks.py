"""Remarks on a round in addition to its figures: full PHP worker pools, hanging requests, an overloaded load tool. Pure
functions.
"""

from __future__ import annotations

import re

from panel.benchmarks.tools.parsers.metrics import Metrics

# Messages of php-fpm and lsphp when all children are busy and requests must wait.
_FULL = (
    (re.compile(r"server reached (?:pm\.)?max_children setting \((\d+)\)"), "php-fpm"),
    (re.compile(r"Reached max children process limit: (\d+)"), "lsphp"),
)
# A request this many times slower than the mean, and at least this many milliseconds long, was waiting rather than
# slow.
_TIMES, _AT_LEAST_MS = 20.0, 2000.0


def remarks(metrics: Metrics, server_log: str) -> list[str]:
    """Return remarks on a round, in sentences.
    `server_log` has the lines of the servers' logs since the previous round.
    """
    said = []
    for pattern, name in _FULL:
        found = pattern.search(server_log)
        if found:
            said.append(
                f"{name} reached its limit of {found[1]} children: “{found[0]}”. Requests waited for a free child."
            )
    if "tool_bound" in metrics.notes:
        said.append("The load generator was the bottleneck: it used or waited for its CPUs more than 90 % of the time.")
    longest, mean = metrics.latency_ms.max, metrics.latency_ms.mean
    if longest is not None and mean is not None and longest >= max(_AT_LEAST_MS, _TIMES * mean):
        said.append(f"Some requests hung: the longest took {longest / 1000:.1f} s, the average {mean:.0f} ms.")
    return said
