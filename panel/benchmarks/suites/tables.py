"""Result tables of a suite in the layout of its publication, next to the published figures. Pure functions.
Pages, exports and reports print the same tables: a cell has a text for people and a value for programs.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from panel.benchmarks.charts import pictures
from panel.benchmarks.records import FigureEstimate, Summary
from panel.benchmarks.runs.measured import Measured
from panel.benchmarks.statistics.summary import BY_NAME
from panel.benchmarks.suites import published
from panel.benchmarks.suites.definitions import Case, Setup, Suite

PUBLISHED = "published"


@dataclass(frozen=True)
class Cell:
    """One table cell: `text` for people, `value` for programs. `detail` is the interval, or the reason for a missing
    value.
    `published`: whether the value comes from the publication. `link`: URL fragment of the details on the same page.
    """

    text: str
    value: float | None = None
    detail: str = ""
    published: bool = False
    link: str = ""


@dataclass(frozen=True)
class Table:
    """A table of a suite's results. `names` is the number of cells that identify a row, at the start of each row."""

    name: str
    title: str
    head: list[str]
    rows: list[list[Cell]]
    note: str = ""
    names: int = 1


@dataclass(frozen=True)
class Outcome:
    """One case with its status and result. `summary` and `rounds` are empty until the case's run has them."""

    case: Case
    status: str
    summary: Summary = field(default_factory=Summary)
    rounds: list[Measured] = field(default_factory=list)

    @property
    def words(self) -> str:
        """The reason, in words, why the figure is missing or invalid; "" for a finished case."""
        return {"finished": "", "invalid": "invalid", "running": "running"}.get(self.status, self.status)

    def figures(self, label: str) -> dict[str, FigureEstimate]:
        targets = self.summary.get("targets", [])
        found: dict[str, FigureEstimate] = next(
            (target["figures"] for target in targets if target["label"] == label), {}
        )
        return found


NONE = Cell("–")


def tables(suite: Suite, setups: Sequence[Setup], outcomes: Sequence[Outcome]) -> list[Table]:
    """Return the tables of a suite run, in the order of the suite's cases."""
    build = {"rounds": _rounds, "grid": _grid, "measures": _measures}[suite.table]
    return [build(suite, setups, group) for group in grouped(outcomes)]


def grouped(outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    """Group the outcomes of cases that belong to the same published case, in the order of the cases."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.case.source, []).append(outcome)
    return list(groups.values())


def number_cell(value: float | None, digits: int, *, detail: str = "", published: bool = False) -> Cell:
    return Cell(pictures.number(value, digits), value, detail, published)


def figure_cell(name: str, figures: dict[str, FigureEstimate], words: str = "", *, unit: bool = False) -> Cell:
    """Return the table cell of a figure: the median of the rounds and its interval, from `summary.summarize`.
    `words` tells why the figure is missing or invalid. `unit`: whether the text of the cell contains the unit. False
    for tables whose note has the unit.
    """
    found = figures.get(name)
    if found is None:
        return Cell(words or "–")
    figure = BY_NAME[name]
    said = pictures.shown if unit else pictures.bare
    interval = ""
    # An interval without width means that all rounds had the same value, so it is omitted.
    low, high = found["low"], found["high"]
    if low is not None and high is not None and low < high:
        interval = f"{pictures.bare(figure, low)} to {said(figure, high)}"
    detail = ", ".join(part for part in (interval, words) if part)
    return Cell(said(figure, found["value"]), found["value"], detail)


def averages(outcome: Outcome, labels: Sequence[str], name: str) -> dict[str, float]:
    """Return the mean of a figure over the rounds, by configuration. Configurations without values are left out."""
    figure = BY_NAME[name]
    found = {}
    for label in labels:
        values = [figure.of(measured) for measured in outcome.rounds if measured.label == label]
        known = [value for value in values if value is not None]
        if known:
            found[label] = statistics.fmean(known)
    return found


def ratings(average: dict[str, float]) -> dict[str, int]:
    """Return {name: rating} as the publication computes ratings: 100 times an average divided by the slowest average.
    Empty if the slowest average is 0.
    """
    slowest = min(average.values(), default=0.0)
    return {name: round(100 * value / slowest) for name, value in average.items()} if slowest > 0 else {}


# --- each round, average and rating ---


def _rounds(suite: Suite, setups: Sequence[Setup], group: Sequence[Outcome]) -> Table:
    (outcome,) = group
    case = outcome.case
    labels = [setup.label for setup in setups]
    average = averages(outcome, labels, case.figure)
    rating = ratings(average)
    printed = published.case(suite.slug, case.source) or {}
    rows = []
    for setup in setups:
        own = [BY_NAME[case.figure].of(m) for m in outcome.rounds if m.label == setup.label]
        cells = [number_cell(value, 0) for value in own[: case.rounds]]
        cells += [NONE] * (case.rounds - len(cells))
        cells += [number_cell(average.get(setup.label), 0), number_cell(rating.get(setup.label), 0)]
        cells += [figure_cell(case.figure, outcome.figures(setup.label), outcome.words)]
        rows.append([Cell(setup.label), *cells, *_printed(printed, setup.published)])
    known = {setup.published for setup in setups}
    for server in printed.get("average", {}):
        if server not in known:
            rows.append(
                [
                    Cell(published.named(server), detail=PUBLISHED),
                    *[NONE] * (case.rounds + 3),
                    *_printed(printed, server),
                ]
            )
    head = ["Web server", *(f"Round {number}" for number in range(1, case.rounds + 1)), "Average", "Rating"]
    head += ["Median and interval", "Published average", "Published rating"]
    return Table(case.source, case.title, head, rows, "Requests per second; rating: 100 × average / slowest average.")


def _printed(case: dict[str, Any], server: str) -> list[Cell]:
    values = [case.get(kind, {}).get(server) for kind in ("average", "rating")]
    return [number_cell(value, 0, published=True) if value is not None else NONE for value in values]


# --- one figure by link and protocol ---

_PROTOCOL_WORDS = {"h1": "HTTP/1.1", "h2": "HTTP/2", "h3": "HTTP/3"}


def _grid(suite: Suite, setups: Sequence[Setup], group: Sequence[Outcome]) -> Table:
    first = group[0].case
    servers = list(published.servers(suite.slug))
    rows = []
    for outcome in group:
        case = outcome.case
        link = case.network.words if case.network else "no limit"
        cells = [Cell(link), Cell(_PROTOCOL_WORDS[case.protocol])]
        for setup in setups:
            spoken = case.protocol in setup.protocols
            cells.append(figure_cell(case.figure, outcome.figures(setup.label), outcome.words) if spoken else NONE)
        for server in servers:
            value = printed_value(suite, case, server)
            cells.append(
                NONE if value is None else number_cell(value, 1 if case.figure == "total_s" else 0, published=True)
            )
        rows.append(cells)
    unit = BY_NAME[first.figure].unit
    head = [
        "Link",
        "Protocol",
        *(setup.label for setup in setups),
        *(f"{published.named(name)}, published" for name in servers),
    ]
    return Table(first.source, first.title.split(":")[0], head, rows, f"{BY_NAME[first.figure].label} in {unit}.", 2)


# --- many measures ---

_MEASURES = (
    *(("transactions", "Transactions, median"), ("latency_max", "Longest transaction")),
    *(("availability_percent", "Availability"), ("server_cpu", "Web server CPU"), ("server_rss", "Web server memory")),
    *(("application_cpu", "PHP CPU"), ("application_rss", "PHP memory")),
)


def printed_value(suite: Suite, case: Case, server: str) -> float | None:
    """Return the published figure of a server for the load of `case`; None if the publication has no such figure.
    The publications of suites with `grid` tables have figures only for HTTP/3.
    """
    if not case.as_published or (suite.table == "grid" and case.protocol != "h3"):
        return None
    return published.value(suite.slug, case.source, case.row, server)


def _measures(suite: Suite, setups: Sequence[Setup], group: Sequence[Outcome]) -> Table:
    (outcome,) = group
    case = outcome.case
    average = averages(outcome, [setup.label for setup in setups], case.figure)
    rows = []
    for setup in setups:
        figures = outcome.figures(setup.label)
        cells = [
            figure_cell(name, figures, outcome.words if name == case.figure else "", unit=True) for name, _ in _MEASURES
        ]
        rows.append([Cell(setup.label), number_cell(average.get(setup.label), 0), *cells])
    head = ["Web server", "Transactions, average", *(words for _, words in _MEASURES)]
    return Table(case.source, case.title, head, rows, "The source publishes these figures only as charts.")
