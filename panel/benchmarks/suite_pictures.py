"""A suite's charts: what was measured here, and what others published beside it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from panel.benchmarks import pictures
from panel.benchmarks.charts import BAR, SERIES, SOFT, WIDTH, Chart, Table
from panel.benchmarks.suite_tables import Outcome, printed_value
from panel.benchmarks.suites import published
from panel.benchmarks.suites.definitions import Setup, Suite
from panel.benchmarks.summary import BY_NAME

ELSEWHERE = "(published)"


def beside(suite: Suite, setups: Sequence[Setup], group: Sequence[Outcome]) -> Chart | None:
    """One bar for each server here and each published one, by link and protocol where the case has them."""
    rows = [row for outcome in group for row in _rows(suite, setups, outcome)]
    if not any(not row["published"] for row in rows):
        return None
    figure = BY_NAME[group[0].case.figure]
    for row in rows:
        row["text"] = pictures.shown(figure, row["value"])
    top = max(row["high"] or row["value"] for row in rows)
    x = {
        "type": "quantitative",
        "axis": {"title": f"{figure.label} ({figure.unit})".replace(" ()", ""), "tickCount": 5},
        "scale": {"domain": [0, top * 1.25 or 1]},
    }
    labels = list(dict.fromkeys(row["label"] for row in rows))
    axis = {"title": None, "domain": False, "ticks": False, "labelLimit": 260}
    y = {"field": "label", "type": "nominal", "sort": labels, "axis": axis}
    layers: list[dict[str, Any]] = [
        {
            "mark": {"type": "bar", "height": {"band": 0.6}},
            "encoding": {
                "x": {"field": "value", **x},
                "color": {
                    "field": "published",
                    "type": "nominal",
                    "scale": {"domain": [False, True], "range": [BAR, SOFT]},
                    "legend": None,
                },
            },
        },
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "color": SERIES[0], "strokeWidth": 2},
            "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}},
        },
        {
            "transform": [{"calculate": "isValid(datum.high) ? datum.high : datum.value", "as": "end"}],
            "mark": {"type": "text", "align": "left", "dx": 6},
            "encoding": {"x": {"field": "end", **x}, "text": {"field": "text"}},
        },
    ]
    inner = {"width": WIDTH - 200, "height": {"step": 28}, "encoding": {"y": y}, "layer": layers}
    groups = list(dict.fromkeys(row["group"] for row in rows))
    spec: dict[str, Any] = {"data": {"values": rows}, **inner}
    if len(groups) > 1:
        facet = {"field": "group", "type": "nominal", "sort": groups, "header": {"labelOrient": "top"}}
        spec = {"data": {"values": rows}, "facet": {"row": facet}, "resolve": {"scale": {"y": "independent"}}}
        spec |= {"spacing": 14, "spec": inner}
    table = Table(
        ["Case", "Server", figure.label, "Interval"],
        [[r["group"], r["label"], r["text"], pictures.interval_words(figure, r)] for r in rows],
    )
    told = "; ".join(f"{row['group']} {row['label']}: {row['text']}".strip() for row in rows)
    title = group[0].case.title.split(":")[0]
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
                label = f"{server} {ELSEWHERE}"
                rows.append(
                    {"group": place, "label": label, "published": True, "value": value, "low": None, "high": None}
                )
    return rows
