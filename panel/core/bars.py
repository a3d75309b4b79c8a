"""Bar charts for pages that refresh every few seconds. A template draws them, without a chart engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 100, 40  # size of the drawing, in its own units
GAP = 0.2  # fraction of a column


@dataclass(frozen=True)
class Bar:
    """One rectangle of a bar chart, in the coordinates of the drawing, with the bar's label, count and percentage."""

    label: str
    count: int
    percent: float
    x: float
    y: float
    width: float
    height: float


def shares(counts: Mapping[str, int]) -> list[Bar]:
    """Return the segments of a stacked bar. Widths are proportional to the counts; zero counts have no segment."""
    total, at, found = sum(counts.values()), 0.0, []
    for label, count in counts.items():
        if count:
            width = WIDTH * count / total
            found.append(Bar(label, count, 100 * count / total, round(at, 3), 0, round(width, 3), HEIGHT))
            at += width
    return found


def columns(counts: Sequence[tuple[str, int]]) -> list[Bar]:
    """Return the bars of a column chart; the highest bar is as high as the drawing. [] if all counts are zero."""
    total, most = sum(count for _, count in counts), max((count for _, count in counts), default=0)
    step = WIDTH / max(len(counts), 1)
    return [
        Bar(
            label,
            count,
            100 * count / total,
            round(index * step + step * GAP / 2, 3),
            round(HEIGHT - HEIGHT * count / most, 3),
            round(step * (1 - GAP), 3),
            round(HEIGHT * count / most, 3),
        )
        for index, (label, count) in enumerate(counts)
        if total
    ]
