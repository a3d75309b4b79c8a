"""How the charts of benchmarks are drawn: Vega-Lite specifications from rows of figures. Pure; what they show and
the tables behind them are pictures.py's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from panel.benchmarks.charts import BAND, BAR, GRID, SERIES, SOFT, WIDTH, nominal, shapes
from panel.benchmarks.summary import Figure

Spec = dict[str, Any]
Rows = Sequence[dict[str, Any]]


def _quantity(field: str, **more: Any) -> Spec:
    return {"field": field, "type": "quantitative", **more}


def bars(figure: Figure, values: Rows) -> Spec:
    """One bar for each of {"label", "value", "low", "high", "text"}, its interval across its end."""
    labels = [value["label"] for value in values]
    y = {"field": "label", "type": "nominal", "sort": labels, "axis": {"title": None, "domain": False, "ticks": False}}
    x = _quantity("value", axis={"title": f"{figure.label} ({figure.unit})", "tickCount": 5})
    top = max(value["high"] or value["value"] for value in values)
    x["scale"] = {"domain": [0, top * 1.18 or 1]}
    return {
        "width": WIDTH - 40,
        "height": {"step": 42},
        "data": {"values": values},
        "encoding": {"y": y},
        "layer": [
            {"mark": {"type": "bar", "color": BAR, "height": {"band": 0.6}}, "encoding": {"x": x}},
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule", "color": SERIES[0], "strokeWidth": 2},
                "encoding": {"x": _quantity("low"), "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "tick", "color": SERIES[0], "thickness": 2, "size": 16},
                "encoding": {"x": _quantity("value")},
            },
            {
                "transform": [{"calculate": "isValid(datum.high) ? datum.high : datum.value", "as": "end"}],
                "mark": {"type": "text", "align": "left", "dx": 6},
                "encoding": {"x": _quantity("end"), "text": {"field": "text"}},
            },
        ],
    }


def _latency_scale(points: Rows) -> Spec:
    """Logarithmic where the slowest is more than twenty times the fastest."""
    least = min((point["ms"] for point in points if point["ms"] > 0), default=1.0)
    most = max(point["ms"] for point in points)
    if most / least <= 20:
        return {"type": "linear", "zero": True}
    return {"type": "log", "domain": [least * 0.8, most * 1.25], "nice": False}


def curve(names: list[str], points: Rows, marks: Rows) -> Spec:
    """A line through {"series", "at", "ms"} for each name, with `marks` on it."""
    scale = _latency_scale(points)
    is_log = scale["type"] == "log"
    ticks = "{0: '0 %', 1: '90 %', 2: '99 %', 3: '99.9 %', 4: '99.99 %', 5: '99.999 %'}[datum.value]"
    x_axis = {"title": "Percentile of requests", "values": [0, 1, 2, 3, 4, 5], "labelExpr": ticks}
    y_axis = {"title": "Latency (ms)" + (", logarithmic" if is_log else ""), "tickCount": 6}
    series = nominal(names)
    return {
        "width": WIDTH - 40,
        "height": 240,
        "encoding": {"x": _quantity("at", axis=x_axis), "y": _quantity("ms", scale=scale, axis=y_axis)},
        "layer": [
            {
                "data": {"values": [point for point in points if point["ms"] > 0 or not is_log]},
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": series,
            },
            {
                "data": {"values": [point for point in marks if point["ms"] > 0 or not is_log]},
                "mark": {"type": "point", "filled": True, "size": 50, "opacity": 1},
                "encoding": {"color": series["color"], "shape": shapes(names)},
            },
        ],
    }


def ratios(baseline: str, rows: Rows) -> Spec:
    """{"label", "figure", "value", "low", "high"} around the line at 1, a row of charts for each figure."""
    figures = list(dict.fromkeys(row["figure"] for row in rows))
    return {
        "data": {"values": rows},
        "facet": {"row": {"field": "figure", "type": "nominal", "sort": figures, "header": {"labelOrient": "top"}}},
        "resolve": {"scale": {"y": "independent"}},
        "spacing": 12,
        "spec": {"width": WIDTH - 200, "height": {"step": 30}, "layer": _ratio_layers(baseline, rows)},
    }


def _ratio_layers(baseline: str, rows: Rows) -> list[Spec]:
    bounds = [bound for row in rows for bound in (row["low"], row["high"], row["value"]) if bound]
    reach = max(max(bounds), 1 / min(bounds), 1.1) * 1.05
    x = {
        "type": "quantitative",
        "scale": {"type": "log", "domain": [1 / reach, reach], "nice": False},
        "axis": {"title": f"Times {baseline}", "tickCount": 7, "format": ".3~g"},
    }
    y = {"field": "label", "type": "nominal", "axis": {"title": None, "ticks": False, "domain": False}}
    return [
        {"mark": {"type": "rule", "color": SOFT, "strokeDash": [4, 3]}, "encoding": {"x": {"datum": 1, **x}}},
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "strokeWidth": 3, "color": SERIES[0]},
            "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}, "y": y},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70, "color": SERIES[0], "opacity": 1},
            "encoding": {"x": {"field": "value", **x}, "y": y},
        },
    ]


def over_time(names: list[str], title: str, values: Rows) -> Spec:
    """A chart for each target: lines through {"target", "series", "t", "value"}, {"target", "from", "to"} shaded."""
    x = _quantity("t", axis={"title": "Seconds; the load is shaded", "tickCount": 8})
    y = _quantity("value", axis={"title": title, "tickCount": 4})
    layers = [
        {
            "transform": [{"filter": "isValid(datum.from)"}],
            "mark": {"type": "rect", "color": BAND, "stroke": GRID},
            "encoding": {"x": _quantity("from"), "x2": {"field": "to"}},
        },
        {
            "transform": [{"filter": "isValid(datum.value)"}],
            "mark": {"type": "line", "strokeWidth": 2},
            "encoding": {"x": x, "y": y, **nominal(names)},
        },
    ]
    return {
        "data": {"values": values},
        "facet": {"row": {"field": "target", "type": "nominal", "header": {"labelOrient": "top"}, "sort": None}},
        "spacing": 18,
        "spec": {"width": WIDTH - 60, "height": 130, "layer": layers},
    }


def history(figure: Figure, names: list[str], values: Rows, changes: Rows = ()) -> Spec:
    """A line through {"series", "at": ISO time, "value", "low", "high"} for each name; a rule down the picture where
    one of `changes` {"at", "value"} begins, and a ring round that point."""
    y = _quantity("value", axis={"title": f"{figure.label} ({figure.unit})", "tickCount": 5})
    return {
        "width": WIDTH - 40,
        "height": 220,
        "data": {"values": values},
        "encoding": {"x": {"field": "at", "type": "temporal", "axis": {"title": None, "tickCount": 6}}},
        "layer": [*_lines(y, names), *(_changes(y, changes) if changes else ())],
    }


def _lines(y: Spec, names: list[str]) -> list[Spec]:
    """A line for each name, a whisker for each interval, a mark for each value."""
    series = nominal(names)
    whisker = {"y": _quantity("low"), "y2": {"field": "high"}, "color": series["color"]}
    return [
        {"mark": {"type": "line", "strokeWidth": 1.5}, "encoding": {"y": y, **series}},
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": whisker,
        },
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
            "encoding": {"y": y, "color": series["color"], "shape": shapes(names)},
        },
    ]


def by_concurrency(figure: Figure, names: list[str], values: Rows) -> Spec:
    """A line through {"series", "concurrency", "value", "low", "high"} for each name; each step doubles."""
    y = _quantity("value", axis={"title": f"{figure.label} ({figure.unit})", "tickCount": 5})
    steps = sorted({value["concurrency"] for value in values})
    x = _quantity("concurrency", axis={"title": "Connections at once", "values": steps})
    x["scale"] = {"type": "log", "base": 2, "domain": [steps[0], steps[-1]], "nice": False}
    return {
        "width": WIDTH - 40,
        "height": 220,
        "data": {"values": values},
        "encoding": {"x": x},
        "layer": _lines(y, names),
    }


def _changes(y: Spec, changes: Rows) -> list[Spec]:
    data = {"values": list(changes)}
    words = {"type": "text", "align": "left", "dx": 4, "y": 10}
    return [
        {"data": data, "mark": {"type": "rule", "color": SOFT, "strokeDash": [4, 3]}},
        {
            "data": data,
            "mark": {"type": "point", "size": 220, "filled": False, "color": SOFT, "strokeWidth": 2},
            "encoding": {"y": y},
        },
        {"data": data, "mark": words, "encoding": {"text": {"value": "change"}}},
    ]
