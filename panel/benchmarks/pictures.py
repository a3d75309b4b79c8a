"""Which charts a run, a comparison and a history have: from stored figures to Vega-Lite specifications. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from panel.benchmarks.charts import BAND, BAR, GRID, SERIES, SOFT, WIDTH, Chart, Table, nominal, shapes
from panel.benchmarks.measured import Measured
from panel.benchmarks.summary import BY_NAME, Figure

_TREES = {"server": "Server", "application": "Application", "tool": "Load tool"}
_MIB = 1024 * 1024


def number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def shown(figure: Figure, value: float | None) -> str:
    """With its unit: "12,345 requests/s", "9.5 MiB"."""
    if value is None:
        return "–"
    if figure.unit == "bytes":
        return f"{value / _MIB:,.1f} MiB"
    return f"{number(value, figure.digits)} {figure.unit}".rstrip()


def bars(targets: Sequence[dict[str, Any]], name: str) -> Chart | None:
    """One bar for each target, with its interval. None when no target has the figure."""
    figure = BY_NAME[name]
    rows = [(target["label"], target["figures"][name]) for target in targets if name in target["figures"]]
    if not rows:
        return None
    values = [
        {"label": label, "value": found["value"], "low": found["low"], "high": found["high"]} for label, found in rows
    ]
    for value, (_, found) in zip(values, rows, strict=True):
        value["text"] = shown(figure, found["value"])
    labels = [label for label, _ in rows]
    y = {"field": "label", "type": "nominal", "sort": labels, "axis": {"title": None, "domain": False, "ticks": False}}
    x = {"field": "value", "type": "quantitative", "axis": {"title": f"{figure.label} ({figure.unit})", "tickCount": 5}}
    top = max(found["high"] or found["value"] for _, found in rows)
    x["scale"] = {"domain": [0, top * 1.18 or 1]}
    whisker = {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}}
    layers: list[dict[str, Any]] = [
        {"mark": {"type": "bar", "color": BAR, "height": {"band": 0.6}}, "encoding": {"x": x}},
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "color": SERIES[0], "strokeWidth": 2},
            "encoding": whisker,
        },
        {
            "mark": {"type": "tick", "color": SERIES[0], "thickness": 2, "size": 16},
            "encoding": {"x": {"field": "value", "type": "quantitative"}},
        },
        {
            "transform": [{"calculate": "isValid(datum.high) ? datum.high : datum.value", "as": "end"}],
            "mark": {"type": "text", "align": "left", "dx": 6},
            "encoding": {"x": {"field": "end", "type": "quantitative"}, "text": {"field": "text"}},
        },
    ]
    spec = {
        "width": WIDTH - 40,
        "height": {"step": 42},
        "data": {"values": values},
        "encoding": {"y": y},
        "layer": layers,
    }
    table = Table(
        ["Target", f"Median ({figure.unit})", "Interval", "Sure", "Rounds"],
        [[label, shown(figure, f["value"]), interval_words(figure, f), sure(f), str(f["rounds"])] for label, f in rows],
    )
    told = "; ".join(f"{label}: {shown(figure, found['value'])}" for label, found in rows)
    return Chart(name, figure.label, f"{figure.label}, median of the rounds. {told}.", spec, table)


def interval_words(figure: Figure, found: dict[str, Any]) -> str:
    if found["low"] is None:
        return "–"
    return f"{shown(figure, found['low'])} to {shown(figure, found['high'])}"


def sure(found: dict[str, Any]) -> str:
    """How surely the interval holds the true value: "75 %"."""
    return "–" if found["confidence"] is None else f"{100 * found['confidence']:.0f} %"


def curve(targets: Sequence[dict[str, Any]]) -> Chart | None:
    """Latency by percentile; the axis stretches towards 100 % so that the slowest requests are seen."""
    drawn = [target for target in targets if target["curve"]]
    if not drawn:
        return None
    names = [target["label"] for target in drawn]
    values = [
        {"series": target["label"], "at": -math.log10(1 - percent / 100.0), "ms": ms}
        for target in drawn
        for percent, ms in target["curve"]
        if percent < 100
    ]
    marks = [
        {"series": target["label"], "at": -math.log10(1 - percent / 100.0), "ms": ms}
        for target in drawn
        for percent, ms in target["curve"]
        if percent in (50, 90, 99, 99.9, 99.99)
    ]
    least = min((value["ms"] for value in values if value["ms"] > 0), default=1.0)
    most = max(value["ms"] for value in values)
    log = most / least > 20
    y_scale: dict[str, Any] = {"type": "linear", "zero": True}
    if log:
        y_scale = {"type": "log", "domain": [least * 0.8, most * 1.25], "nice": False}
    ticks = "{0: '0 %', 1: '90 %', 2: '99 %', 3: '99.9 %', 4: '99.99 %', 5: '99.999 %'}[datum.value]"
    x_axis = {"title": "Percentile of requests", "values": [0, 1, 2, 3, 4, 5], "labelExpr": ticks}
    y_axis = {"title": "Latency (ms)" + (", logarithmic" if log else ""), "tickCount": 6}
    encoding = {
        "x": {"field": "at", "type": "quantitative", "axis": x_axis},
        "y": {"field": "ms", "type": "quantitative", "scale": y_scale, "axis": y_axis},
    }
    series = nominal(names)
    spec = {
        "width": WIDTH - 40,
        "height": 240,
        "encoding": encoding,
        "layer": [
            {
                "data": {"values": [value for value in values if value["ms"] > 0 or not log]},
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": series,
            },
            {
                "data": {"values": [value for value in marks if value["ms"] > 0 or not log]},
                "mark": {"type": "point", "filled": True, "size": 50, "opacity": 1},
                "encoding": {"color": series["color"], "shape": shapes(names)},
            },
        ],
    }
    percents = sorted({percent for target in drawn for percent, _ in target["curve"]})
    by_target = [dict(map(tuple, target["curve"])) for target in drawn]
    rows = [[f"{percent:g} %", *(number(found.get(percent), 3) for found in by_target)] for percent in percents]
    label = f"Latency by percentile for {', '.join(names)}; the table below holds the figures."
    return Chart(
        "latency", "Latency by percentile", label, spec, Table(["Percentile", *(f"{n} (ms)" for n in names)], rows)
    )


def ratios(summary: dict[str, Any]) -> Chart | None:
    """Each target's ratios to the first; what crosses the line at 1 shows no difference."""
    rows = [
        {
            "label": ratio["label"],
            "figure": BY_NAME[name].label,
            **{key: found[key] for key in ("value", "low", "high", "confidence", "rounds")},
            "verdict": verdict_words(name, found),
        }
        for ratio in summary.get("ratios", [])
        for name, found in ratio["figures"].items()
    ]
    if not rows:
        return None
    figures = list(dict.fromkeys(row["figure"] for row in rows))
    bounds = [bound for row in rows for bound in (row["low"], row["high"], row["value"]) if bound]
    reach = max(max(bounds), 1 / min(bounds), 1.1) * 1.05
    x = {
        "type": "quantitative",
        "scale": {"type": "log", "domain": [1 / reach, reach], "nice": False},
        "axis": {"title": f"Times {summary['ratios'][0]['baseline']}", "tickCount": 7, "format": ".3~g"},
    }
    y = {"field": "label", "type": "nominal", "axis": {"title": None, "ticks": False, "domain": False}}
    spec = {
        "data": {"values": rows},
        "facet": {"row": {"field": "figure", "type": "nominal", "sort": figures, "header": {"labelOrient": "top"}}},
        "resolve": {"scale": {"y": "independent"}},
        "spacing": 12,
        "spec": {
            "width": WIDTH - 200,
            "height": {"step": 30},
            "layer": [
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
            ],
        },
    }
    table = Table(
        ["Figure", "Target", "Ratio", "Interval", "Sure", "Verdict"],
        [[row["figure"], row["label"], number(row["value"], 3), _span(row), sure(row), row["verdict"]] for row in rows],
    )
    told = "; ".join(f"{row['figure']} of {row['label']}: {number(row['value'], 2)}, {row['verdict']}" for row in rows)
    return Chart("ratios", f"Compared with {summary['ratios'][0]['baseline']}", f"{told}.", spec, table)


def _span(found: dict[str, Any]) -> str:
    return "–" if found["low"] is None else f"{found['low']:.3f} to {found['high']:.3f}"


def verdict_words(name: str, found: dict[str, Any]) -> str:
    """ "better", "worse", "no difference shown", or that the rounds are too few."""
    if found["verdict"] == "too_few":
        return "too few rounds to compare"
    if found["verdict"] == "no_difference":
        return "no difference shown"
    return "better" if found["verdict"] == BY_NAME[name].better else "worse"


def over_time(rounds: Iterable[Measured], column: int) -> Chart | None:
    """CPU (column 1) or memory (column 2) of the process trees in each target's median round, the load shaded."""
    chosen = median_rounds(rounds)
    cpu = column == 1
    values, bands, rows = [], [], []
    for measured in chosen:
        for tree, words in _TREES.items():
            for sample in measured.samples.get(tree, []):
                value = sample[column] if cpu else sample[column] / _MIB
                values.append({"target": measured.label, "series": words, "t": sample[0], "value": round(value, 2)})
                rows.append([measured.label, words, f"{sample[0]:.1f}", number(value, 1)])
        bands += [
            {"target": measured.label, "from": begin, "to": end}
            for name, begin, end in measured.phases
            if name == "load"
        ]
    if not values:
        return None
    names = [words for words in _TREES.values() if any(value["series"] == words for value in values)]
    title = "CPU (%; 100 is one CPU)" if cpu else "Resident memory (MiB)"
    x = {"field": "t", "type": "quantitative", "axis": {"title": "Seconds; the load is shaded", "tickCount": 8}}
    spec = {
        "data": {"values": values + bands},
        "facet": {"row": {"field": "target", "type": "nominal", "header": {"labelOrient": "top"}, "sort": None}},
        "spacing": 18,
        "spec": {
            "width": WIDTH - 60,
            "height": 130,
            "layer": [
                {
                    "transform": [{"filter": "isValid(datum.from)"}],
                    "mark": {"type": "rect", "color": BAND, "stroke": GRID},
                    "encoding": {"x": {"field": "from", "type": "quantitative"}, "x2": {"field": "to"}},
                },
                {
                    "transform": [{"filter": "isValid(datum.value)"}],
                    "mark": {"type": "line", "strokeWidth": 2},
                    "encoding": {
                        "x": x,
                        "y": {"field": "value", "type": "quantitative", "axis": {"title": title, "tickCount": 4}},
                        **nominal(names),
                    },
                },
            ],
        },
    }
    what = "CPU" if cpu else "Memory"
    peaks = "; ".join(
        f"{m.label}: server at most {number(max(s[column] for s in m.samples['server']) / (1 if cpu else _MIB), 1)}"
        for m in chosen
        if m.samples.get("server")
    )
    heading = "CPU over time" if cpu else "Memory over time"
    table = Table(["Target", "Processes", "Second", title], rows)
    return Chart(
        "cpu" if cpu else "memory", heading, f"{what} of the processes in the median round. {peaks}.", spec, table
    )


def median_rounds(rounds: Iterable[Measured]) -> list[Measured]:
    """For each target the round whose throughput is the median one."""
    own: dict[int, list[Measured]] = {}
    for measured in rounds:
        if measured.metrics is not None:
            own.setdefault(measured.target, []).append(measured)
    return [_middle(own[position]) for position in sorted(own)]


def _middle(rounds: list[Measured]) -> Measured:
    ordered = sorted(rounds, key=lambda measured: measured.metrics.throughput_rps if measured.metrics else 0.0)
    return ordered[(len(ordered) - 1) // 2]


def history(points: Sequence[dict[str, Any]], name: str) -> Chart | None:
    """A figure of one scenario's runs over time: points {"at": ISO time, "label", "value", "low", "high", "title"}."""
    figure = BY_NAME[name]
    if not points:
        return None
    names = list(dict.fromkeys(point["label"] for point in points))[:8]
    values = [{**point, "series": point["label"]} for point in points if point["label"] in names]
    y = {"field": "value", "type": "quantitative", "axis": {"title": f"{figure.label} ({figure.unit})", "tickCount": 5}}
    x = {"field": "at", "type": "temporal", "axis": {"title": None, "tickCount": 6}}
    series = nominal(names)
    whisker = {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}, "color": series["color"]}
    spec = {
        "width": WIDTH - 40,
        "height": 220,
        "data": {"values": values},
        "encoding": {"x": x},
        "layer": [
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
        ],
    }
    rows = [
        [point["at"][:16].replace("T", " "), point["title"], point["label"], shown(figure, point["value"])]
        for point in points
    ]
    label = f"{figure.label} of {len(points)} measurements over time; the table below holds the figures."
    return Chart(
        "history", f"{figure.label} over time", label, spec, Table(["When (UTC)", "Run", "Target", figure.label], rows)
    )
