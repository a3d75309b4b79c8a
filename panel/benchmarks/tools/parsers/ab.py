"""Parser for ApacheBench 2.3: its report, and the file of percentiles that the option -e writes.
The report has latencies in whole milliseconds; the file has microseconds for percentiles 0 to 99 and the maximum.
"""

from __future__ import annotations

import csv
import io
import re

from panel.benchmarks.tools.parsers.metrics import Latency, Metrics, Output, ParseError, little

_LINE = re.compile(r"^(?P<name>[A-Z][A-Za-z0-9 -]+?):\s+(?P<value>\S+)", re.MULTILINE)
_CLASSES = re.compile(r"\((Connect: \d+, Receive: \d+, Length: \d+, Exceptions: \d+)\)")
_TOTAL = re.compile(r"^Total:\s+\d+\s+(\d+)\s", re.MULTILINE)


def parse(output: Output) -> Metrics:
    values: dict[str, str] = {}
    for match in _LINE.finditer(output.stdout):
        values.setdefault(match["name"], match["value"])
    try:
        requests = int(values["Complete requests"])
        rate = float(values["Requests per second"])
        duration = float(values["Time taken for tests"])
        received = int(values["Total transferred"])
        failed = min(int(values["Failed requests"]), requests)
    except (KeyError, ValueError):
        raise ParseError(f"ab printed no result: {output.last_words()}") from None
    if received == 0:
        # ab counts a connection closed without data as complete.
        failed = requests
    # Times of connections without a response are not latencies.
    latency, curve = _latency(output, requests) if failed < requests else (Latency(resolution=0.001), [])
    return Metrics(
        requests=requests,
        failed=failed,
        non2xx=int(values.get("Non-2xx responses", 0)),
        bytes=received,
        duration_s=duration,
        throughput_rps=rate,
        latency_ms=latency,
        curve=curve,
        errors=_errors(output.stdout),
        achieved_concurrency=little(rate, latency.mean) if (latency.mean or 0) >= 10 else None,
    )


def _errors(stdout: str) -> dict[str, int]:
    found = _CLASSES.search(stdout)
    if not found:
        return {}
    pairs = (part.split(": ") for part in found.group(1).split(", "))
    return {name.lower(): int(count) for name, count in pairs if int(count)}


def _latency(output: Output, requests: int) -> tuple[Latency, list[list[float]]]:
    rows = dict(_rows(output.outputs.get("percentiles.csv", "")))
    # ab reads percentile i at index int(0.5 + n * i / 100): beyond the end if there are few requests.
    points = {
        percent: ms for percent, ms in rows.items() if percent == 100 or int(0.5 + requests * percent / 100) < requests
    }
    total = _TOTAL.search(output.stdout)
    latency = Latency(
        resolution=0.001,
        mean=float(total.group(1)) if total else None,
        mean_resolution=1.0,
        p50=points.get(50),
        p90=points.get(90),
        p95=points.get(95),
        p99=points.get(99),
        max=points.get(100),
    )
    return latency, [[float(percent), ms] for percent, ms in sorted(points.items()) if percent < 100]


def _rows(text: str) -> list[tuple[int, float]]:
    reader = csv.reader(io.StringIO(text))
    next(reader, None)
    return [(int(row[0]), float(row[1])) for row in reader if len(row) == 2]
