"""The joined table of a suite that was measured in parts equals its parts, without duplicates."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

from panel.benchmarks.suites import SUITES
from tests.benchmarks.published_results import RESULTS
from tests.suites.benchmark_suites.joined_table import table

CASE = SUITES["http3-2019"].full[0]


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def part(folder: Path, name: str, status: str, finished_at: str, rate: float, preset: str = "full") -> None:
    """One run of the suite's first case, on gallop alone."""
    figure = {"value": rate, "low": rate - 1, "high": rate + 1}
    run: dict[str, Any] = {"status": status, "finished_at": finished_at}
    run |= {"summary": {"targets": [{"label": "gallop", "figures": {CASE.figure: figure}}]}, "fingerprint": {}}
    data = {"suite": "http3-2019", "preset": preset, "plan": [CASE.stored()], "runs": [run]}
    (folder / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(data).encode()))


def test_published_table_equals_its_parts() -> None:
    folder = RESULTS / "http3-2019"
    kept = (folder / "complete.csv").read_text()
    assert kept == table(folder), (
        "make it anew: python -m tests.suites.benchmark_suites.joined_table docs/results/http3-2019"
    )
    assert {(row["case"], row["link"], row["protocol"]) for row in rows(kept) if row["median"]} == {
        (case.group, case.network.words, f"HTTP/{case.protocol[1:]}".replace("/1", "/1.1"))
        for case in SUITES["http3-2019"].full
        if case.network
    }, "every case of the suite was measured"


def test_joined_table_uses_latest_valid_result(tmp_path: Path) -> None:
    part(tmp_path, "a", "finished", "2026-01-02T03:04:05", 100.0)
    part(tmp_path, "b", "finished", "2026-01-01T03:04:05", 200.0)
    part(tmp_path, "c", "invalid", "2026-01-03T03:04:05", 300.0)
    part(tmp_path, "d", "finished", "2026-01-04T03:04:05", 400.0, preset="short")
    part(tmp_path, "e", "failed", "2026-01-05T03:04:05", 500.0)
    first, *others = rows(table(tmp_path))
    assert (first["part"], first["median"], first["low"], first["measured"]) == (
        "a",
        "100.0",
        "99.0",
        "2026-01-02T03:04",
    )
    assert not any(row["median"] for row in others), "what was not measured is named without figures"
    assert len(others) == len(SUITES["http3-2019"].full) - 1
