"""When a run is not valid, and the reasons that are shown."""

from __future__ import annotations

from typing import Any

from panel.benchmarks.choices import Tool
from panel.benchmarks.runs.measured import Measured, measured_from, measured_json
from panel.benchmarks.runs.validity import reasons, threads
from panel.benchmarks.statistics.summary import summarize
from panel.benchmarks.tools.arguments import clean
from panel.benchmarks.tools.parsers import Output, parse
from panel.benchmarks.tools.parsers.metrics import Latency, Metrics
from tests.benchmarks.finished_runs import recorded


def parameters(tool: str = "ab", *, rounds: int = 3, allowed: float = 0.0, **arguments: Any) -> dict[str, Any]:
    raw = {"concurrency": 10, "duration_s": 10} | arguments
    raw = {name: value for name, value in raw.items() if value is not None}
    return {"tool": tool, "arguments": clean(tool, raw), "rounds": rounds, "allowed_error_percent": allowed}


def metrics(**changes: Any) -> Metrics:
    """1,000 requests a second by ten connections, 10 ms each: what Little's law asks for."""
    latency = changes.pop("latency", Latency(0.001, mean=10.0, p50=9.0, p99=20.0))
    values: dict[str, Any] = {
        "requests": 10_000,
        "failed": 0,
        "non2xx": 0,
        "bytes": 1_000_000,
        "duration_s": 10.0,
        "throughput_rps": 1000.0,
        "latency_ms": latency,
    }
    return Metrics(**(values | changes))


def round_of(number: int = 1, *, label: str = "shop", tool_cpu: float = 4.0, **changes: Any) -> Measured:
    cpu = {"server": 8.0, "tool": tool_cpu}
    return Measured(0, label, number, metrics(**changes), cpu, 10.0)


def three(**changes: Any) -> list[Measured]:
    return [round_of(number, **changes) for number in (1, 2, 3)]


def test_run_without_fault_is_valid() -> None:
    assert reasons(parameters(), three(), 2, []) == []


def test_run_is_client_bound_by_single_thread() -> None:
    rounds = [round_of(1, tool_cpu=9.5), *three()[1:]]
    (said,) = reasons(parameters(), rounds, 8, [])
    assert "shop: the load generator ab was the bottleneck in 1 of 3 rounds" in said
    assert "95 % of the CPU time available to its threads (CPUs: 1)" in said


def test_client_bound_considers_available_cpus() -> None:
    rounds = three(tool_cpu=9.5)
    assert reasons(parameters("wrk", threads=4), rounds, 8, []) == []
    (said,) = reasons(parameters("wrk", threads=1), rounds, 8, [])
    assert "Choose more threads" in said
    assert len(reasons(parameters("siege", concurrency=10), rounds, 1, [])) == 1


def test_siege_has_one_thread_per_user() -> None:
    assert threads(parameters("siege")) == 10
    assert threads(parameters("ab")) == 1
    assert threads(parameters("h2load", threads=2)) == 2


def test_contradicting_throughput_and_latency_invalidate_run() -> None:
    (said,) = reasons(parameters(), three(latency=Latency(0.001, mean=5.0)), 8, [])
    assert "contradict each other by up to 100 %" in said


def test_littles_law_check_allows_a_fifth_and_rounding() -> None:
    assert reasons(parameters(), three(latency=Latency(0.001, mean=8.5)), 8, []) == []
    assert len(reasons(parameters(), three(latency=Latency(0.001, mean=8.0)), 8, [])) == 1
    # siege tells hundredths of a second: 0.01 s may be anything from 5 to 15 ms.
    assert reasons(parameters("siege"), three(latency=Latency(10.0, mean=10.0), throughput_rps=600.0), 8, []) == []


def test_littles_law_check_counts_streams_and_skips_open_loops() -> None:
    h2 = {"protocol": "h2", "streams": 4}
    assert len(reasons(parameters("h2load", **h2), three(), 8, [])) == 1
    assert reasons(parameters("h2load", **h2), three(latency=Latency(0.001, mean=40.0)), 8, []) == []
    assert reasons(parameters("h2load", rate_rps=100, **h2), three(), 8, []) == []
    assert reasons(parameters("wrk", keepalive=False), three(latency=Latency(0.001, mean=5.0)), 8, []) == []


def test_round_that_ends_before_most_responses_has_own_reason() -> None:
    """siege with 15 users for 3 s on pages of 1.6 s: 10 requests ended, 15 were running."""
    slow = three(requests=10, throughput_rps=3.7, latency=Latency(10.0, mean=1600.0))
    (said,) = reasons(parameters("siege", concurrency=15, duration_s=3), slow, 8, [])
    assert "only 10 requests ended within 3 s in 3 of 3 rounds, and up to 15 requests were still unfinished" in said
    enough = three(requests=60, throughput_rps=9.4, latency=Latency(10.0, mean=1600.0))
    assert reasons(parameters("siege", concurrency=15, duration_s=3), enough, 8, []) == []
    by_number = {"requests": 45, "duration_s": None}
    few = three(requests=45, throughput_rps=9.4, latency=Latency(10.0, mean=1600.0))
    assert reasons(parameters("siege", concurrency=15, **by_number), few, 8, []) == []


def test_hey_counts_responses_after_the_end_of_round() -> None:
    slow = three(requests=30, throughput_rps=9.4, latency=Latency(0.001, mean=1600.0))
    assert reasons(parameters("hey", concurrency=15, duration_s=3), slow, 8, []) == []


def test_hey_is_bottleneck_of_its_threads() -> None:
    assert threads(parameters("hey", threads=2)) == 2
    (said,) = reasons(parameters("hey", threads=1), three(tool_cpu=9.5), 8, [])
    assert "Choose more threads" in said
    (said,) = reasons(parameters("hey", threads=2), three(tool_cpu=19.5), 2, [])
    assert "Choose a tool that needs less CPU, or fewer connections" in said


def test_errors_above_allowance_invalidate_run() -> None:
    failing = three(failed=30, non2xx=70)
    (said,) = reasons(parameters(), failing, 8, [])
    assert "90 of 30,000 requests received no response and 210 received an unexpected status" in said
    assert reasons(parameters(allowed=1.0), failing, 8, []) == []
    assert len(reasons(parameters(allowed=0.9), failing, 8, [])) == 1


def test_siege_keepalive_failures_are_explained() -> None:
    (said,) = reasons(parameters("siege"), three(failed=10), 8, [])
    assert "siege counts a failed request" in said


def test_load_that_stopped_early_invalidates_run() -> None:
    (said,) = reasons(parameters("h2load"), three(active_s=1.5), 8, [])
    assert "the load lasted 1.50 s instead of 10 s" in said
    assert "keepalive_requests" in said
    assert reasons(parameters("h2load"), three(active_s=9.99), 8, []) == []


def test_too_few_rounds_are_reported_with_reason() -> None:
    broken = Measured(0, "shop", 3, None, error="ab printed no result: Segmentation fault")
    (said,) = reasons(parameters(), [*three()[:2], broken], 8, [])
    assert said == "shop: 2 of 3 rounds have a result; ab printed no result: Segmentation fault."


def test_changed_fingerprint_invalidates_run() -> None:
    (said,) = reasons(parameters(), three(), 8, ["the kernel of web1 changed from 6.1 to 6.2"])
    assert said == "Between the first and the last round, the kernel of web1 changed from 6.1 to 6.2."


def test_validity_is_judged_per_target() -> None:
    said = reasons(parameters(), three() + three(label="other", non2xx=1), 8, [])
    assert [text.split(":")[0] for text in said] == ["other"]


def test_wrk_mean_may_exceed_littles_law() -> None:
    assert reasons(parameters("wrk"), three(latency=Latency(0.001, mean=40.0)), 8, []) == []
    assert len(reasons(parameters("h2load"), three(latency=Latency(0.001, mean=40.0)), 8, [])) == 1
    assert len(reasons(parameters("wrk"), three(latency=Latency(0.001, mean=5.0)), 8, [])) == 1


def test_http_2_run_with_closed_connections_is_invalid() -> None:
    result = recorded("h2load-h2-closed-early")
    output = Output(result["stdout"], result["stderr"], 0, result["outputs"], result["latency"])
    data = measured_json(parse(Tool.H2LOAD, output), result)
    measured = measured_from(data, {}, target=0, label="shop", number=1, error="")
    asked = parameters("h2load", rounds=1, concurrency=4, duration_s=1, streams=8, protocol="h2", tls=True)
    said = " ".join(reasons(asked, [measured], 2, []))
    assert "the load lasted 0.1" in said
    assert "contradict each other" in said


# --- the summary of the same rounds ---


def test_cpu_per_thousand_requests_counts_successes_only() -> None:
    assert round_of().cpu_per_1000("server") == 0.8
    assert round_of(non2xx=5000).cpu_per_1000("server") == 1.6
    assert round_of(non2xx=10_000).cpu_per_1000("server") is None
    assert round_of().cpu_per_1000("application") is None


def test_summary_has_medians_intervals_and_paired_ratios() -> None:
    rounds = []
    for number, factor in ((1, 1.0), (2, 0.5), (3, 0.9)):  # what the machine gave in each round
        rounds.append(Measured(0, "a", number, metrics(throughput_rps=1000 * factor), {"server": 1.0}, 10.0))
        rounds.append(Measured(1, "b", number, metrics(throughput_rps=1200 * factor), {"server": 1.0}, 10.0))
    found = summarize(rounds, {0: "nginx", 1: "native"})
    throughput = found["targets"][0]["figures"]["throughput_rps"]
    assert (throughput["value"], throughput["low"], throughput["high"]) == (900, 500, 1000)
    assert throughput["confidence"] == 0.75
    ratio = found["ratios"][0]["figures"]["throughput_rps"]
    assert ratio["verdict"] == "higher"
    assert round(ratio["low"], 6) == round(ratio["high"], 6) == 1.2
    assert "latency_p99_9" not in found["targets"][0]["figures"]


def test_mean_below_tool_resolution_is_left_out() -> None:
    coarse = Latency(0.001, mean=0.0, mean_resolution=1.0)
    figures = summarize(three(latency=coarse), {})["targets"][0]["figures"]
    assert "latency_mean" not in figures
    figures = summarize(three(latency=Latency(0.001, mean=2.0, mean_resolution=1.0)), {})["targets"][0]["figures"]
    assert figures["latency_mean"]["value"] == 2.0


def test_summary_of_no_rounds_is_empty() -> None:
    assert summarize([], {}) == {"targets": [], "ratios": []}


def test_rounds_without_partner_are_not_paired() -> None:
    rounds = [*three(), *(Measured(1, "b", number, metrics(), {}, 10.0) for number in (1, 2))]
    ratio = summarize(rounds, {})["ratios"][0]["figures"]["throughput_rps"]
    assert (ratio["rounds"], ratio["verdict"]) == (2, "too_few")
