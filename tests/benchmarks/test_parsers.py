"""Parsers of the load tools' output, on recordings of the real tools (tests/benchmarks/data, written by
tool_recorder.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from panel.benchmarks.choices import Tool
from panel.benchmarks.tools.parsers import Metrics, Output, ParseError, parse
from panel.benchmarks.tools.parsers.metrics import from_json, histogram_curve, percentile

DATA = Path(__file__).parent / "data"
NAMES = sorted(path.stem for path in DATA.glob("*.json"))
# ab reports such requests in its own way, and wrk reports nothing if connections are refused.
WITHOUT_RESPONSES = [
    name for name in NAMES if name.endswith(("-dropped", "-refused")) and name[:3] != "ab-" and name != "wrk-refused"
]


def output(name: str) -> Output:
    data = json.loads((DATA / f"{name}.json").read_text())
    return Output(data["stdout"], data["stderr"], data["exit_code"], data["outputs"], data["latency"])


def parsed(name: str) -> Metrics:
    return parse(Tool(name.split("-")[0]), output(name))


def by_hand(name: str, begin: str, end: str = "\n") -> str:
    """What stands between `begin` and `end` in the tool's report: the expectation, found another way."""
    text = output(name).stdout
    start = text.index(begin) + len(begin)
    return text[start : text.index(end, start)].strip()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "wrk-refused"])
def test_recorded_results_are_plausible(name: str) -> None:
    found = parsed(name)
    assert found.requests > 0
    assert 0 <= found.failed + found.non2xx <= found.requests
    assert [percent for percent, _ in found.curve] == sorted({percent for percent, _ in found.curve})
    times = [ms for _, ms in found.curve]
    assert times == sorted(times)
    known = [
        found.latency_ms.p50,
        found.latency_ms.p90,
        found.latency_ms.p95,
        found.latency_ms.p99,
        found.latency_ms.max,
    ]
    there = [value for value in known if value is not None]
    assert there == sorted(there)
    assert from_json(json.loads(json.dumps(found.to_json()))) == found


def test_ab_output_is_parsed() -> None:
    found = parsed("ab-keepalive")
    assert (found.requests, found.failed, found.non2xx) == (5000, 0, 0)
    assert found.throughput_rps == float(by_hand("ab-keepalive", "Requests per second:", "["))
    assert found.bytes == int(by_hand("ab-keepalive", "Total transferred:", "bytes"))
    rows = dict(line.split(",") for line in output("ab-keepalive").outputs["percentiles.csv"].split()[4:])
    assert found.latency_ms.p50 == float(rows["50"])
    assert found.latency_ms.p99 == float(rows["99"])
    assert found.latency_ms.max == float(rows["100"])
    assert found.latency_ms.p99_9 is None, "ab does not tell it"
    assert found.availability_percent == 100


@pytest.mark.parametrize("name", ["ab-tls", "h2load-h2", "wrk-two-paths-tls", "hey-tls"])
def test_tls_recordings_measured_named_site(name: str) -> None:
    """The default server of the recording returns 421 unless SNI and Host name the site."""
    assert (parsed(name).failed, parsed(name).non2xx) == (0, 0)


def test_ab_output_with_non_2xx_is_parsed() -> None:
    found = parsed("ab-missing")
    assert (found.failed, found.non2xx, found.availability_percent) == (0, 50, 0)


def test_ab_result_with_dropped_connections_is_rejected() -> None:
    found = parsed("ab-dropped")
    assert (found.requests, found.failed, found.good) == (50, 50, 0)
    assert found.latency_ms.p50 is None


def test_ab_output_with_refused_connections_is_parsed() -> None:
    found = parsed("ab-refused")
    assert found.failed == found.requests
    assert found.errors == {"receive": 50, "exceptions": 25}


def test_ab_output_with_varying_length_is_parsed() -> None:
    found = parsed("ab-varying-length")
    assert (found.failed, found.errors) == (25, {"length": 25})


def test_ab_percentile_99_of_fifty_requests_is_dropped() -> None:
    assert parsed("ab-varying-length").latency_ms.p99 is None


def test_h2load_output_of_http_1_is_parsed() -> None:
    found = parsed("h2load-h1")
    assert found.requests == int(by_hand("h2load-h1", "requests: ", " total"))
    assert found.bytes == int(by_hand("h2load-h1", "traffic: ", " total").split("(")[1].rstrip(")"))
    assert found.duration_s == 1
    assert found.latency_ms.p50 is not None and found.latency_ms.p99_9 is not None and found.latency_ms.max is not None
    assert found.latency_ms.p50 < found.latency_ms.p99_9 < found.latency_ms.max
    assert found.achieved_concurrency == pytest.approx(4, rel=0.1)
    assert found.notes == []


def test_h2load_maximum_and_mean_come_from_tool_when_log_is_sampled() -> None:
    whole = output("h2load-h1")
    part = Output(whole.stdout, latency=whole.latency | {"sampled": 0.1, "max_us": 1, "mean_us": 1.0})
    found = parse(Tool.H2LOAD, part).latency_ms
    told = by_hand("h2load-h1", "time for request:").split()
    assert found.max == pytest.approx(float(told[1].removesuffix("ms")))
    assert found.mean == pytest.approx(float(told[2].removesuffix("us")) / 1000)


def test_h2load_reports_connections_closed_by_server() -> None:
    found = parsed("h2load-h2-closed-early")
    assert found.notes == ["connections_closed"]
    assert found.active_s is not None and found.active_s < 0.5 < found.duration_s
    assert found.failed == found.errors["errored"] > 0


def test_h2load_error_statuses_are_not_connection_failures() -> None:
    found = parsed("h2load-missing")
    assert (found.requests, found.failed, found.non2xx) == (50, 0, 50)


@pytest.mark.parametrize("name", WITHOUT_RESPONSES)
def test_output_without_responses_is_parsed(name: str) -> None:
    found = parsed(name)
    assert found.failed == found.requests
    assert (found.good, found.throughput_rps) == (0, 0)
    assert (found.latency_ms.mean, found.latency_ms.max, found.curve) == (None, None, [])


def test_wrk_output_is_parsed() -> None:
    found = parsed("wrk-keepalive")
    assert f"{found.requests} requests in" in output("wrk-keepalive").stdout
    assert found.throughput_rps == pytest.approx(float(by_hand("wrk-keepalive", "Requests/sec:")), rel=0.01)
    assert found.latency_ms.p50 == pytest.approx(float(by_hand("wrk-keepalive", "50%", "us")) / 1000, abs=0.001)
    assert found.latency_ms.p99_9 is not None


def test_wrk_output_with_non_2xx_is_parsed() -> None:
    found = parsed("wrk-missing")
    assert found.non2xx == found.requests == int(by_hand("wrk-missing", "Non-2xx or 3xx responses:"))


def test_siege_output_is_parsed() -> None:
    found = parsed("siege-seconds")
    report = json.loads(output("siege-seconds").stdout)
    assert found.requests == report["transactions"] + report["failed_transactions"]
    assert found.throughput_rps == report["transaction_rate"]
    assert found.achieved_concurrency == report["concurrency"]
    assert (found.latency_ms.resolution, found.latency_ms.p50) == (10, None)


def test_siege_longest_transaction_is_parsed() -> None:
    assert parsed("siege-slow").latency_ms.max == 1000


def test_siege_error_statuses_are_not_successes() -> None:
    found = parsed("siege-missing")
    assert (found.requests, found.failed, found.non2xx) == (80, 0, 80)


def test_siege_run_that_is_too_short_is_reported() -> None:
    short = output("siege-missing").stdout.replace('"elapsed_time":\t\t\t        0.01', '"elapsed_time": 0.00')
    with pytest.raises(ParseError, match="too short to measure"):
        parse(Tool.SIEGE, Output(short))


def hey_report(name: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(output(name).stdout.split("\n")[0])
    return report


def test_hey_output_is_parsed() -> None:
    found, report = parsed("hey-keepalive"), hey_report("hey-keepalive")
    assert (found.requests, found.failed, found.non2xx) == (4000, 0, 0)
    assert found.duration_s == report["seconds"]
    assert found.throughput_rps == pytest.approx(4000 / report["seconds"])
    told = {row["Percentage"]: 1000 * row["Latency"] for row in report["percentiles"]}
    latency = found.latency_ms
    assert (latency.p50, latency.p90, latency.p95, latency.p99) == pytest.approx(
        (told[50], told[90], told[95], told[99]), abs=0.001
    )
    assert latency.mean == pytest.approx(report["latency_sum_s"] / 4, abs=0.001)
    assert latency.max == pytest.approx(1000 * report["slowest_s"], abs=0.001)
    assert (latency.p99_9, found.bytes) == (None, None), "hey does not tell them"
    assert found.achieved_concurrency == pytest.approx(4, rel=0.05)


def test_hey_error_statuses_are_not_successes() -> None:
    found = parsed("hey-missing")
    assert (found.requests, found.failed, found.non2xx) == (50, 0, 50)


def test_hey_percentiles_of_few_responses_are_left_out() -> None:
    """hey calls the slowest of four responses the median."""
    rows = {row["Percentage"]: row["Latency"] for row in hey_report("hey-few")["percentiles"]}
    assert rows[50] == hey_report("hey-few")["slowest_s"]
    found = parsed("hey-few").latency_ms
    assert (found.p50, found.p90) == (None, None)
    assert found.mean is not None and found.max is not None and found.mean < found.max
    assert parsed("hey-missing").latency_ms.p99 is None, "hey reports no 99th percentile of 50 responses"


def test_hey_failures_are_counted_by_class() -> None:
    assert parsed("hey-dropped").errors == {"eof": 50}
    assert parsed("hey-refused").errors == {"connection refused": 50}, "hey garbles %20 in the address"
    lines = "\n".join(f"1 Get: read tcp 127.0.0.1:{port}->127.0.0.1:80: read: broken pipe" for port in range(1, 51))
    text = output("hey-dropped").stdout.split("\n")[0] + "\n" + lines + "\n[cut after 4194304 bytes]\n"
    assert parse(Tool.HEY, Output(text)).errors == {"broken pipe": 50}


def test_hey_round_with_more_responses_than_it_keeps_is_rejected() -> None:
    whole = output("hey-keepalive").stdout
    full = whole.replace('"kept":4000', '"kept":1000000')
    with pytest.raises(ParseError, match="hey keeps 1,000,000 responses, and this round had 1,000,001 requests"):
        parse(Tool.HEY, Output(full.replace('"requests":4000', '"requests":1000001')))
    assert parse(Tool.HEY, Output(full.replace('"requests":4000', '"requests":1000000'))).failed == 0


def test_missing_result_is_reported_with_tool_message() -> None:
    with pytest.raises(ParseError, match=r"unable to connect to a\.example"):
        parsed("wrk-refused")


@pytest.mark.parametrize("tool", list(Tool))
@pytest.mark.parametrize("text", ["", "Segmentation fault", "{", "{}", "Complete requests: many\n", "paddock"])
def test_invalid_output_is_rejected(tool: Tool, text: str) -> None:
    with pytest.raises(ParseError, match=f"{tool} printed no result"):
        parse(tool, Output(text))


def test_histogram_percentiles_are_computed() -> None:
    counts = [[1000, 50], [2000, 40], [3000, 9], [4000, 1]]
    assert [percentile(counts, p) for p in (0, 50, 50.5, 90, 99, 99.9, 100)] == [1, 1, 2, 2, 3, 4, 4]
    assert percentile([], 50) is None
    assert max(percent for percent, _ in histogram_curve(counts)) == 99


# --- gallop-load ---

LOADED = (
    '{"seconds":0.981210,"started":6000,"succeeded":5990,"failed":6,"bytes":2110000,"connections":10,'
    '"statuses":{"1xx":0,"2xx":5980,"3xx":10,"4xx":2,"5xx":1},'
    '"latency_us":{"mean":15810.2,"p50":15104,"p90":18176,"p95":19200,"p99":24320,"p99.9":31744,"max":33108},'
    '"curve_us":[[0,9000],[50,15104],[99.9,31744]],"threads":[{"cpu":0.9512,"waited":0.0101}],"bottleneck":true,'
    '"handshake_us":{"p50":25472,"max":27392}}\n'
)


def test_gallop_load_counts_responses_and_losses_separately() -> None:
    metrics = parse("gallop-load", Output(LOADED))
    assert (metrics.requests, metrics.failed, metrics.non2xx, metrics.good) == (5996, 3, 13, 5980)
    assert metrics.throughput_rps == pytest.approx(5990 / 0.98121)
    assert (metrics.latency_ms.p50, metrics.latency_ms.p99_9, metrics.latency_ms.max) == (15.104, 31.744, 33.108)
    assert metrics.curve == [[0, 9.0], [50, 15.104], [99.9, 31.744]]
    assert metrics.notes == ["tool_bound"]


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (Output("", "gallop-load: no answer for 30 s", 1), "no answer for 30 s"),
        (Output('{"seconds": 1}', "", 0), "printed no result"),
        (Output(LOADED.replace("5990", "0"), "", 1), "received no response to any of 6000 requests"),
    ],
)
def test_gallop_load_without_result_is_reported(output: Output, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        parse("gallop-load", output)
