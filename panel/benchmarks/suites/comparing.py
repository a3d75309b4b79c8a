"""Comparison of several runs of one suite: the figure of each case, and its change from the first run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from panel.benchmarks.models import SuiteRun
from panel.benchmarks.runs import change_texts, run_changes
from panel.benchmarks.runs.run_changes import Change
from panel.benchmarks.suites import SUITES
from panel.benchmarks.suites import results as suite_results
from panel.benchmarks.suites.definitions import Case
from panel.benchmarks.suites.tables import NONE, Cell, Outcome, Table, figure_cell
from panel.core.errors import ApplicationError

MOST = 4


@dataclass(frozen=True)
class Side:
    """One of the compared suite runs. `outcomes` maps the slug of each case to its result."""

    row: SuiteRun
    outcomes: dict[str, Outcome]

    @property
    def name(self) -> str:
        link = f", over {self.row.choice.network.words}" if self.row.choice.network else ""
        return f"{self.row.host_name}, {self.row.created_at:%Y-%m-%d %H:%M}{link}"


def compared(rows: Sequence[SuiteRun]) -> list[Table]:
    """Return one table for each case that all suite runs have. ApplicationError if the runs cannot be compared."""
    if not 2 <= len(rows) <= MOST:
        raise ApplicationError(f"Select 2 to {MOST} runs of one suite.")
    if len({row.suite for row in rows}) > 1:
        raise ApplicationError("These runs are from different suites. Select runs of one suite.")
    if len({row.choice.application_words(SUITES[row.suite]) for row in rows}) > 1:
        raise ApplicationError("These runs used different applications. Select runs of the same application.")
    sides = [side_of(row) for row in rows]
    shared = [slug for slug in sides[0].outcomes if all(slug in side.outcomes for side in sides)]
    if not shared:
        raise ApplicationError("These runs have no case in common because previews have their own cases.")
    return [_table(sides, slug) for slug in shared]


def side_of(row: SuiteRun) -> Side:
    return Side(row, {outcome.case.slug: outcome for outcome in suite_results.outcomes(row)})


def is_same_load(now: Case, before: Case) -> bool:
    """Return whether two cases with the same name also have the same load. Versions of the panel can differ in their
    loads.
    """
    return replace(now, title="", group="") == replace(before, title="", group="")


def asked_otherwise(now: Side, before: Side) -> list[str]:
    """Return the titles of cases that both suite runs have under the same name, but with different loads."""
    shared = [
        (outcome.case, before.outcomes[slug].case) for slug, outcome in now.outcomes.items() if slug in before.outcomes
    ]
    return [case.title for case, old in shared if not is_same_load(case, old)]


def case_changes(now: Outcome, before: Outcome, earlier: run_changes.Earlier | None = None) -> list[Change]:
    """Return the changes of the case's main figure from the run `before` to the run `now`, one for each configuration.
    Empty if the figure is missing or invalid in one of the runs.
    """
    if now.words or before.words:
        return []
    return run_changes.changes(now.rounds, before.rounds, earlier or {}, [now.case.figure])


def _table(sides: Sequence[Side], slug: str) -> Table:
    first = sides[0].outcomes[slug]
    changes = [{item.label: item for item in case_changes(side.outcomes[slug], first)} for side in sides[1:]]
    labels = dict.fromkeys(item.label for side in sides for item in side.outcomes[slug].rounds)
    rows = []
    for label in labels:
        cells = []
        for number, side in enumerate(sides):
            outcome = side.outcomes[slug]
            cells.append(figure_cell(first.case.figure, outcome.figures(label), outcome.words, unit=True))
            if number:
                cells.append(_ratio(changes[number - 1].get(label)))
        rows.append([Cell(label), *cells])
    head = ["Web server", sides[0].name]
    for side in sides[1:]:
        head += [side.name, "Relative to the first run"]
    return Table(slug, first.case.title, head, rows, "Median of all rounds and its confidence interval.")


def _ratio(change: Change | None) -> Cell:
    if change is None:
        return NONE
    return Cell(f"{change.ratio.value:.3f}", change.ratio.value, change_texts.verdict(change))
