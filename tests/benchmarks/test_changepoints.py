"""Change points are found where they are, and false alarms stay within the stated level."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panel.benchmarks.charts.pictures import changes_of
from panel.benchmarks.statistics.changepoints import ENOUGH, LEAST, change_points

LEVEL = 0.05
values = st.lists(st.floats(min_value=1.0, max_value=1e6), min_size=0, max_size=40)


def noise(seed: int, count: int, kind: str = "normal") -> list[float]:
    chance = random.Random(seed)
    draw = {
        "normal": lambda: 1000 + chance.gauss(0, 20),
        "skewed": lambda: 1000 + chance.expovariate(1 / 20),
        "outliers": lambda: 1000 + chance.gauss(0, 20) - (400 if chance.random() < 0.1 else 0),
    }[kind]
    return [draw() for _ in range(count)]


@pytest.mark.parametrize("kind", ["normal", "skewed", "outliers"])
def test_false_alarms_stay_within_level(kind: str) -> None:
    """150 stationary histories: at a true rate of 5 %, more than 15 alarms occur once in 500 times."""
    alarms = sum(bool(change_points(noise(seed, 24, kind), level=LEVEL)) for seed in range(150))
    assert alarms <= 15, f"{alarms} of 150"


def stepped(seed: int, before: int, after: int, step: float) -> list[float]:
    """Noise with a standard deviation of 20, and a step after `before` values."""
    return noise(seed, before) + [value + step for value in noise(seed + 20_000, after)]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(8, 16), st.integers(8, 16), st.sampled_from([-1, 1]))
def test_step_of_six_sigma_is_found_at_its_position(seed: int, before: int, after: int, sign: int) -> None:
    found = change_points(stepped(seed, before, after, sign * 120), level=LEVEL)
    assert found, "no change was found"
    nearest = min(found, key=lambda point: abs(point.index - before))
    assert abs(nearest.index - before) <= 1
    assert nearest.chance <= LEVEL
    assert math.isclose(nearest.ratio, 1 + sign * 0.12, abs_tol=0.04)


def test_step_of_three_sigma_is_usually_found_near_its_position() -> None:
    found = [change_points(stepped(seed, 10, 10, 60), level=LEVEL) for seed in range(60)]
    near = [any(abs(point.index - 10) <= 2 for point in points) for points in found]
    assert sum(bool(points) for points in found) >= 58 and sum(near) >= 54


def test_two_steps_give_two_change_points() -> None:
    series = noise(1, 15) + [value * 1.2 for value in noise(2, 15)] + noise(3, 15)
    found = change_points(series)
    assert [point.index for point in found] == [15, 30]
    assert found[0].ratio == pytest.approx(1.2, abs=0.02) and found[1].ratio == pytest.approx(1 / 1.2, abs=0.02)


def test_single_outlier_is_no_change_point() -> None:
    series = noise(5, 30)
    series[20] = 10.0
    assert change_points(series) == []


@given(values)
@settings(max_examples=60, deadline=None)
def test_change_points_are_ordered_separated_and_reproducible(series: list[float]) -> None:
    found = change_points(series)
    edges = [0, *(point.index for point in found), len(series)]
    assert all(later - earlier >= LEAST for earlier, later in pairwise(edges)) or not found
    assert all(0 < point.chance <= LEVEL for point in found)
    assert found == change_points(series)
    assert found == [] or len(series) >= ENOUGH


@given(values, st.floats(min_value=0.001, max_value=1000))
@settings(max_examples=40, deadline=None)
def test_change_points_do_not_depend_on_unit(series: list[float], factor: float) -> None:
    distinct = [float(value) for value in dict.fromkeys(round(value) for value in series)]
    scaled = [value * factor for value in distinct]
    assert [point.index for point in change_points(scaled)] == [point.index for point in change_points(distinct)]


def test_equal_or_few_values_give_no_change_point() -> None:
    assert change_points([5.0] * 50) == []
    assert change_points([1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0]) == []


@pytest.mark.parametrize("level", [0, 1, -1])
def test_invalid_level_is_rejected(level: float) -> None:
    with pytest.raises(ValueError, match="level"):
        change_points([1.0] * 10, level=level)


def test_change_from_zero_has_no_percentage() -> None:
    (change,) = change_points([0.0] * 8 + [1.0, 1.1, 0.9, 1.05, 0.95, 1.0, 1.02, 0.98])
    assert (change.index, change.ratio) == (8, math.inf)
    points = [{"label": "shop", "value": float(n >= 8)} for n in range(16)]
    assert changes_of(points, "cpu_per_1000")[8].startswith("up from zero, worse (p = ")
