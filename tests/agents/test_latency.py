"""The latency log of h2load as a histogram."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.host.latency import bucket, from_h2load_log


@given(st.integers(min_value=0, max_value=10**12))
def test_histogram_bucket_is_near_its_values(value: int) -> None:
    assert abs(bucket(value) - value) <= max(0, value) * 0.002


@given(st.integers(min_value=0, max_value=10**9), st.integers(min_value=0, max_value=10**9))
def test_histogram_buckets_keep_order(a: int, b: int) -> None:
    assert (bucket(a) <= bucket(b)) or a > b


def log(folder: Path, rows: list[tuple[int, int, int]], end: str = "") -> str:
    path = folder / "requests.log"
    path.write_text("".join(f"{start}\t{status}\t{taken}\n" for start, status, taken in rows) + end)
    return str(path)


def test_latency_log_yields_statuses_and_times(tmp_path: Path) -> None:
    rows = [(1_000_000, 200, 100), (1_500_000, 200, 100), (1_600_000, 404, 300), (0, -1, 0)]
    found = from_h2load_log(log(tmp_path, rows, end="17"))
    assert found["counts"] == [[100, 2], [300, 1]]
    assert found["statuses"] == {"200": 2, "404": 1, "-1": 1}
    assert (found["max_us"], found["active_s"], found["sampled"]) == (300, 0.6003, 1.0)
    assert found["mean_us"] == pytest.approx(166.667)


def test_latency_log_with_only_failures_is_counted(tmp_path: Path) -> None:
    found = from_h2load_log(log(tmp_path, [(0, -1, 0)] * 3))
    assert (found["counts"], found["mean_us"], found["active_s"]) == ([], None, 0.0)


def test_missing_latency_log_gives_empty_histogram(tmp_path: Path) -> None:
    assert from_h2load_log(str(tmp_path / "none")) == {}
    assert from_h2load_log(log(tmp_path, [])) == {}


def test_long_latency_log_is_sampled_with_similar_result(tmp_path: Path) -> None:
    generator = random.Random(5)
    rows = [(10**15 + 10 * i, 200, int(generator.lognormvariate(5, 0.5))) for i in range(150_000)]
    path = log(tmp_path, rows)
    whole, part = from_h2load_log(path), from_h2load_log(path, limit=1024 * 1024)
    assert part["sampled"] < 0.5 < whole["sampled"] == 1.0
    assert part["active_s"] == whole["active_s"], "its beginning and its end are read"
    assert part["mean_us"] == pytest.approx(whole["mean_us"], rel=0.02)
    assert sum(n for _, n in part["counts"]) < 0.5 * len(rows)
