"""Change points of a history, found by a statistical test instead of a threshold. Equal input gives equal results.

Hierarchical divisive search with a permutation test, as in E-divisive (Matteson and James 2014, JASA 109:505), on ranks
instead of distances (Pettitt 1979, Applied Statistics 28:126), so a single outlier is not a change. A series in random
order is reported as changed with probability `level` at most, whatever its distribution. This holds for the whole
series, because parts are tested only if the whole has changed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from panel.benchmarks.statistics.intervals import median

LEVEL = 0.05
PERMUTATIONS = 999
LEAST = 3  # runs on either side; fewer could be outliers
ENOUGH = 2 * LEAST + 2  # with fewer values no arrangement is rare enough
_SEED = 20140118


@dataclass(frozen=True)
class ChangePoint:
    """A lasting change in a series of values. From position `index` on, the median is `ratio` times the median since
    the previous change; `ratio` is infinity if the earlier median was zero.

    `chance`: probability that the same values in random order show at least this difference.
    """

    index: int
    ratio: float
    chance: float


def change_points(values: Sequence[float], *, level: float = LEVEL) -> list[ChangePoint]:
    """Return the change points of a series, in order; none for fewer than `ENOUGH` values. ValueError unless 0 < level
    < 1.
    """
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
    """Return the change points of `values`, a part of a series that begins at index `start`, as pairs (index, chance).
    `chance` is the probability that the same values in random order show at least this difference.
    """
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
    """Return the rank of each value minus the mean rank; equal values share one rank."""
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
    """Return, for every k, the factor that standardizes the sum of the first k centered ranks. A constant factor is
    omitted.
    """
    return [0.0, *(1 / math.sqrt(k * (count - k)) for k in range(1, count))]


def _highest(ranks: Sequence[float], weights: Sequence[float]) -> tuple[float, int]:
    """Return the largest absolute standardized sum of the first k of the centered `ranks`, and its k.
    The sides of the change, up to k and after k, have at least LEAST values each.
    """
    total, height, index = 0.0, -1.0, LEAST
    for k in range(1, len(ranks) - LEAST + 1):
        total += ranks[k - 1]
        if k >= LEAST and abs(total) * weights[k] > height:
            height, index = abs(total) * weights[k], k
    return height, index


def _chance(
    ranks: Sequence[float], weights: Sequence[float], height: float, level: float, generator: random.Random
) -> float | None:
    """Return the probability that `_highest` is at least `height` if the ranks are in random order.
    None as soon as the probability exceeds `level`.
    """
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
