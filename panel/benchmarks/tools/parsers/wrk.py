"""Parser for wrk 4.1: the line that the agent's script prints from wrk's summary and latency objects, in
microseconds.
"""

from __future__ import annotations

import re

from panel.benchmarks.tools.parsers.metrics import Latency, Metrics, Output, ParseError, little

_LINE = re.compile(r"^paddock (.+)$", re.MULTILINE)
_ERRORS = ("connect", "read", "write", "timeout")


def parse(output: Output) -> Metrics:
    line = _LINE.search(output.stdout)
    if not line:
        raise ParseError(f"wrk printed no result: {output.last_words()}")
    values = {name: float(value) for name, value in (part.split("=") for part in line.group(1).split())}
    errors = {name: int(values[name]) for name in _ERRORS}
    answered, seconds = int(values["requests"]), values["duration_us"] / 1e6
    rate = answered / seconds
    latency = _latency(values, answered)
    return Metrics(
        requests=answered + sum(errors.values()),
        failed=sum(errors.values()),
        non2xx=int(values["status"]),  # wrk counts 400 and above; redirects count as successful
        bytes=int(values["bytes"]),
        duration_s=seconds,
        throughput_rps=rate,
        latency_ms=latency,
        curve=_curve(latency),
        errors={name: count for name, count in errors.items() if count},
        achieved_concurrency=little(rate, latency.mean),
    )


def _latency(values: dict[str, float], answered: int) -> Latency:
    if not answered:
        return Latency(resolution=0.001)
    ms = {name.removesuffix("_us"): value / 1000.0 for name, value in values.items() if name.endswith("_us")}
    return Latency(
        resolution=0.001,
        mean=ms["mean"],
        p50=ms["p50"],
        p90=ms["p90"],
        p95=ms["p95"],
        p99=ms["p99"],
        p99_9=ms["p99.9"] if answered >= 1000 else None,
        max=ms["max"],
    )


def _curve(latency: Latency) -> list[list[float]]:
    points = ((50, latency.p50), (90, latency.p90), (95, latency.p95), (99, latency.p99), (99.9, latency.p99_9))
    return [[float(percent), value] for percent, value in points if value is not None]
