"""Properties of the statistics for any rounds, and the coverage of the intervals."""

from __future__ import annotations

import math
import random
import statistics as library

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panel.benchmarks.statistics.intervals import (
    CONFIDENCE,
    Verdict,
    estimate,
    median,
    range_confidence,
    ratio,
    scatter,
    unpaired,
)

positive = st.floats(min_value=1e-3, max_value=1e9)
rounds = st.lists(positive, min_size=1, max_size=30)
pairs = st.lists(st.tuples(positive, positive), min_size=3, max_size=12)


@given(rounds)
def test_median_matches_library(values: list[float]) -> None:
    assert median(values) == pytest.approx(library.median(values))


def test_median_of_nothing_is_none() -> None:
    with pytest.raises(ValueError, match="no values"):
        median([])


@given(rounds)
def test_interval_contains_median_and_stays_in_range(values: list[float]) -> None:
    found = estimate(values)
    if found.interval is None:
        assert len(values) == 1
        return
    assert min(values) <= found.interval.low <= found.value <= found.interval.high <= max(values)


@given(st.integers(min_value=2, max_value=200))
def test_interval_covers_95_percent_when_possible(count: int) -> None:
    interval = estimate([float(value) for value in range(count)]).interval
    assert interval is not None
    if count >= 6:
        assert interval.confidence >= CONFIDENCE
    else:
        assert interval.confidence == pytest.approx(range_confidence(count))
        assert (interval.low, interval.high) == (0, count - 1)


def test_interval_coverages_match_published_table() -> None:
    """Order Statistics, table of distribution-free intervals: n = 3, 6, 10."""
    assert range_confidence(3) == 0.75
    assert range_confidence(6) == pytest.approx(0.96875)
    ten = estimate([float(value) for value in range(10)]).interval
    assert ten is not None
    assert (ten.low, ten.high) == (1, 8)
    assert ten.confidence == pytest.approx(0.9785, abs=1e-4)


@given(pairs)
def test_inverse_ratio_is_reciprocal(values: list[tuple[float, float]]) -> None:
    ahead = ratio([a for a, _ in values], [b for _, b in values])
    behind = ratio([b for _, b in values], [a for a, _ in values])
    assert ahead.value == pytest.approx(1 / behind.value)
    assert ahead.interval is not None and behind.interval is not None
    # Resampling draws other rounds when their order is reversed, so the bounds agree but for the grain of that.
    if len(values) < 6:
        assert ahead.interval.low == pytest.approx(1 / behind.interval.high)
        assert ahead.interval.high == pytest.approx(1 / behind.interval.low)


@given(pairs, st.floats(min_value=0.01, max_value=100))
def test_ratio_does_not_depend_on_unit(values: list[tuple[float, float]], factor: float) -> None:
    plain = ratio([a for a, _ in values], [b for _, b in values])
    scaled = ratio([a * factor for a, _ in values], [b * factor for _, b in values])
    assert scaled.value == pytest.approx(plain.value, rel=1e-6)


@given(pairs)
def test_ratio_is_in_its_interval_and_verdict_agrees(values: list[tuple[float, float]]) -> None:
    found = ratio([a for a, _ in values], [b for _, b in values])
    assert found.interval is not None
    assert found.interval.low <= found.value * (1 + 1e-12) and found.value <= found.interval.high * (1 + 1e-12)
    spans = found.interval.low <= 1 <= found.interval.high
    assert (found.verdict == Verdict.NO_DIFFERENCE) is spans


@given(st.lists(positive, min_size=3, max_size=10))
def test_ratio_of_server_to_itself_shows_no_difference(values: list[float]) -> None:
    found = ratio(values, values)
    assert found.value == 1
    assert found.verdict == Verdict.NO_DIFFERENCE


def test_paired_ratio_ignores_shared_noise() -> None:
    machine = [100.0, 40.0, 90.0, 20.0, 70.0, 55.0]  # a noisy neighbour comes and goes
    found = ratio([speed * 1.1 for speed in machine], machine)
    assert found.value == pytest.approx(1.1)
    assert found.verdict == Verdict.HIGHER


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_rounds_give_no_verdict(count: int) -> None:
    found = ratio([2.0] * count, [1.0] * count)
    assert found.verdict == Verdict.TOO_FEW
    assert found.interval is None


def test_rounds_without_value_are_left_out() -> None:
    found = ratio([2.0, 0.0, 2.0, 2.0], [1.0, 1.0, 0.0, 1.0])
    assert found.rounds == 2
    assert found.verdict == Verdict.TOO_FEW


def test_interval_is_reproducible() -> None:
    generator = random.Random(1)
    values = [generator.gauss(100, 5) for _ in range(9)]
    base = [generator.gauss(95, 5) for _ in range(9)]
    assert ratio(values, base) == ratio(values, base)


@pytest.mark.parametrize(("count", "least"), [(3, 0.68), (6, 0.9), (10, 0.9)])
def test_intervals_reach_stated_coverage(count: int, least: float) -> None:
    """Skewed noise and a true ratio of 1.2: the share of 150 intervals that contain it, minus the sampling error."""
    generator = random.Random(7)
    held, runs = 0, 150
    for _ in range(runs):
        base = [generator.lognormvariate(0, 0.3) for _ in range(count)]
        values = [b * 1.2 * generator.lognormvariate(0, 0.1) for b in base]
        interval = ratio(values, base).interval
        assert interval is not None
        held += interval.low <= 1.2 <= interval.high
    assert held / runs >= least


# --- rounds of different runs ---


@settings(deadline=None)
@given(st.lists(positive, min_size=3, max_size=10), st.lists(positive, min_size=3, max_size=10))
def test_unpaired_ratio_is_in_its_interval_with_confidence(now: list[float], before: list[float]) -> None:
    found = unpaired(now, before)
    assert found.interval is not None
    assert found.interval.low * (1 - 1e-9) <= found.value <= found.interval.high * (1 + 1e-9)
    assert 0.89 < found.interval.confidence <= CONFIDENCE
    spans = found.interval.low <= 1 <= found.interval.high
    assert spans == (found.verdict == Verdict.NO_DIFFERENCE)


@pytest.mark.parametrize("rounds_each, least", [(3, 0.88), (4, 0.93), (6, 0.93), (10, 0.93)])
def test_equal_runs_differ_no_more_often_than_level(rounds_each: int, least: float) -> None:
    chance = random.Random(7)
    quiet, tries = 0, 400 if rounds_each < 6 else 80  # a bootstrap takes a while
    for _ in range(tries):
        now, before = ([math.exp(chance.gauss(0, 0.1)) for _ in range(rounds_each)] for _ in range(2))
        quiet += unpaired(now, before).verdict == Verdict.NO_DIFFERENCE
    assert quiet / tries >= least - 2 / math.sqrt(tries) * math.sqrt(least * (1 - least))  # what so many may be off by


def test_run_comparison_requires_more_than_two_rounds() -> None:
    assert unpaired([1.0, 2.0], [1.0, 2.0, 3.0]).verdict == Verdict.TOO_FEW


def test_prediction_interval_reaches_stated_coverage() -> None:
    chance = random.Random(11)
    held = 0
    for _ in range(600):
        *earlier, following = (math.exp(chance.gauss(3, 0.05)) for _ in range(7))
        interval = scatter(earlier)
        assert interval is not None
        held += interval.low <= following <= interval.high
    assert 0.92 <= held / 600 <= 0.98
    assert scatter([1.0, 2.0, 3.0]) is None
