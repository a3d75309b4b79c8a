"""Charts of a suite run: measured figures next to published ones. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from panel.benchmarks.charts import drawings, pictures
from panel.benchmarks.records import Spread
from panel.benchmarks.statistics.summary import BY_NAME
from panel.benchmarks.suites import published
from panel.benchmarks.suites.definitions import Case, Setup, Suite
from panel.benchmarks.suites.tables import Outcome, printed_value
from panel.core.charts import Chart, Table

ELSEWHERE = "(published)"


class BarRow(Spread):
    """One bar of a chart. Bars of the same `group` share a chart."""

    group: str
    label: str
    text: str
    published: bool


def beside(suite: Suite, setups: Sequence[Setup], group: Sequence[Outcome]) -> Chart | None:
    """Bar chart of one published case: one bar for each measured and each published web server, grouped by link and
    protocol. None if nothing was measured.
    """
    figure = BY_NAME[group[0].case.figure]
    rows = [row for outcome in group for row in _rows(suite, setups, outcome)]
    if all(row["published"] for row in rows):
        return None
    places = any(row["group"] for row in rows)
    table = Table(
        [*(["Case"] if places else []), "Web server", figure.label, "Interval"],
        [[*([r["group"]] if places else []), r["label"], r["text"], pictures.interval_words(figure, r)] for r in rows],
    )
    told = "; ".join(f"{row['group']} {row['label']}: {row['text']}".strip() for row in rows)
    title = group[0].case.title.split(":")[0]
    spec = drawings.bars(figure, rows)
    return Chart(f"suite-{group[0].case.source}", title, f"{title}. {told}.", spec, table)


def _rows(suite: Suite, setups: Sequence[Setup], outcome: Outcome) -> list[BarRow]:
    case = outcome.case
    rows: list[BarRow] = []
    for setup in setups:
        found = outcome.figures(setup.label).get(case.figure)
        if found is not None:
            rows.append(_row(case, setup.label, found))
    if rows:
        for server in published.servers(suite.slug):
            value = printed_value(suite, case, server)
            if value is not None:
                label = f"{published.named(server)} {ELSEWHERE}"
                rows.append(_row(case, label, {"value": value, "low": None, "high": None}, published=True))
    return rows


def _row(case: Case, label: str, found: Spread, *, published: bool = False) -> BarRow:
    return {
        "group": case.title.partition(": ")[2],
        "label": label,
        "text": pictures.shown(BY_NAME[case.figure], found["value"]),
        "published": published,
        "value": found["value"],
        "low": found["low"],
        "high": found["high"],
    }
