"""Checks that a run is valid, with reasons in words if it is not. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from panel.benchmarks.choices import Tool
from panel.benchmarks.records import Parameters
from panel.benchmarks.runs.measured import Measured

CLIENT_BOUND = 0.90
LITTLE_TOLERANCE = 0.20
# A round limited by time does not count unfinished requests; they must be at most a fifth of those started.
LEAST_TURNS = 4
# Minimum share of the requested duration; below it the load stopped by itself.
ACTIVE_SHARE = 0.90


def reasons(parameters: Parameters, rounds: Iterable[Measured], cpus: int, changes: list[str]) -> list[str]:
    """Return the reasons, in sentences for users, why a run is invalid; empty if the run is valid.

    `parameters` are the stored parameters of the run. `rounds` contain no warm-ups. `cpus` is the number of CPUs
    available to the load tool. `changes` describe differences between the fingerprints before and after the run.
    """
    by_target: dict[str, list[Measured]] = defaultdict(list)
    for measured in rounds:
        by_target[measured.label].append(measured)
    found = []
    for label, own in by_target.items():
        good = [measured for measured in own if measured.metrics is not None]
        found += _too_few(label, own, good, parameters["rounds"])
        found += _client_bound(label, good, parameters, cpus)
        found += _cut_short(label, good, parameters)
        found += _little(label, good, parameters)
        found += _errors(label, good, parameters)
        found += _stopped_early(label, good, parameters)
    return found + [f"Between the first and the last round, {change}." for change in changes]


def _too_few(label: str, own: list[Measured], good: list[Measured], asked: int) -> list[str]:
    if len(good) >= asked:
        return []
    why = next((measured.error for measured in own if measured.error), "")
    return [f"{label}: {len(good)} of {asked} rounds have a result{f'; {why}' if why else ''}."]


def _client_bound(label: str, good: list[Measured], parameters: Parameters, cpus: int) -> list[str]:
    usable = min(threads(parameters), cpus)
    shares = [measured.cpu_s.get("tool", 0.0) / (measured.wall_s * usable) for measured in good if measured.wall_s]
    bound = [share for share in shares if share > CLIENT_BOUND]
    if not bound:
        return []
    tool = parameters["tool"]
    more = "threads" in parameters["arguments"] and usable < cpus
    advice = "Choose more threads." if more else "Choose a tool that needs less CPU, or fewer connections."
    return [
        f"{label}: the load generator {tool} was the bottleneck in {_rounds(len(bound), len(good))}: it "
        f"used up to {100 * max(bound):.0f} % of the CPU time available to its threads (CPUs: {usable}). {advice}"
    ]


def threads(parameters: Parameters) -> int:
    """Return the number of threads of the load tool, which is the number of CPUs that the tool can use.
    siege has a thread for every user, ab has one thread, and the argument `threads` sets the number for other tools.
    """
    arguments = parameters["arguments"]
    if parameters["tool"] == Tool.SIEGE:
        return int(arguments["concurrency"] or 1)
    return int(arguments.get("threads") or 1)


def _offered(arguments: Mapping[str, Any]) -> int:
    """Return the number of requests that the load tool keeps open at the same time."""
    return int(arguments["concurrency"] or 1) * int(arguments.get("streams") or 1)


def _is_cut_short(measured: Measured, parameters: Parameters) -> bool:
    arguments = parameters["arguments"]
    # hey waits for the last responses, and counts them and the time until then.
    by_time = arguments.get("duration_s") and not arguments.get("rate_rps") and parameters["tool"] != Tool.HEY
    count = measured.metrics.requests if measured.metrics else 0
    return bool(by_time) and 0 < count < LEAST_TURNS * _offered(arguments)


def _cut_short(label: str, good: list[Measured], parameters: Parameters) -> list[str]:
    """Return a reason why the run is invalid if its response times are close to the round's duration; [] otherwise.
    In this case, the figures leave out most requests.
    """
    arguments = parameters["arguments"]
    short = [measured.metrics for measured in good if measured.metrics and _is_cut_short(measured, parameters)]
    if not short:
        return []
    least = min(metrics.requests for metrics in short)
    return [
        f"{label}: only {least} requests ended within {arguments['duration_s']} s in "
        f"{_rounds(len(short), len(good))}, and up to {_offered(arguments)} requests were still unfinished, which "
        "the figures leave out. Use longer rounds, or fewer concurrent requests."
    ]


def _little(label: str, good: list[Measured], parameters: Parameters) -> list[str]:
    """Return a reason why the run is invalid if its figures contradict Little's law, N = X * R (Little 1961); []
    otherwise.
    By this law, the number of concurrent requests is throughput times response time.
    """
    arguments = parameters["arguments"]
    # With a fixed rate, connections are idle in between; with new connections, wrk's time excludes connecting.
    if arguments.get("rate_rps") or (parameters["tool"] == Tool.WRK and not arguments["keepalive"]):
        return []
    offered = _offered(arguments)
    # With one request per connection there is no steady state: connecting takes as long as the request.
    if arguments.get("requests") and not arguments.get("duration_s") and int(arguments["requests"] or 0) <= offered:
        return []
    worst = 0.0
    wrong = 0
    for measured in good:
        if _is_cut_short(measured, parameters):
            continue
        apart = _apart(measured, offered, only_shorter=parameters["tool"] == Tool.WRK)
        wrong += apart > LITTLE_TOLERANCE
        worst = max(worst, apart)
    if not wrong:
        return []
    return [
        f"{label}: throughput and average latency contradict each other by up to {100 * worst:.0f} % in "
        f"{_rounds(wrong, len(good))}: {offered} concurrent requests with these latencies "
        "would give another throughput. Some connections probably waited or were closed; see the tool's output."
    ]


def _apart(measured: Measured, offered: int, *, only_shorter: bool) -> float:
    """Return the error of the reported mean latency by Little's law, as a fraction of the reported mean.

    The expected mean follows from the throughput and `offered`, the number of concurrent requests. The rounding error
    of the tool's report is subtracted.
    If `only_shorter`, ignore a mean above the expected value: wrk's mean grows with every pause, because wrk also
    counts the requests that it would have sent during the pause (stats_correct in wrk's source).
    """
    assert measured.metrics is not None
    latency = measured.metrics.latency_ms
    if latency.mean is None or not measured.metrics.throughput_rps:
        return 0.0
    expected = 1000.0 * offered / measured.metrics.throughput_rps
    resolution = latency.mean_resolution or latency.resolution
    gap = (expected - latency.mean if only_shorter else abs(expected - latency.mean)) - resolution
    return max(0.0, gap) / latency.mean if latency.mean > 0 else 0.0


def _errors(label: str, good: list[Measured], parameters: Parameters) -> list[str]:
    allowed = float(parameters["allowed_error_percent"])
    over = [m.metrics for m in good if m.metrics and 100.0 - m.metrics.availability_percent > allowed + 1e-9]
    if not over:
        return []
    requests = sum(metrics.requests for metrics in over)
    failed, other = sum(m.failed for m in over), sum(m.non2xx for m in over)
    hint = ""
    if parameters["tool"] == Tool.SIEGE and parameters["arguments"]["keepalive"] and failed and not other:
        hint = " If the web server closes a keep-alive connection, siege counts a failed request."
    return [
        f"{label}: {failed:,} of {requests:,} requests received no response and {other:,} received an "
        f"unexpected status in {_rounds(len(over), len(good))}; {allowed:g} % are allowed. Error "
        f"responses do not count as throughput.{hint}"
    ]


def _stopped_early(label: str, good: list[Measured], parameters: Parameters) -> list[str]:
    """Return a reason why the run is invalid if the load stopped before the end of a round; [] otherwise.
    h2load does not reconnect, so over HTTP/2 a web server's limit of requests per connection ends the load.
    """
    seconds = float(parameters["arguments"].get("duration_s") or 0)
    early = [
        measured.metrics
        for measured in good
        if measured.metrics and measured.metrics.active_s is not None and seconds
        if measured.metrics.active_s < ACTIVE_SHARE * seconds
    ]
    if not early:
        return []
    least = min(metrics.active_s or 0.0 for metrics in early)
    return [
        f"{label}: the load lasted {least:.2f} s instead of {seconds:g} s in "
        f"{_rounds(len(early), len(good))} because the web server closed the connections and h2load does "
        "not reconnect. Raise the web server's requests per connection (nginx: keepalive_requests), or "
        "set a lower number of requests."
    ]


def _rounds(some: int, of: int) -> str:
    return f"{some} of {of} rounds" if of > 1 else "the round"
