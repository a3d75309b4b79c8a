"""Changes between two runs in words, for pages, reports and exports. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from panel.benchmarks.charts import pictures
from panel.benchmarks.runs.run_changes import Change, Reality
from panel.benchmarks.statistics.intervals import Interval
from panel.benchmarks.statistics.summary import BY_NAME
from panel.core.charts import Table

HEAD = ("Target", "Metric", "Verdict", "Before", "Now", "Ratio", "Interval", "Normal variation")


def verdict(change: Change) -> str:
    direction = "better" if change.is_better else "worse"
    return {
        Reality.REAL: f"{direction}: significant",
        Reality.LIKELY: f"{direction}, but not significant yet: {_missing(change)}",
        Reality.USUAL: "no significant difference: within the normal variation between runs",
        Reality.NONE: "no significant difference",
        Reality.TOO_FEW: "too few rounds to compare",
    }[change.reality]


def _missing(change: Change) -> str:
    if change.usual is None:
        return f"only {change.runs} earlier runs to estimate the normal variation; four are needed"
    return "each run needs four or more rounds"


def sentence(change: Change) -> str:
    """Describe one change: `shop (nginx): throughput is 0.85 × the previous value (0.81 to 0.88, 95 % confidence),
    worse: significant.`
    """
    figure = BY_NAME[change.figure]
    spread = change.ratio.interval
    interval = f" ({_span(spread)}, {100 * spread.confidence:.0f} % confidence)" if spread else ""
    name = f"{figure.label[0].lower()}{figure.label[1:]}"
    return f"{change.label}: {name} is {change.ratio.value:.2f} × the previous value{interval}, {verdict(change)}."


def _span(interval: Interval) -> str:
    return f"{interval.low:.2f} to {interval.high:.2f}"


def table(changes: Sequence[Change]) -> Table:
    return Table(list(HEAD), [_row(change) for change in changes])


def _row(change: Change) -> list[str]:
    figure = BY_NAME[change.figure]
    shown = [pictures.shown(figure, value) for value in (change.before, change.now)]
    spread, usual = change.ratio.interval, change.usual
    sure = f"{_span(spread)}, {100 * spread.confidence:.0f} % confidence" if spread else "–"
    range_ = (
        f"{pictures.shown(figure, usual.low)} to {pictures.shown(figure, usual.high)}" if usual else "not known yet"
    )
    return [change.label, figure.label, verdict(change), *shown, f"{change.ratio.value:.3f}", sure, range_]
