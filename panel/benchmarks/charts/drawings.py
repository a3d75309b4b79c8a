"""Vega-Lite specifications of the benchmark charts, built from rows of figures. Pure functions. pictures.py chooses the
charts and builds their data tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from panel.benchmarks.statistics.summary import Figure
from panel.core.charts import BAND, BAR, GRID, ON_TOP, SERIES, SOFT, WIDTH, Spec, date_axis, nominal, shapes

Rows = Sequence[Mapping[str, Any]]
_INNER = WIDTH - 40  # px between the axes
_LONGEST = 44  # characters of a row's name
_HALF = 8  # vertical offset in px of text above the middle of a row, and of the drawing below it


def _quantity(field: str, **more: Any) -> Spec:
    return {"field": field, "type": "quantitative", **more}


# Name and figure of a row, on a line of their own above the drawing. The text begins at the left edge and grows inward,
# so no font is cut off, and a phone shows it without scrolling.
_ABOVE: Spec = {
    "mark": {"type": "text", "baseline": "middle", "dy": -_HALF, "align": "left"},
    "encoding": {"x": {"value": 0}, "text": {"field": "words"}},
}


def _named(rows: Rows) -> list[dict[str, object]]:
    return [{**row, "words": f"{_shortened(row['label'])}: {row['text']}"} for row in rows]


def _shortened(label: str) -> str:
    """Shorten a label of more than `_LONGEST` characters in the middle, so that its start (the site) and end (the
    server) remain.
    """
    return label if len(label) <= _LONGEST else f"{label[:22]}…{label[-(_LONGEST - 23) :]}"


def _by_label(rows: Rows) -> Spec:
    """Return the Vega-Lite encoding of the y axis: one chart row for each label, in the order of `rows`.
    The axis shows no labels, because the layer `_ABOVE` prints each label above its bar.
    """
    labels = list(dict.fromkeys(row["label"] for row in rows))
    return {"field": "label", "type": "nominal", "sort": labels, "axis": None}


def _facets(field: str, rows: Rows, each: Spec) -> Spec:
    """Return a specification with one chart `each` for every value of `field` in `rows`, one chart below the other."""
    values = list(dict.fromkeys(row[field] for row in rows))
    row = {"field": field, "type": "nominal", "sort": values, "header": {"labelOrient": "top"}}
    facets: Spec = {"data": {"values": _named(rows)}, "facet": {"row": row}, "resolve": {"scale": {"y": "independent"}}}
    return facets | {"spacing": 16, "spec": each}


def bars(figure: Figure, rows: Rows) -> Spec:
    """Bar chart with one bar and confidence interval for each of `rows` {"label", "value", "low", "high", "text"}.
    If the rows have different values of "group", each group has its own chart. Bars of rows with "published" have
    another color.
    """
    top = max(row["high"] or row["value"] for row in rows)
    title = f"{figure.label} ({figure.unit})".replace(" ()", "")
    x = _quantity("value", axis={"title": title, "tickCount": 5}, scale={"domain": [0, top * 1.02 or 1]})
    colour = {"condition": {"test": "datum.published", "value": SOFT}, "value": BAR}
    inner: Spec = {
        "width": _INNER,
        "height": {"step": 44},
        "encoding": {"y": _by_label(rows)},
        "layer": [
            {"mark": {"type": "bar", "height": 14, "yOffset": _HALF}, "encoding": {"x": x, "color": colour}},
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule", "color": SERIES[0], "strokeWidth": 2, "yOffset": _HALF},
                "encoding": {"x": _quantity("low"), "x2": {"field": "high"}},
            },
            {
                "transform": [{"filter": "!datum.published"}],
                "mark": {"type": "tick", "color": SERIES[0], "thickness": 2, "size": 18, "yOffset": _HALF},
                "encoding": {"x": _quantity("value")},
            },
            _ABOVE,
        ],
    }
    if len({row.get("group") for row in rows}) > 1:
        return _facets("group", rows, inner)
    return {"data": {"values": _named(rows)}, **inner}


def _latency_scale(points: Rows) -> Spec:
    """Return the Vega-Lite scale of the latency axis: logarithmic if the largest value is more than twenty times the
    smallest, otherwise linear.
    """
    least = min((point["ms"] for point in points if point["ms"] > 0), default=1.0)
    most = max(point["ms"] for point in points)
    if most / least <= 20:
        return {"type": "linear", "zero": True}
    return {"type": "log", "domain": [least * 0.8, most * 1.25], "nice": False}


def curve(names: list[str], points: Rows, marks: Rows) -> Spec:
    """Line chart of latency by percentile, with a line for each series in `names`.
    The lines connect `points` {"series", "at", "ms"}; `marks` are points that get a symbol. "at" is defined in
    pictures.Point.
    """
    scale = _latency_scale(points)
    is_log = scale["type"] == "log"
    ticks = "{0: '0 %', 1: '90 %', 2: '99 %', 3: '99.9 %', 4: '99.99 %', 5: '99.999 %'}[datum.value]"
    x_axis = {"title": "Percentile of requests", "values": [0, 1, 2, 3, 4, 5], "labelExpr": ticks}
    y_axis = {"title": "Latency (ms)" + (", logarithmic" if is_log else ""), "tickCount": 6, **ON_TOP}
    series = nominal(names)
    return {
        "width": _INNER,
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
    """Chart of ratios to the target `baseline`: one chart for each figure, with a vertical line at the ratio 1.
    `rows` are ratios {"label", "figure", "value", "low", "high", "text"}.
    """
    each = {"width": _INNER, "height": {"step": 36}, "layer": _ratio_layers(baseline, rows)}
    return _facets("figure", rows, each)


def _ratio_layers(baseline: str, rows: Rows) -> list[Spec]:
    bounds = [bound for row in rows for bound in (row["low"], row["high"], row["value"]) if bound]
    reach = max(max(bounds), 1 / min(bounds), 1.1) * 1.05
    x = {
        "type": "quantitative",
        "scale": {"type": "log", "domain": [1 / reach, reach], "nice": False},
        "axis": {"title": f"Times {baseline}", "values": _times(reach), "format": ".3~g"},
    }
    y = _by_label(rows)
    line = {"x": {"datum": 1, **x}, "y": {**y, "bandPosition": 0.5}, "y2": {"field": "label", "bandPosition": 1}}
    return [
        {
            "mark": {"type": "rule", "color": SOFT, "strokeDash": [4, 3]},
            "encoding": line,
        },
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "strokeWidth": 3, "color": SERIES[0], "yOffset": _HALF},
            "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}, "y": y},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70, "color": SERIES[0], "opacity": 1, "yOffset": _HALF},
            "encoding": {"x": {"field": "value", **x}, "y": y},
        },
        _ABOVE | {"encoding": _ABOVE["encoding"] | {"y": y}},
    ]


def _times(reach: float) -> list[float]:
    """Return at most seven round tick values for an axis of ratios from 1 / `reach` to `reach`, symmetric around 1."""
    below = (0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001)
    above = (1.05, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000)
    within = [place for place in range(len(above)) if above[place] <= reach][-3:]
    return sorted([1.0, *(steps[place] for place in within for steps in (below, above))])


def over_time(targets: list[str], names: list[str], values: Rows) -> Spec:
    """Line charts over time, one for each of `targets`, in their order. `values` are points {"target", "series", "t",
    "value"} and intervals of load {"target", "from", "to"}, which are shaded. `t`, `from` and `to` are seconds.
    """
    x = _quantity("t", axis={"title": "Time (s); the shaded time is under load", "tickCount": 8})
    y = _quantity("value", axis={"title": None, "tickCount": 4})
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
        "facet": {"row": {"field": "target", "type": "nominal", "header": {"labelOrient": "top"}, "sort": targets}},
        "spacing": 18,
        "spec": {"width": _INNER, "height": 130, "layer": layers},
    }


def history(figure: Figure, names: list[str], values: Rows, changes: Rows = ()) -> Spec:
    """Line chart over dates: a line through {"series", "at": ISO time, "value", "low", "high"} for each of `names`.
    Each of `changes` {"at", "value"} gets a vertical rule and a ring around its point.
    """
    y = _quantity("value", axis={"title": f"{figure.label} ({figure.unit})", "tickCount": 5, **ON_TOP})
    return {
        "width": _INNER,
        "height": 220,
        "data": {"values": values},
        "encoding": {"x": date_axis([datetime.fromisoformat(row["at"]) for row in values])},
        "layer": [*_lines(y, names), *(_changes(y, changes) if changes else ())],
    }


def _lines(y: Spec, names: list[str]) -> list[Spec]:
    """Return the layers of a line chart: a line for each of `names`, a symbol for each value, and a vertical rule for
    the interval of each value. `y` is the encoding of the values.
    """
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
    """Line chart by concurrency: a line through {"series", "concurrency", "value", "low", "high"} for each of `names`,
    on a base-2 logarithmic axis.
    """
    y = _quantity("value", axis={"title": f"{figure.label} ({figure.unit})", "tickCount": 5, **ON_TOP})
    steps = sorted({value["concurrency"] for value in values})
    x = _quantity("concurrency", axis={"title": "Concurrent connections", "values": steps})
    x["scale"] = {"type": "log", "base": 2, "domain": [steps[0], steps[-1]], "nice": False}
    return {
        "width": _INNER,
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
