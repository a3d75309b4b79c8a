"""What is to be said about a round beside its figures: full pools of workers, single requests that hang,
a load tool that could not keep up. Pure."""

from __future__ import annotations

import re

from panel.benchmarks.tools.parsers.metrics import Metrics

# What php-fpm and lsphp write when all children are busy; requests then wait for one.
_FULL = (
    (re.compile(r"server reached (?:pm\.)?max_children setting \((\d+)\)"), "php-fpm"),
    (re.compile(r"Reached max children process limit: (\d+)"), "lsphp"),
)
# A request that took so much longer than the mean one, and so many milliseconds, was not slow but waiting.
_TIMES, _AT_LEAST_MS = 20.0, 2000.0


def remarks(metrics: Metrics, server_log: str) -> list[str]:
    """`server_log`: what the servers wrote to their error logs since the round before."""
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
