"""Summary of a run: medians of its figures with intervals, and ratios to the first target. Pure functions.
A figure that the tool does not report in any round is absent from the summary.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from panel.benchmarks.records import FigureEstimate, FigureRatio, RatioSummary, Summary, TargetSummary
from panel.benchmarks.runs.measured import Measured
from panel.benchmarks.statistics import intervals


@dataclass(frozen=True)
class Figure:
    """A figure of a run, for example throughput. `better`: "higher" or "lower", "" if neither is better. `compared`:
    whether ratios are computed.
    """

    name: str
    label: str
    unit: str
    of: Callable[[Measured], float | None]
    better: str = ""
    compared: bool = False
    digits: int = 1


def _latency(name: str) -> Callable[[Measured], float | None]:
    def read(measured: Measured) -> float | None:
        return getattr(measured.metrics.latency_ms, name) if measured.metrics else None

    return read


def _mean(measured: Measured) -> float | None:
    """Return the mean latency in ms; None if it is below the resolution of the tool's report: ab's whole milliseconds,
    siege's hundredths of a second.
    """
    if measured.metrics is None:
        return None
    latency = measured.metrics.latency_ms
    least = latency.mean_resolution or latency.resolution
    return latency.mean if latency.mean is not None and latency.mean >= least else None


def _metric(name: str) -> Callable[[Measured], float | None]:
    return lambda measured: getattr(measured.metrics, name) if measured.metrics else None


def _transactions(measured: Measured) -> float | None:
    return float(measured.metrics.good) if measured.metrics else None


def _all_cpu(measured: Measured) -> float | None:
    return measured.cpu_per_1000(*(tree for tree in ("server", "application") if tree in measured.cpu_s))


FIGURES: tuple[Figure, ...] = (
    Figure("throughput_rps", "Throughput", "requests/s", _metric("throughput_rps"), "higher", True, 0),
    Figure("latency_p50", "Latency, median", "ms", _latency("p50"), "lower", True, 3),
    Figure("latency_p90", "Latency, 90 %", "ms", _latency("p90"), "lower", False, 3),
    Figure("latency_p95", "Latency, 95 %", "ms", _latency("p95"), "lower", False, 3),
    Figure("latency_p99", "Latency, 99 %", "ms", _latency("p99"), "lower", True, 3),
    Figure("latency_p99_9", "Latency, 99.9 %", "ms", _latency("p99_9"), "lower", False, 3),
    Figure("latency_mean", "Latency, mean", "ms", _mean, "lower", False, 3),
    Figure("latency_max", "Maximum latency", "ms", _latency("max"), "lower", False, 3),
    Figure("cpu_per_1000", "CPU per 1,000 requests", "s", _all_cpu, "lower", True, 4),
    Figure("server_cpu", "Web server CPU", "%", lambda m: m.cpu_percent("server")),
    Figure("application_cpu", "Application CPU", "%", lambda m: m.cpu_percent("application")),
    Figure("tool_cpu", "Load tool CPU", "%", lambda m: m.cpu_percent("tool")),
    Figure("server_rss", "Web server memory, peak", "bytes", lambda m: m.peak_rss("server"), "lower", False, 0),
    Figure(
        "application_rss", "Application memory, peak", "bytes", lambda m: m.peak_rss("application"), "lower", False, 0
    ),
    Figure("availability_percent", "Availability", "%", _metric("availability_percent"), "higher", False, 3),
    Figure("transactions", "Transactions", "", _transactions, "higher", False, 0),
    Figure("total_s", "Time for all requests", "s", _metric("duration_s"), "lower", False, 2),
    Figure("achieved_concurrency", "Unfinished requests", "", _metric("achieved_concurrency")),
)
BY_NAME = {figure.name: figure for figure in FIGURES}


def summarize(rounds: Iterable[Measured], engines: dict[int, str]) -> Summary:
    """Return the summary of `rounds`, which must not contain warm-ups. `engines` maps a target's position to its
    engine.
    """
    own: dict[int, list[Measured]] = defaultdict(list)
    for measured in rounds:
        own[measured.target].append(measured)
    targets = [_target(position, own[position], engines.get(position, "")) for position in sorted(own)]
    baseline, *others = sorted(own) or [0]
    return {"targets": targets, "ratios": [_ratios(own[position], own[baseline]) for position in others]}


def _target(position: int, rounds: list[Measured], engine: str) -> TargetSummary:
    figures = {}
    for figure in FIGURES:
        values = [value for measured in rounds if (value := figure.of(measured)) is not None]
        if values:
            figures[figure.name] = _estimate(intervals.estimate(values))
    return {
        "position": position,
        "label": rounds[0].label,
        "engine": engine,
        "figures": figures,
        "curve": _median_curve(rounds),
    }


def _estimate(found: intervals.Estimate | intervals.Ratio) -> FigureEstimate:
    interval = found.interval
    return {
        "value": found.value,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "confidence": interval.confidence if interval else None,
        "rounds": found.rounds,
    }


def _median_curve(rounds: list[Measured]) -> list[list[float]]:
    """Return the latency curve [[percentile, ms], ...] of several rounds: at each percentile, the median of the rounds.
    A percentile is left out if one of the rounds lacks it.
    """
    curves = [{point[0]: point[1] for point in m.metrics.curve} for m in rounds if m.metrics and m.metrics.curve]
    if not curves:
        return []
    shared = sorted(set.intersection(*(set(curve) for curve in curves)))
    return [[percent, intervals.median([curve[percent] for curve in curves])] for percent in shared]


def _ratios(rounds: list[Measured], baseline: list[Measured]) -> RatioSummary:
    figures: dict[str, FigureRatio] = {}
    base = {measured.number: measured for measured in baseline}
    for figure in FIGURES:
        if not figure.compared:
            continue
        pairs = [
            (figure.of(measured), figure.of(base[measured.number])) for measured in rounds if measured.number in base
        ]
        known = [(value, other) for value, other in pairs if value is not None and other is not None]
        found = intervals.ratio([value for value, _ in known], [other for _, other in known])
        if not math.isnan(found.value):
            figures[figure.name] = {**_estimate(found), "verdict": str(found.verdict)}
    return {
        "position": rounds[0].target,
        "label": rounds[0].label,
        "baseline": baseline[0].label,
        "figures": figures,
    }
