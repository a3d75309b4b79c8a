"""Charts of runs, comparisons and histories, built from stored figures. Pure functions; drawings.py has the
specifications.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import TypedDict

from panel.benchmarks.charts import drawings
from panel.benchmarks.records import FigureEstimate, FigureRatio, HistoryPoint, Spread, Summary, TargetSummary
from panel.benchmarks.runs.measured import Measured
from panel.benchmarks.statistics.changepoints import change_points
from panel.benchmarks.statistics.summary import BY_NAME, Figure
from panel.core.charts import Chart, Table


class RatioRow(FigureRatio):
    """One row of the ratio chart. `verdict` is in words for readers, as `verdict_words` returns it."""

    label: str
    figure: str
    text: str


class Point(TypedDict):
    """One point of a latency curve. `at` is -log10(1 - percentile / 100): 0 for 0 %, 1 for 90 %, 2 for 99 %."""

    series: str
    at: float
    ms: float


class Sample(TypedDict):
    """One sample of a process tree, `t` seconds after the start. `value` is CPU time in percent of one CPU, or memory
    in MiB.
    """

    target: str
    series: str
    t: float
    value: float


class ConcurrencyPoint(Spread):
    series: str
    concurrency: int


_TREES = {"server": "Web server", "application": "Application", "tool": "Load tool"}
_MIB = 1024 * 1024


def number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def shown(figure: Figure, value: float | None) -> str:
    """Format a value with its unit: "12,345 requests/s", "9.5 MiB"."""
    if value is None:
        return "–"
    return f"{bare(figure, value)} {'MiB' if figure.unit == 'bytes' else figure.unit}".rstrip()


def bare(figure: Figure, value: float | None) -> str:
    """Format a value without its unit, with a useful number of digits. Bytes are converted to MiB."""
    if figure.unit == "bytes" and value is not None:
        return number(value / _MIB)
    if figure.unit == "ms" and value is not None and value >= 10:
        return number(value, 0 if value >= 1000 else 1)
    if figure.name == "availability_percent" and value == 100:
        return "100"
    return number(value, figure.digits)


def bars(targets: Sequence[TargetSummary], name: str) -> Chart | None:
    """Bar chart of the figure `name`, one bar with its interval for each target. None if no target has the figure."""
    figure = BY_NAME[name]
    rows = [(target["label"], target["figures"][name]) for target in targets if name in target["figures"]]
    if not rows:
        return None
    values = [
        {"label": label, "value": found["value"], "low": found["low"], "high": found["high"]} for label, found in rows
    ]
    for value, (_, found) in zip(values, rows, strict=True):
        value["text"] = shown(figure, found["value"])
    spec = drawings.bars(figure, values)
    table = Table(
        ["Target", f"Median ({figure.unit})", "Interval", "Confidence", "Rounds"],
        [[label, shown(figure, f["value"]), interval_words(figure, f), sure(f), str(f["rounds"])] for label, f in rows],
    )
    told = "; ".join(f"{label}: {shown(figure, found['value'])}" for label, found in rows)
    return Chart(name, figure.label, f"{figure.label}, median of all rounds. {told}.", spec, table)


def interval_words(figure: Figure, found: Spread) -> str:
    if found["low"] is None:
        return "–"
    return f"{bare(figure, found['low'])} to {shown(figure, found['high'])}"


def sure(found: FigureEstimate) -> str:
    """Format the confidence of a figure's interval in percent, such as "75 %"; "–" if the figure has no interval."""
    return "–" if found["confidence"] is None else f"{100 * found['confidence']:.0f} %"


_MOST_SAMPLES = 120
MARKED = (50, 90, 99, 99.9, 99.99)


def _on_curve(targets: Sequence[TargetSummary], percents: Sequence[float] = ()) -> list[Point]:
    """Return the points of the latency curves of the targets. If `percents` is given, only these percentiles are
    included.
    The point at 100 % is left out, because it would be at infinity on the logarithmic axis.
    """
    return [
        {"series": target["label"], "at": -math.log10(1 - percent / 100.0), "ms": ms}
        for target in targets
        for percent, ms in target["curve"]
        if percent < 100 and (not percents or percent in percents)
    ]


def curve(targets: Sequence[TargetSummary]) -> Chart | None:
    """Line chart of latency by percentile. The axis of percentiles is stretched towards 100 % to show the slowest
    requests.
    """
    drawn = [target for target in targets if target["curve"]]
    if not drawn:
        return None
    names = [target["label"] for target in drawn]
    spec = drawings.curve(names, _on_curve(drawn), _on_curve(drawn, MARKED))
    percents = sorted({percent for target in drawn for percent, _ in target["curve"]})
    by_target = [{point[0]: point[1] for point in target["curve"]} for target in drawn]
    rows = [[f"{percent:g} %", *(number(found.get(percent), 3) for found in by_target)] for percent in percents]
    label = f"Latency by percentile for {', '.join(names)}; the table below shows the figures."
    return Chart(
        "latency", "Latency by percentile", label, spec, Table(["Percentile", *(f"{n} (ms)" for n in names)], rows)
    )


def ratios(summary: Summary) -> Chart | None:
    """Chart of the ratios of each target to the first target. If an interval contains 1, the difference is not
    significant.
    """
    rows: list[RatioRow] = [
        {
            **found,
            "label": ratio["label"],
            "figure": BY_NAME[name].label,
            "verdict": verdict_words(name, found),
            "text": number(found["value"], 2),
        }
        for ratio in summary.get("ratios", [])
        for name, found in ratio["figures"].items()
    ]
    if not rows:
        return None
    baseline = summary["ratios"][0]["baseline"]
    spec = drawings.ratios(baseline, rows)
    table = Table(
        ["Metric", "Target", "Ratio", "Interval", "Confidence", "Verdict"],
        [[row["figure"], row["label"], number(row["value"], 3), _span(row), sure(row), row["verdict"]] for row in rows],
    )
    told = "; ".join(f"{row['figure']} of {row['label']}: {number(row['value'], 2)}, {row['verdict']}" for row in rows)
    return Chart("ratios", f"Relative to {baseline}", f"{told}.", spec, table)


def _span(found: Spread) -> str:
    return "–" if found["low"] is None else f"{found['low']:.3f} to {found['high']:.3f}"


def verdict_words(name: str, found: FigureRatio) -> str:
    """Return a ratio's verdict in words: "better", "worse", "no significant difference", or "too few rounds to
    compare".
    """
    if found["verdict"] == "too_few":
        return "too few rounds to compare"
    if found["verdict"] == "no_difference":
        return "no significant difference"
    return "better" if found["verdict"] == BY_NAME[name].better else "worse"


def _samples_of(rounds: Iterable[Measured], column: int) -> list[Sample]:
    """Samples of all process trees of the rounds, as percent of one CPU (`column` 1) or MiB of memory (`column` 2)."""
    return [
        {
            "target": measured.label,
            "series": words,
            "t": at,
            "value": round(value / (1 if column == 1 else _MIB), 2),
        }
        for measured in rounds
        for tree, words in _TREES.items()
        for at, value in thinned(measured.samples.get(tree, []), column)
    ]


def thinned(samples: Sequence[Sequence[float]], column: int) -> list[tuple[float, float]]:
    """Reduce samples [t_s, cpu_percent, rss_bytes] to about `_MOST_SAMPLES` pairs (second, value). Longer series are
    divided into intervals of whole seconds, each with its mean CPU (`column` 1) or its maximum memory (`column` 2).
    """
    if len(samples) <= _MOST_SAMPLES:
        return [(sample[0], sample[column]) for sample in samples]
    step = math.ceil((samples[-1][0] - samples[0][0]) / _MOST_SAMPLES)
    own: dict[int, list[Sequence[float]]] = {}
    for sample in samples:
        own.setdefault(int(sample[0] // step), []).append(sample)
    join = statistics.fmean if column == 1 else max
    return [
        (round(statistics.fmean(sample[0] for sample in part), 2), join([sample[column] for sample in part]))
        for part in own.values()
    ]


def over_time(rounds: Iterable[Measured], column: int) -> Chart | None:
    """Chart of CPU (`column` 1) or memory (`column` 2) of the process trees in each target's median round, with the
    load shaded.
    """
    chosen = median_rounds(rounds)
    cpu = column == 1
    values = _samples_of(chosen, column)
    if not values:
        return None
    rows = [[row["target"], row["series"], f"{row['t']:.1f}", number(row["value"], 1)] for row in values]
    bands = [
        {"target": measured.label, "from": begin, "to": end}
        for measured in chosen
        for name, begin, end in measured.phases
        if name == "load"
    ]
    names = [words for words in _TREES.values() if any(value["series"] == words for value in values)]
    unit = "CPU (%; 100 is one CPU)" if cpu else "Resident memory (MiB)"
    spec = drawings.over_time([measured.label for measured in chosen], names, [*values, *bands])
    what = "CPU" if cpu else "Memory"
    peaks = "; ".join(
        f"{m.label}: web server at most {number(max(s[column] for s in m.samples['server']) / (1 if cpu else _MIB), 1)}"
        for m in chosen
        if m.samples.get("server")
    )
    heading = "CPU over time (%; 100 is one CPU)" if cpu else "Memory over time (resident MiB)"
    table = Table(["Target", "Processes", "Time (s)", unit], rows)
    return Chart(
        "cpu" if cpu else "memory",
        heading,
        f"{what} of the processes in the median round. Maxima: {peaks}.",
        spec,
        table,
    )


def median_rounds(rounds: Iterable[Measured]) -> list[Measured]:
    """Return for each target the round with the median throughput."""
    own: dict[int, list[Measured]] = {}
    for measured in rounds:
        if measured.metrics is not None:
            own.setdefault(measured.target, []).append(measured)
    return [_middle(own[position]) for position in sorted(own)]


def _middle(rounds: list[Measured]) -> Measured:
    ordered = sorted(rounds, key=lambda measured: measured.metrics.throughput_rps if measured.metrics else 0.0)
    return ordered[(len(ordered) - 1) // 2]


def history(points: Sequence[HistoryPoint], name: str) -> Chart | None:
    """Chart of one figure over time, from points {"at": ISO time, "label", "value", "low", "high", "title"} of a
    scenario's runs. Statistically significant changes are marked in the chart and in its table.
    """
    figure = BY_NAME[name]
    if not points:
        return None
    names = list(dict.fromkeys(point["label"] for point in points))[:8]
    marked = changes_of(points, name)
    values = [{**point, "series": point["label"]} for point in points if point["label"] in names]
    changed = [points[index] for index in marked if points[index]["label"] in names]
    spec = drawings.history(figure, names, values, changed)
    rows = [
        [*_when_and_what(point), shown(figure, point["value"]), marked.get(index, "")]
        for index, point in enumerate(points)
    ]
    label = f"{figure.label} of {len(points)} measurements over time; the table below shows the figures."
    told = [f"{points[index]['label']}, {points[index]['at'][:10]}: {words}." for index, words in marked.items()]
    table = Table(["Time (UTC)", "Run", "Target", figure.label, "Change"], rows)
    return Chart("history", f"{figure.label} over time", " ".join([label, *told]), spec, table)


def _when_and_what(point: HistoryPoint) -> list[str]:
    return [point["at"][:16].replace("T", " "), point["title"], point["label"]]


def changes_of(points: Sequence[HistoryPoint], name: str) -> dict[int, str]:
    """Return {index in `points`: description} for each significant change of the figure `name`, separately by target.
    The index is that of the first point after the change.
    """
    better = BY_NAME[name].better
    found = {}
    for label in dict.fromkeys(point["label"] for point in points):
        own = [index for index, point in enumerate(points) if point["label"] == label]
        for change in change_points([points[index]["value"] for index in own]):
            judged = "" if not better else ", better" if (change.ratio > 1) == (better == "higher") else ", worse"
            times = "up from zero" if math.isinf(change.ratio) else f"{number(change.ratio, 2)} × the previous level"
            words = f"{times}{judged} (p = {number(change.chance, 3)})"
            found[own[change.index]] = words
    return found


def by_concurrency(runs: Sequence[tuple[int, Summary]]) -> Chart | None:
    """Chart of throughput by number of concurrent connections; None unless a target has at least two such numbers.
    `runs` are pairs of a number of connections and the summary of the run with this number.
    """
    points: list[ConcurrencyPoint] = [
        {"series": target["label"], "concurrency": concurrency, **_spread(target["figures"]["throughput_rps"])}
        for concurrency, summary in sorted(runs, key=lambda run: run[0])
        for target in summary.get("targets", [])
        if "throughput_rps" in target["figures"]
    ]
    names = [name for name in dict.fromkeys(p["series"] for p in points) if _steps(points, name) > 1][:8]
    if not names:
        return None
    drawn = [point for point in points if point["series"] in names]
    figure = BY_NAME["throughput_rps"]
    rows = [
        [point["series"], str(point["concurrency"]), shown(figure, point["value"]), interval_words(figure, point)]
        for point in drawn
    ]
    best = {name: max((p for p in drawn if p["series"] == name), key=lambda p: p["value"]) for name in names}
    told = "; ".join(
        f"{n}: maximum of {shown(figure, p['value'])} at {p['concurrency']} connections" for n, p in best.items()
    )
    table = Table(["Target", "Concurrent connections", figure.label, "Interval"], rows)
    spec = drawings.by_concurrency(figure, names, drawn)
    return Chart("concurrency", "Throughput by concurrency", f"Throughput by concurrency. {told}.", spec, table)


def _spread(found: Spread) -> Spread:
    return {"value": found["value"], "low": found["low"], "high": found["high"]}


def _steps(points: Sequence[ConcurrencyPoint], name: str) -> int:
    return len({point["concurrency"] for point in points if point["series"] == name})
