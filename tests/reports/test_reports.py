"""The summary of a report: whether something changed and whether the change is significant."""

from __future__ import annotations

import pytest

from panel.accounts.models import User
from panel.benchmarks.models import Run, Scenario
from panel.benchmarks.runs.services import run_create
from panel.core.errors import Conflict
from panel.reports.models import Report
from panel.reports.services import report_create
from panel.websites.models import Site
from tests.reports.conftest import History, ended_suite

STEADY = (1.0, 1.01, 0.99, 1.0, 1.02, 0.985)


def report_of(run: Run, actor: User) -> Report:
    return report_create(actor=actor, run=run)


def test_first_report_has_no_comparison(history: History, operator: User) -> None:
    report = report_of(history.run(), operator)
    assert report.outcome == "first" and "no earlier result to compare" in report.headline


def test_drop_beyond_usual_scatter_is_reported_as_worse(history: History, operator: User) -> None:
    history.runs(STEADY)
    report = report_of(history.run(0.8), operator)
    assert report.outcome == "worse"
    assert report.headline.startswith("A significant change since the run of ")
    (first, *_) = report.content["changes"]
    assert "throughput is 0.81 × the previous value" in first and first.endswith("worse: significant.")
    titles = [section["title"] for section in report.content["sections"]]
    assert titles == ["Figures", "Since the previous run", "Charts"]


def test_report_omits_cpu_of_too_short_rounds(history: History, operator: User) -> None:
    history.runs(STEADY)
    report = report_of(history.run(1.0, cpu_s={"server": 0.0, "tool": 0.0}), operator)
    assert not [words for words in report.content["changes"] if "CPU" in words]
    report = report_of(history.run(0.8), operator)
    assert not [words for words in report.content["changes"] if "CPU" in words], "nothing over zero is no figure"
    assert report.outcome == "worse"


def test_rise_is_reported_as_better(history: History, operator: User) -> None:
    history.runs(STEADY)
    assert report_of(history.run(1.3), operator).outcome == "better"


def test_difference_within_usual_scatter_is_not_reported(history: History, operator: User) -> None:
    """The rounds of the two runs do not overlap, but such runs differ more than that from day to day."""
    history.runs((1.0, 1.15, 0.9, 1.1, 0.95, 1.05))
    report = report_of(history.run(0.95), operator)
    assert report.outcome == "no_difference" and "No significant difference since" in report.headline
    assert "within the normal variation between runs" in report.headline
    assert report.content["changes"] == []


def test_report_is_uncertain_with_few_earlier_runs(history: History, operator: User) -> None:
    history.runs((1.0, 1.0))
    report = report_of(history.run(0.8), operator)
    assert report.outcome == "unsure" and "only 2 earlier runs" in report.headline


def test_equal_runs_are_reported_without_difference(history: History, operator: User) -> None:
    history.runs(STEADY)
    assert report_of(history.run(1.0), operator).outcome == "no_difference"


def test_scatter_ignores_runs_before_change(history: History, operator: User) -> None:
    """Eight slow runs, then eight fast ones: a drop to slow is a change, although slow runs are in the history."""
    history.runs([0.7 * speed for speed in (*STEADY, 1.0, 1.01)] + [*STEADY, 1.0, 1.01])
    assert report_of(history.run(0.7), operator).outcome == "worse"


def test_invalid_and_failed_runs_are_not_compared(history: History, operator: User) -> None:
    history.runs(STEADY)
    run = history.run(0.5, status="invalid")
    Run.objects.filter(pk=run.pk).update(reasons=["The load tool was the bottleneck."])
    report = report_of(Run.objects.get(pk=run.pk), operator)
    assert report.outcome == "invalid" and "The load tool was the bottleneck." in report.headline
    failed = history.run(1.0, status="failed")
    Run.objects.filter(pk=failed.pk).update(error="here does not answer.")
    assert report_of(Run.objects.get(pk=failed.pk), operator).headline == "No figures: here does not answer."
    # neither stands in the way of the next comparison
    assert report_of(history.run(1.0), operator).outcome == "no_difference"


def test_changed_versions_are_named_beside_change(history: History, operator: User) -> None:
    history.runs(STEADY)
    report = report_of(history.run(0.8, version="1.24.0"), operator)
    (words,) = report.content["around"]
    assert words.startswith("The web server's version of paper (nginx, here) changed from 1.22.1 to 1.24.0")


def test_changed_parameters_prevent_comparison(history: History, operator: User, scenario: Scenario) -> None:
    history.runs(STEADY)
    Scenario.objects.filter(pk=scenario.pk).update(rounds=4)
    scenario.refresh_from_db()
    assert report_of(history.run(0.8), operator).outcome == "first"


def test_report_remains_when_its_run_is_deleted(history: History, operator: User) -> None:
    run = history.run()
    report = report_of(run, operator)
    run.delete()
    stored = Report.objects.get(pk=report.pk)
    assert stored.run is None and stored.content["sections"][0]["tables"]


def test_running_run_has_no_report(operator: User, scenario: Scenario, site: Site) -> None:
    run = run_create(actor=operator, scenario=scenario, sites=[site])
    with pytest.raises(Conflict, match="in progress"):
        report_create(actor=operator, run=run)


# --- suites ---


def test_suite_report_compares_each_case_with_earlier_runs(history: History, operator: User) -> None:
    first = report_create(actor=operator, suite_run=ended_suite(history))
    assert first.outcome == "first" and not first.about_sites
    (section,) = first.content["sections"]
    assert section["title"] == "A new connection for each request" and section["pictures"]
    assert any("quick preview" in words for words in first.content["warnings"])
    for speed in STEADY:
        ended_suite(history, speed)
    worse = report_create(actor=operator, suite_run=ended_suite(history, 0.8))
    assert worse.outcome == "worse"
    assert worse.content["changes"][0].startswith("A new connection for each request, nginx: throughput is 0.8")
    assert worse.content["sections"][0]["title"] == "Since the previous run"


def test_suite_fails_when_all_cases_failed(history: History, operator: User) -> None:
    row = ended_suite(history, fields={"status": "failed", "error": "nginx did not start."})
    report = report_create(actor=operator, suite_run=row)
    assert report.outcome == "failed" and "No case of the suite succeeded" in report.headline
    assert any("nginx did not start." in words for part in report.content["sections"] for words in part["remarks"])
