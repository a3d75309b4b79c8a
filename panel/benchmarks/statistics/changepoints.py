"""Where a history changed: a test, not a threshold. Pure and deterministic.

Hierarchical divisive search with a permutation test, as E-divisive (Matteson and James 2014, JASA 109:505) does it, on
ranks in place of distances (Pettitt 1979, Applied Statistics 28:126), so that one run far off is one run far off and no
change. A series whose values could as well have come in any other order is called changed with probability `level` at
most, whatever its distribution: the chance holds for the whole series, because parts are looked at only after it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from panel.benchmarks.statistics.intervals import median

LEVEL = 0.05
PERMUTATIONS = 999
LEAST = 3  # runs on either side: fewer are outliers
ENOUGH = 2 * LEAST + 2  # below that no arrangement is rare enough
_SEED = 20140118


@dataclass(frozen=True)
class ChangePoint:
    """From value `index` on the median is `ratio` times what it was since the change before; infinity where that
    was zero. `chance`: how often equal values in random order look as different."""

    index: int
    ratio: float
    chance: float


def change_points(values: Sequence[float], *, level: float = LEVEL) -> list[ChangePoint]:
    """In order. Empty for fewer than `ENOUGH` values. ValueError for a level that is none."""
    if not 0 < level < 1:
        raise ValueError(f"a level is between 0 and 1; {level} is not")
    found = _divided(values, 0, level, random.Random(_SEED))  # noqa: S311 - resampling, not secrecy
    edges = [0, *(index for index, _ in found), len(values)]
    return [
        ChangePoint(index, _ratio(values[edges[n] : index], values[index : edges[n + 2]]), chance)
        for n, (index, chance) in enumerate(found)
    ]


def _ratio(before: Sequence[float], after: Sequence[float]) -> float:
    base = median(before)
    return median(after) / base if base else math.inf


def _divided(values: Sequence[float], start: int, level: float, generator: random.Random) -> list[tuple[int, float]]:
    """Where `values`, the series from `start` on, is to be divided, with the chance of each."""
    if len(values) < ENOUGH:
        return []
    ranks = _ranks(values)
    weights = _weights(len(ranks))
    height, index = _highest(ranks, weights)
    chance = _chance(ranks, weights, height, level, generator)
    if chance is None:
        return []
    left = _divided(values[:index], start, level, generator)
    right = _divided(values[index:], start + index, level, generator)
    return [*left, (start + index, chance), *right]


def _ranks(values: Sequence[float]) -> list[float]:
    """About their mean; equal values share one."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for place in order[first : last + 1]:
            ranks[place] = (first + last) / 2 - (len(values) - 1) / 2
        first = last + 1
    return ranks


def _weights(count: int) -> list[float]:
    """By how much the sum of the first k ranks scatters, for every k."""
    return [0.0, *(1 / math.sqrt(k * (count - k)) for k in range(1, count))]


def _highest(ranks: Sequence[float], weights: Sequence[float]) -> tuple[float, int]:
    """The largest standardised sum of the first k ranks, and its k."""
    total, height, index = 0.0, -1.0, LEAST
    for k in range(1, len(ranks) - LEAST + 1):
        total += ranks[k - 1]
        if k >= LEAST and abs(total) * weights[k] > height:
            height, index = abs(total) * weights[k], k
    return height, index


def _chance(
    ranks: Sequence[float], weights: Sequence[float], height: float, level: float, generator: random.Random
) -> float | None:
    """How often a random order reaches `height`; None as soon as that is more often than `level`."""
    shuffled, reached = list(ranks), 1
    allowed = level * (PERMUTATIONS + 1)
    if reached > allowed:
        return None
    for _ in range(PERMUTATIONS):
        generator.shuffle(shuffled)
        if _highest(shuffled, weights)[0] >= height - 1e-12:
            reached += 1
            if reached > allowed:
                return None
    return reached / (PERMUTATIONS + 1)
