"""Parser for gallop-load's JSON (native/load/src/report.rs): counts, and latencies in microseconds."""

from __future__ import annotations

import json

from panel.benchmarks.tools.parsers.metrics import PERCENTILES, Latency, Metrics, Output, ParseError, little

_RESOLUTION_MS = 0.001


def parse(output: Output) -> Metrics:
    try:
        data = json.loads(output.stdout)
        statuses, latency_us = data["statuses"], data["latency_us"]
        succeeded, failed, seconds = data["succeeded"], data["failed"], data["seconds"]
    except (ValueError, KeyError, TypeError):
        raise ParseError(f"gallop-load printed no result: {output.last_words()}") from None
    if not succeeded or seconds <= 0:
        raise ParseError(f"gallop-load received no response to any of {data['started']} requests.")
    # The generator's failed requests include statuses of 400 and above, and below 200.
    refused = statuses["1xx"] + statuses["4xx"] + statuses["5xx"]
    known = {percent: latency_us[f"p{percent:g}"] / 1000.0 for percent in PERCENTILES}
    mean = latency_us["mean"] / 1000.0
    rate = succeeded / seconds
    return Metrics(
        requests=succeeded + failed,
        failed=max(0, failed - refused),
        non2xx=refused + statuses["3xx"],
        bytes=data["bytes"],
        duration_s=seconds,
        throughput_rps=rate,
        latency_ms=Latency(
            resolution=_RESOLUTION_MS,
            mean=mean,
            p50=known[50.0],
            p90=known[90.0],
            p95=known[95.0],
            p99=known[99.0],
            p99_9=known[99.9] if succeeded >= 1000 else None,
            max=latency_us["max"] / 1000.0,
        ),
        curve=[[percent, us / 1000.0] for percent, us in data["curve_us"]],
        achieved_concurrency=little(rate, mean),
        notes=["tool_bound"] if data["bottleneck"] else [],
    )
