"""Contents of the pages, API responses and exports of suite runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from panel.benchmarks import selectors
from panel.benchmarks.charts import pictures
from panel.benchmarks.models import Run, RunStatus, SuiteRun
from panel.benchmarks.runs import results
from panel.benchmarks.suites import SUITES, choosing, links, published
from panel.benchmarks.suites import pictures as suite_pictures
from panel.benchmarks.suites import ratios as suite_ratios
from panel.benchmarks.suites import tables as suite_tables
from panel.benchmarks.suites.definitions import Case, Setup, Suite, speaking, stored_case
from panel.benchmarks.suites.tables import Outcome, Table
from panel.core.charts import Chart


@dataclass(frozen=True)
class Line:
    """One line in the list of a suite run's cases. `run` is None until the case starts."""

    number: int
    case: Case
    run: Run | None
    status: str
    status_words: str


@dataclass(frozen=True)
class Part:
    """One published case on the page of a suite run: its table, charts, remarks on its measurement, and runs."""

    table: Table
    charts: list[Chart]
    remarks: list[str]
    runs: list[Run]


def lines(row: SuiteRun) -> list[Line]:
    """Return all cases of a suite run with their runs. Needs no query if selectors.with_runs has loaded the runs."""
    runs = {run.case: run for run in row.runs.all()}
    found = []
    for number, data in enumerate(row.plan):
        run = runs.get(number)
        status = run.status if run else ("skipped" if row.is_ended else "queued")
        words = str(run.get_status_display()) if run else ("Not run" if row.is_ended else "Waiting")
        found.append(Line(number, stored_case(data), run, status, words))
    return found


def course(row: SuiteRun) -> dict[str, Any]:
    """Return the progress of a suite run as {"lines": all cases, "done": number of ended cases, "total": number of all
    cases, "current": the run in progress or None, "expected": expected duration in words}.
    """
    found = lines(row)
    current = next((line.run for line in found if line.run and not line.run.is_ended), None)
    done = sum(1 for line in found if line.run and line.run.is_ended)
    expected = choosing.duration_words(expected_s(row))
    return {"lines": found, "done": done, "total": len(found), "current": current, "expected": expected}


def setups(row: SuiteRun) -> list[Setup]:
    """Return the configurations of a suite run, each with only the protocols that were measured."""
    suite = SUITES[row.suite]
    own = [(suite.setup(item["slug"]), item) for item in row.setups]
    return [replace(setup, protocols=tuple(item.get("protocols", setup.protocols))) for setup, item in own]


def outcomes(row: SuiteRun) -> list[Outcome]:
    """Return all cases of a suite run, each with its status and figures."""
    return [_outcome(line) for line in lines(row)]


def _outcome(line: Line) -> Outcome:
    rounds = selectors.measured_rounds(line.run) if line.run else []
    return Outcome(line.case, line.status, line.run.summary if line.run else {}, rounds)


def tables(row: SuiteRun) -> list[Table]:
    return suite_tables.tables(SUITES[row.suite], setups(row), outcomes(row))


def result(row: SuiteRun) -> dict[str, Any]:
    """Return the template context of the page of an ended suite run."""
    suite, chosen, found = SUITES[row.suite], setups(row), lines(row)
    all_outcomes = [_outcome(line) for line in found]
    runs = {line.case.slug: line.run for line in found if line.run}
    parts = []
    groups = suite_tables.grouped(all_outcomes)
    for group, table in zip(groups, suite_tables.tables(suite, chosen, all_outcomes), strict=True):
        own = [runs[outcome.case.slug] for outcome in group if outcome.case.slug in runs]
        parts.append(Part(table, _charts(suite, chosen, group), remarks(own, group), own))
    machine = {"hosts": _machine(row), "servers": _servers(row), "links": _links(found)}
    glance = suite_ratios.glance(chosen, all_outcomes)
    return {"glance": glance, "parts": parts, "lines": found, **described(row), **machine}


def described(row: SuiteRun) -> dict[str, object]:
    """Return the part of the template context that describes the suite, the chosen part of the suite, and the
    publication.
    """
    suite = SUITES[row.suite]
    source = published.suite(row.suite)
    return {
        "suite": suite,
        "source": source,
        "findings": source.get("findings", []),
        "short": row.preset == "short",
        "part": part_words(row),
        "application": row.choice.application_words(suite),
        "network": row.choice.network.words if row.choice.network else "",
        "load_from": row.choice.load_from,
    }


def part_words(row: SuiteRun) -> str:
    """Describe the chosen part of the suite in words; "" for the whole suite."""
    return row.choice.words(SUITES[row.suite])


def expected_s(row: SuiteRun) -> float:
    """Return the estimated duration of all cases in seconds, from the published figures."""
    suite, chosen = SUITES[row.suite], setups(row)
    speakers = [(line.case, [setup.published for setup in speaking(line.case, chosen)]) for line in lines(row)]
    return sum(choosing.expected_s(suite, case, servers) for case, servers in speakers if servers)


def _charts(suite: Suite, chosen: list[Setup], group: list[Outcome]) -> list[Chart]:
    drawn = [suite_pictures.beside(suite, chosen, group)]
    if suite.table == "measures":
        drawn += [pictures.over_time(group[0].rounds, 1), pictures.over_time(group[0].rounds, 2)]
    return [chart for chart in drawn if chart is not None]


def remarks(runs: list[Run], group: list[Outcome]) -> list[str]:
    """Return, in sentences, the reasons for missing or invalid figures of `runs`, and the remarks on their rounds."""
    said = []
    many = len(group) > 1
    for run, outcome in zip(runs, group, strict=False):
        name = f"{outcome.case.title}: " if many else ""
        failed, unsound = ("failed", "not reliable") if many else ("Failed", "Not reliable")
        said += [f"{name}{failed}: {run.error}"] if run.status == RunStatus.FAILED else []
        said += [f"{name}{unsound}: {reason}" for reason in run.reasons]
        said += [f"{name}{words}" for words in results.remarks(outcome.rounds)]
    return list(dict.fromkeys(said))


def _machine(row: SuiteRun) -> dict[str, object]:
    """Return {host name: facts} from the fingerprint of the first measured case; {} if no case was measured."""
    run = row.runs.exclude(fingerprint={}).order_by("case").first()
    found: dict[str, object] = run.fingerprint.get("hosts", {}) if run else {}
    return found


def _links(found: list[Line]) -> list[str]:
    """Describe the measured properties of the link of each case."""
    measured = [(line.case, line.run.fingerprint.get("network")) for line in found if line.run]
    return [f"{case.title}: {links.measured_words(network)}" for case, network in measured if network]


def _servers(row: SuiteRun) -> list[str]:
    """Return the names of the web servers with their measured versions, without duplicates."""
    targets = [target for run in row.runs.order_by("case") for target in run.fingerprint.get("targets", [])]
    return list(dict.fromkeys(f"{target['label']} {target['version']}".strip() for target in targets))
