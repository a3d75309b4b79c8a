"""The summary of a suite: real differences, none found, and results that are not valid."""

from __future__ import annotations

from dataclasses import replace

import pytest

from panel.benchmarks.runs.measured import Measured
from panel.benchmarks.statistics.summary import summarize
from panel.benchmarks.suites import SUITES
from panel.benchmarks.suites.ratios import glance
from panel.benchmarks.suites.tables import Outcome, figure_cell
from tests.benchmarks.test_charts import measured

SUITE = SUITES["small-static-files"]
SETUPS = [SUITE.setup(slug) for slug in ("nginx", "gallop", "openlitespeed")]
# Of rounds: in times the first server's.
SPEEDS = {"nginx": (1.0, 1.0, 1.0), "gallop": (1.5, 1.49, 1.51), "OpenLiteSpeed": (0.9, 1.1, 1.02)}


def outcome(status: str = "finished", rounds: int = 3, labels: int = 3) -> Outcome:
    found: list[Measured] = []
    for item in measured():
        label = list(SPEEDS)[item.target]
        if item.number <= rounds and item.target < labels and item.metrics:
            speed = 1000 * SPEEDS[label][item.number - 1]
            found.append(replace(item, label=label, metrics=replace(item.metrics, throughput_rps=speed)))
    return Outcome(SUITE.full[0], status, summarize(found, {}), found)


def test_suite_ratios_name_difference_from_first_server() -> None:
    table = glance(SETUPS, [outcome()])
    assert table is not None
    assert table.head == ["Case", "nginx", "gallop", "OpenLiteSpeed"]
    (case, first, faster, same) = table.rows[0]
    assert (case.text, case.link) == (SUITE.full[0].title, f"#part-{SUITE.full[0].source}")
    assert (first.text, first.detail) == ("1", "baseline")
    assert faster.text == "1.50 times" and faster.detail.startswith("1.4") and faster.value == pytest.approx(1.5)
    assert same.text == "no significant difference" and " to " in same.detail
    assert "confidence." in table.note


def test_suite_ratios_mark_invalid_and_omit_unknown_values() -> None:
    invalid = glance(SETUPS, [outcome("invalid")])
    assert invalid is not None and invalid.rows[0][2].detail.endswith(", invalid")
    few = glance(SETUPS, [outcome(rounds=2)])
    assert few is not None and (few.rows[0][2].text, few.rows[0][2].detail) == ("–", "too few rounds")
    two = glance(SETUPS, [outcome(labels=2)])
    assert two is not None and two.rows[0][3].text == "–"
    assert glance(SETUPS, [outcome(labels=1), Outcome(SUITE.full[1], "failed")]) is None


def test_suite_ratios_omit_interval_of_equal_rounds() -> None:
    figures = {"availability_percent": {"value": 100.0, "low": 100.0, "high": 100.0}}
    assert figure_cell("availability_percent", figures, unit=True).detail == ""
    near = {"availability_percent": {"value": 99.5, "low": 99.49999, "high": 99.50001}}
    assert figure_cell("availability_percent", near, unit=True).detail == "99.500 to 99.500 %"
    figures["availability_percent"]["low"] = 99.2
    assert figure_cell("availability_percent", figures, unit=True).detail == "99.200 to 100 %"
