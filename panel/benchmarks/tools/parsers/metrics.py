"""Figures that all parsers of load tools return. Values that a tool does not report are None; nothing is estimated."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
# Percentiles of the latency curve if every latency is known.
CURVE = (0, 10, 25, 50, 75, 80, 85, 90, 92.5, 95, 97, 98, 99, 99.5, 99.9, 99.95, 99.99, 99.999)


class ParseError(ValueError):
    """Raised if a load tool printed no usable result. The message contains the tool's own output, or the reason."""


@dataclass(frozen=True)
class Output:
    """Output of one execution of a load tool.
    `outputs` and `latency` come from the fields of these names in the agent's BenchResult (agents/protocol.py).
    """

    stdout: str
    stderr: str = ""
    exit_code: int = 0
    outputs: dict[str, str] = field(default_factory=dict)
    latency: dict[str, Any] = field(default_factory=dict)

    def last_words(self) -> str:
        """Return the tool's last message: the last line on stderr; the last line on stdout if stderr is empty. If a
        usage message follows an error, return the first line.
        """
        lines = [line.strip() for line in (self.stderr or self.stdout).splitlines() if line.strip()]
        usage = next((number for number, line in enumerate(lines) if line.lower().startswith("usage:")), 0)
        if usage:
            return lines[0]
        return lines[-1] if lines else "the tool printed nothing"


@dataclass(frozen=True)
class Latency:
    """Latencies in milliseconds. `resolution` is the smallest step in the tool's output, in ms: 10 for hundredths of a
    second.
    """

    resolution: float
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    p99_9: float | None = None
    max: float | None = None
    mean_resolution: float | None = None  # if the mean is coarser than the rest


@dataclass(frozen=True)
class Metrics:
    """Figures of one execution of a load tool. `requests` counts all ended requests: successful, `failed` (no response)
    or `non2xx` (other status).
    """

    requests: int
    failed: int
    non2xx: int
    bytes: int | None  # received, including headers if the tool counts them
    duration_s: float
    throughput_rps: float
    latency_ms: Latency
    curve: list[list[float]] = field(default_factory=list)  # [percent, ms], ascending
    errors: dict[str, int] = field(default_factory=dict)  # failures by the tool's own classes
    achieved_concurrency: float | None = None  # average number of concurrent requests, from the tool or by Little's law
    active_s: float | None = None  # from the first request to the last response, if every request is known
    notes: list[str] = field(default_factory=list)  # codes for facts in the output: connections_closed, tool_bound

    @property
    def good(self) -> int:
        return max(0, self.requests - self.failed - self.non2xx)

    @property
    def availability_percent(self) -> float:
        """Share of requests with a 2xx response, in percent; 0 without requests."""
        return 100.0 * self.good / self.requests if self.requests else 0.0

    def to_json(self) -> dict[str, object]:
        return {**dataclasses.asdict(self), "availability_percent": self.availability_percent}


def from_json(data: dict[str, Any]) -> Metrics:
    """Convert JSON of `Metrics.to_json` back to Metrics."""
    values = {key: value for key, value in data.items() if key != "availability_percent"}
    return Metrics(**{**values, "latency_ms": Latency(**data["latency_ms"])})


def little(throughput_rps: float, mean_ms: float | None) -> float | None:
    """Return the average number of concurrent requests by Little's law: throughput times mean latency; None without a
    latency.
    """
    return None if mean_ms is None else throughput_rps * mean_ms / 1000.0


def percentile(counts: list[list[int]], percent: float) -> float | None:
    """Return the nearest-rank percentile, in ms, of a histogram [[us, count], ...] sorted by value; None if it is
    empty.
    """
    total = sum(count for _, count in counts)
    if not total:
        return None
    rank = max(1, math.ceil(total * percent / 100.0))
    seen = 0
    for value, count in counts:
        seen += count
        if seen >= rank:
            return value / 1000.0
    return counts[-1][0] / 1000.0


def histogram_curve(counts: list[list[int]]) -> list[list[float]]:
    """Return the latency curve [[percent, ms], ...] of a histogram [[us, count], ...].
    The curve ends at the highest percentile that the number of requests supports.
    """
    total = sum(count for _, count in counts)
    points = [percent for percent in CURVE if total * (100 - percent) >= 100]
    return [[percent, value] for percent in points if (value := percentile(counts, percent)) is not None]
