"""Small pictures made of bars, for pages that are asked for every few seconds: drawn by the template, no engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 100, 40  # of the drawing, in its own units
GAP = 0.2  # of a column


@dataclass(frozen=True)
class Bar:
    """A rectangle of a drawing, what it stands for and how many."""

    label: str
    count: int
    percent: float
    x: float
    y: float
    width: float
    height: float


def shares(counts: Mapping[str, int]) -> list[Bar]:
    """Parts of a whole beside each other; what is nothing is left out."""
    total, at, found = sum(counts.values()), 0.0, []
    for label, count in counts.items():
        if count:
            width = WIDTH * count / total
            found.append(Bar(label, count, 100 * count / total, round(at, 3), 0, round(width, 3), HEIGHT))
            at += width
    return found


def columns(counts: Sequence[tuple[str, int]]) -> list[Bar]:
    """Columns as high as their counts, the highest over the whole height; empty without any."""
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
