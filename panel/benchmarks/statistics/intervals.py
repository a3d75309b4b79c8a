"""Medians with confidence intervals, and ratios of rounds, paired and unpaired. Equal input gives equal results.

With few rounds, only weak claims are possible. Whatever the distribution, the range of n rounds contains the true
median with probability 1 - 2 ** (1 - n): 75 % for three rounds, 94 % for five, 97 % for six. So each interval states
its confidence, and only intervals of six or more rounds are called 95 % intervals.
(David and Nagaraja, Order Statistics, 7.1; Hesterberg 2015, What Teachers Should Know About the Bootstrap.)
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

CONFIDENCE = 0.95
RESAMPLES = 2000
_SEED = 20190611  # any constant, so that the same rounds always give the same interval


@dataclass(frozen=True)
class Interval:
    """A confidence interval: `low` <= true value <= `high` with probability `confidence` (0 to 1)."""

    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class Estimate:
    """The median of `rounds` values with its confidence interval; the interval is None for fewer than two values."""

    value: float
    rounds: int
    interval: Interval | None


class Verdict(StrEnum):
    HIGHER = "higher"
    LOWER = "lower"
    NO_DIFFERENCE = "no_difference"  # the interval contains 1
    TOO_FEW = "too_few"  # fewer than three paired rounds allow no conclusion


@dataclass(frozen=True)
class Ratio:
    """Median ratio of a target's figure to the baseline's, with its interval and verdict. `rounds` counts the rounds,
    or the pairs of rounds, that were used.
    """

    value: float
    rounds: int
    interval: Interval | None
    verdict: Verdict


def median(values: Sequence[float]) -> float:
    """Return the median of the values; ValueError if there are none."""
    if not values:
        raise ValueError("the median of no values is undefined")
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    # (a + b) / 2 could overflow or round to a value outside [a, b].
    low, high = ordered[middle - 1], ordered[middle]
    return min(high, max(low, low + (high - low) / 2))


def range_confidence(rounds: int) -> float:
    """Return the probability that the smallest and largest of `rounds` values enclose the true median."""
    return 1.0 - 2.0 ** (1 - rounds) if rounds > 1 else 0.0


def estimate(values: Sequence[float]) -> Estimate:
    """Return the median with the narrowest symmetric order-statistic interval of at least 95 % confidence. If there are
    too few values for 95 %, the interval is the whole range.
    """
    ordered, count = sorted(values), len(values)
    value = median(ordered)
    if count < 2:
        return Estimate(value, count, None)
    trimmed = 0
    while 2 * (trimmed + 1) < count and _coverage(count, trimmed + 1) >= CONFIDENCE:
        trimmed += 1
    interval = Interval(ordered[trimmed], ordered[count - 1 - trimmed], _coverage(count, trimmed))
    return Estimate(value, count, interval)


def _coverage(count: int, trimmed: int) -> float:
    """Return the probability that the true median is in the range of the `count` values without the `trimmed` smallest
    and the `trimmed` largest. The probability follows from the binomial distribution with p = 1/2.
    """
    tail = sum(math.comb(count, k) for k in range(trimmed + 1))
    return 1.0 - 2.0 * tail / 2.0**count


def ratio(values: Sequence[float], baseline: Sequence[float]) -> Ratio:
    """Return the ratio of two targets: the median over the rounds of value / baseline, with a bootstrap interval.

    The ratio pairs the rounds of both targets. Pairing removes effects common to both rounds (a busy minute, a warm
    cache). Pairs in which a value is zero or negative are left out. The computation uses logarithms, so the ratio of A
    to B is exactly the inverse of the ratio of B to A.
    """
    pairs = zip(values, baseline, strict=True)
    logs = [math.log(value) - math.log(base) for value, base in pairs if value > 0 and base > 0]
    if len(logs) < 3:
        value = math.exp(median(logs)) if logs else math.nan
        return Ratio(value, len(logs), None, Verdict.TOO_FEW)
    low, high = _bootstrap(logs)
    confidence = min(CONFIDENCE, range_confidence(len(logs)))
    interval = Interval(math.exp(low), math.exp(high), confidence)
    return Ratio(math.exp(median(logs)), len(logs), interval, _verdict(low, high))


def unpaired(values: Sequence[float], earlier: Sequence[float]) -> Ratio:
    """Return the ratio of two runs: the median of `values` divided by the median of `earlier`, with an interval.

    The runs were measured at different times, so their rounds cannot be paired. From six rounds in each run, the
    interval is a bootstrap of both medians. With three to five rounds, the interval is the range of all quotients; with
    fewer, it is None. This range excludes 1 only if every round of one run is above every round of the other. For equal
    servers with n and m rounds, the probability of this is 2 / C(n + m, n): 10 % for three and three, 3 % for four and
    four. (Lehmann, Nonparametrics, 1.2.)
    """
    now, before = (_logs(side) for side in (values, earlier))
    count = min(len(now), len(before))
    value = math.exp(median(now) - median(before)) if count else math.nan
    if count < 3:
        return Ratio(value, count, None, Verdict.TOO_FEW)
    surely = 1.0 - 2.0 / math.comb(len(now) + len(before), len(now))
    low, high = _bootstrap_unpaired(now, before) if count >= 6 else (min(now) - max(before), max(now) - min(before))
    interval = Interval(math.exp(low), math.exp(high), min(CONFIDENCE, surely))
    return Ratio(value, count, interval, _verdict(low, high))


def _logs(values: Sequence[float]) -> list[float]:
    return sorted(math.log(value) for value in values if value > 0)


def _bootstrap_unpaired(now: list[float], before: list[float]) -> tuple[float, float]:
    generator = random.Random(_SEED)  # noqa: S311 - resampling, not secrecy
    shifts = sorted(
        median(generator.choices(now, k=len(now))) - median(generator.choices(before, k=len(before)))
        for _ in range(RESAMPLES)
    )
    return _widened(shifts, min(len(now), len(before)))


def scatter(earlier: Sequence[float]) -> Interval | None:
    """Return the 95 % prediction interval for the next value if nothing changed, computed from logarithms.

    The interval describes the variation between whole runs, which the rounds of one run cannot show. None for fewer
    than four values.
    """
    logs = _logs(earlier)
    count = len(logs)
    if count < 4:
        return None
    mean = sum(logs) / count
    deviation = math.sqrt(sum((value - mean) ** 2 for value in logs) / (count - 1))
    reach = _student(count - 1) * deviation * math.sqrt(1 + 1 / count)
    return Interval(math.exp(mean - reach), math.exp(mean + reach), CONFIDENCE)


def _verdict(low: float, high: float) -> Verdict:
    if low > 0:
        return Verdict.HIGHER
    return Verdict.LOWER if high < 0 else Verdict.NO_DIFFERENCE


def _bootstrap(logs: list[float]) -> tuple[float, float]:
    """Return bootstrap bounds for the median of `logs`. For fewer than six values, the bounds are the smallest and the
    largest value.
    """
    ordered, count = sorted(logs), len(logs)
    if range_confidence(count) < CONFIDENCE:
        return ordered[0], ordered[-1]
    generator = random.Random(_SEED)  # noqa: S311 - resampling, not secrecy
    return _widened(sorted(median(generator.choices(ordered, k=count)) for _ in range(RESAMPLES)), count)


def _widened(resampled: list[float], count: int) -> tuple[float, float]:
    """Return bootstrap bounds for a statistic: two percentiles of its sorted `resampled` values. `count`: measured
    values.
    The percentiles are widened as for a t interval, because the plain percentile bootstrap is too narrow for few
    values.
    """
    share = NormalDist().cdf(-math.sqrt(count / (count - 1)) * _student(count - 1))
    cut = int(share * len(resampled))
    return resampled[cut], resampled[len(resampled) - 1 - cut]


def _student(freedom: int) -> float:
    """Return the quantile of Student's t distribution for a two-sided interval of CONFIDENCE. `freedom`: degrees of
    freedom.
    """
    from scipy.special import stdtrit  # 30 MB and half a second that only a comparison of runs needs

    return float(stdtrit(freedom, 0.5 + CONFIDENCE / 2))
