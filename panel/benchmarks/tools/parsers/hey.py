"""Parser for hey 0.1.4: the JSON and the failures that the report template in commands.py prints. Times are in
seconds.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from panel.benchmarks.tools.parsers.metrics import Latency, Metrics, Output, ParseError, little

# hey lets one response stand for one percentile only, so with fewer responses each percentile takes the place of a
# higher one (report.go). The percentiles are 10, 25, 50, 75, 90, 95 and 99: the smallest gap is 4.
_LEAST_FOR_PERCENTILES = 25
_MOST_KEPT = 1_000_000
_RESOLUTION_MS = 0.001


def parse(output: Output) -> Metrics:
    """Return the figures of hey's report. `bytes` is None, because hey only adds up the Content-Length of responses."""
    report, _, failures = output.stdout.partition("\n")
    try:
        values = json.loads(report)
        requests, kept, seconds = int(values["requests"]), int(values["kept"]), float(values["seconds"])
        statuses = {int(status): int(count) for status, count in (values["statuses"] or {}).items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ParseError(f"hey printed no result: {output.last_words()}") from None
    if kept < requests and kept >= _MOST_KEPT:
        raise ParseError(
            f"hey keeps {_MOST_KEPT:,} responses, and this round had {requests:,} requests, so its latencies are those "
            "of the first part of the round. Use a shorter round, or choose wrk or h2load."
        )
    latency, curve = _latency(values, kept)
    rate = kept / seconds
    return Metrics(
        requests=requests,
        failed=requests - kept,
        non2xx=sum(count for status, count in statuses.items() if not 200 <= status < 300),
        bytes=None,
        duration_s=seconds,
        throughput_rps=rate,
        latency_ms=latency,
        curve=curve,
        errors=_errors(failures),
        achieved_concurrency=little(rate, latency.mean),
    )


def _errors(text: str) -> dict[str, int]:
    """Return the number of failed requests for each reason, from lines `count message`. The reason is the last part of
    Go's message; the other parts contain addresses and ports, which differ between requests with the same reason.
    """
    found: Counter[str] = Counter()
    for line in text.splitlines():
        count, _, message = line.partition(" ")
        if count.isdecimal():
            found[message.rpartition(": ")[2].lower()] += int(count)
    return dict(found)


def _latency(values: dict[str, Any], answered: int) -> tuple[Latency, list[list[float]]]:
    if not answered:
        return Latency(resolution=_RESOLUTION_MS), []
    points: dict[int, float] = {}
    if answered >= _LEAST_FOR_PERCENTILES:
        # A percentile that hey did not reach has the number 0.
        points = {row["Percentage"]: _ms(row["Latency"]) for row in values["percentiles"] if row["Percentage"]}
    latency = Latency(
        resolution=_RESOLUTION_MS,
        mean=_ms(values["latency_sum_s"] / answered),
        p50=points.get(50),
        p90=points.get(90),
        p95=points.get(95),
        p99=points.get(99),
        max=_ms(values["slowest_s"]),
    )
    return latency, [[0.0, _ms(values["fastest_s"])]] + [[float(percent), ms] for percent, ms in points.items()]


def _ms(seconds: float) -> float:
    return round(seconds * 1000.0, 3)
