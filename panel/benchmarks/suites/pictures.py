"""Charts of a suite: own measurements next to published ones. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from panel.benchmarks.charts import drawings, pictures
from panel.benchmarks.charts.svg import Chart, Table
from panel.benchmarks.statistics.summary import BY_NAME
from panel.benchmarks.suites import published
from panel.benchmarks.suites.definitions import Setup, Suite
from panel.benchmarks.suites.tables import Outcome, printed_value

ELSEWHERE = "(published)"


def beside(suite: Suite, setups: Sequence[Setup], group: Sequence[Outcome]) -> Chart | None:
    """One bar for each own and each published server, by link and protocol if the case has them."""
    figure = BY_NAME[group[0].case.figure]
    rows = [row for outcome in group for row in _rows(suite, setups, outcome)]
    if all(row["published"] for row in rows):
        return None
    for row in rows:
        row["text"] = pictures.shown(figure, row["value"])
    places = any(row["group"] for row in rows)
    table = Table(
        [*(["Case"] if places else []), "Web server", figure.label, "Interval"],
        [[*([r["group"]] if places else []), r["label"], r["text"], pictures.interval_words(figure, r)] for r in rows],
    )
    told = "; ".join(f"{row['group']} {row['label']}: {row['text']}".strip() for row in rows)
    title = group[0].case.title.split(":")[0]
    spec = drawings.bars(figure, rows)
    return Chart(f"suite-{group[0].case.source}", title, f"{title}. {told}.", spec, table)


def _rows(suite: Suite, setups: Sequence[Setup], outcome: Outcome) -> list[dict[str, Any]]:
    case = outcome.case
    place = case.title.partition(": ")[2]
    rows = []
    for setup in setups:
        found = outcome.figures(setup.label).get(case.figure)
        if found is not None:
            spread = {key: found[key] for key in ("value", "low", "high")}
            rows.append({"group": place, "label": setup.label, "published": False, **spread})
    if rows:
        for server in published.servers(suite.slug):
            value = printed_value(suite, case, server)
            if value is not None:
                label = f"{published.named(server)} {ELSEWHERE}"
                rows.append(
                    {"group": place, "label": label, "published": True, "value": value, "low": None, "high": None}
                )
    return rows
