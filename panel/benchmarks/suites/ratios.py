"""Summary table of a suite run: the throughput of each case relative to its first web server. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from panel.benchmarks.charts import pictures
from panel.benchmarks.records import FigureRatio
from panel.benchmarks.suites.definitions import Setup
from panel.benchmarks.suites.tables import NONE, Cell, Outcome, Table

_FIGURE = "throughput_rps"
_NOTE = (
    "Throughput as a multiple of the case's first web server, from alternating rounds. The "
    "confidence interval is below each multiple."
)


def glance(setups: Sequence[Setup], outcomes: Sequence[Outcome]) -> Table | None:
    """Return a table with one row for each case that has ratios; None if no case has any.
    Readers can click on the name of a case to see its details on the same page.
    """
    compared = [outcome for outcome in outcomes if outcome.summary.get("ratios")]
    if not compared:
        return None
    rows = [[Cell(item.case.title, link=f"#part-{item.case.source}"), *_cells(item, setups)] for item in compared]
    return Table("glance", "Summary", ["Case", *(setup.label for setup in setups)], rows, _note(compared))


def _cells(outcome: Outcome, setups: Sequence[Setup]) -> list[Cell]:
    ratios = {ratio["label"]: ratio["figures"].get(_FIGURE) for ratio in outcome.summary["ratios"]}
    first = outcome.summary["ratios"][0]["baseline"]
    return [
        Cell("1", 1.0, "baseline")
        if setup.label == first
        else _ratio(ratios.get(setup.label), outcome.words if setup.label in ratios else "")
        for setup in setups
    ]


def _ratio(found: FigureRatio | None, words: str) -> Cell:
    """Return the table cell of one ratio; `words` is the reason why the figure is missing or invalid, "" if it is
    valid.
    """
    if found is None:
        return Cell(words) if words else NONE
    if found["verdict"] == "too_few":
        return Cell("–", found["value"], "too few rounds")
    times = f"{pictures.number(found['value'], 2)} times"
    interval = f"{pictures.number(found['low'], 2)} to {pictures.number(found['high'], 2)}"
    same = found["verdict"] == "no_difference"
    detail = ", ".join(part for part in (interval, words) if part)
    return Cell("no significant difference" if same else times, found["value"], detail)


def _note(compared: Sequence[Outcome]) -> str:
    """Return the note of the summary table. It contains the confidence of the intervals, which depends on the number of
    rounds.
    """
    found = [ratio["figures"].get(_FIGURE) for outcome in compared for ratio in outcome.summary["ratios"]]
    sure = dict.fromkeys(pictures.sure(item) for item in found if item and item["confidence"] is not None)
    return f"{_NOTE} Intervals have {' or '.join(sure)} confidence." if sure else _NOTE
