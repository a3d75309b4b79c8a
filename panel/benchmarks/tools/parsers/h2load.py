"""Parser for h2load (nghttp2 1.52): its report, and the agent's histogram of all requests in the file of --log-file."""

from __future__ import annotations

import re

from panel.benchmarks.tools.parsers.metrics import (
    Latency,
    Metrics,
    Output,
    ParseError,
    histogram_curve,
    little,
    percentile,
)

_FINISHED = re.compile(r"^finished in ([\d.]+)(us|ms|s|m|h), ([\d.]+) req/s", re.MULTILINE)
_REQUESTS = re.compile(
    r"^requests: (\d+) total, (\d+) started, (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout",
    re.MULTILINE,
)
_STATUSES = re.compile(r"^status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", re.MULTILINE)
_TRAFFIC = re.compile(r"^traffic: \S+ \((\d+)\) total", re.MULTILINE)
_TIME = re.compile(r"^time for request: +\S+ +([\d.]+)(us|ms|s|m|h) +([\d.]+)(us|ms|s|m|h)", re.MULTILINE)
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse(output: Output) -> Metrics:
    finished, requests = _FINISHED.search(output.stdout), _REQUESTS.search(output.stdout)
    statuses, traffic = _STATUSES.search(output.stdout), _TRAFFIC.search(output.stdout)
    if not (finished and requests and statuses and traffic):
        raise ParseError(f"h2load printed no result: {output.last_words()}")
    total, _, _, succeeded, failed, errored, timeout = (int(count) for count in requests.groups())
    _, moved, client_error, server_error = (int(count) for count in statuses.groups())
    rate = float(finished[3])
    latency = _latency(output)
    return Metrics(
        requests=max(total, succeeded + failed),
        # h2load's "failed" includes statuses of 400 and above.
        failed=max(0, failed - client_error - server_error),
        non2xx=moved + client_error + server_error,
        bytes=int(traffic[1]),
        duration_s=float(finished[1]) * _SECONDS[finished[2]],
        throughput_rps=rate,
        latency_ms=latency,
        curve=histogram_curve(output.latency.get("counts", [])),
        errors={name: count for name, count in (("errored", errored), ("timeout", timeout)) if count},
        achieved_concurrency=little(rate, latency.mean),
        active_s=output.latency.get("active_s"),
        notes=["connections_closed"] if "Process Request Failure" in output.stdout else [],
    )


def _latency(output: Output) -> Latency:
    counts = output.latency.get("counts", [])
    mean, longest = output.latency.get("mean_us"), output.latency.get("max_us")
    told = _TIME.search(output.stdout)
    if output.latency.get("sampled", 1.0) < 1.0 and told:
        # A partially read log may lack the maximum; h2load itself counted every request.
        longest, mean = (1e6 * float(told[i]) * _SECONDS[told[i + 1]] for i in (1, 3))
    return Latency(
        resolution=0.001,
        mean=mean / 1000.0 if mean is not None else None,
        p50=percentile(counts, 50),
        p90=percentile(counts, 90),
        p95=percentile(counts, 95),
        p99=percentile(counts, 99),
        # A percentile needs enough requests beyond it.
        p99_9=percentile(counts, 99.9) if sum(count for _, count in counts) >= 1000 else None,
        max=longest / 1000.0 if longest and counts else None,
    )
