"""What is flat, and what grows: the judgement of a soak on series whose answer is known."""

from __future__ import annotations

from random import Random

import pytest
from bench.soak.judge import Measure, judge, slope, thin

SIZE = Measure("size", "MB", slack=1.0)

HALF_HOUR = 1800


def series(value: object) -> list[tuple[float, float]]:
    """A point every five seconds for half an hour."""
    assert callable(value)
    return [(float(at), float(value(at))) for at in range(0, HALF_HOUR, 5)]


def says(value: object, measure: Measure = SIZE) -> str:
    return judge(measure, series(value), 0, HALF_HOUR).says


def noisy(seed: int = 1) -> Random:
    return Random(seed)


def test_noise_around_a_level_is_flat() -> None:
    chance = noisy()

    assert says(lambda at: 100 + chance.gauss(0, 3)) == "flat"


def test_a_leak_in_the_noise_is_growing_by_what_it_leaks() -> None:
    chance = noisy()

    verdict = judge(SIZE, series(lambda at: 100 + at / 60 + chance.gauss(0, 3)), 0, HALF_HOUR)

    assert verdict.says == "growing"
    assert verdict.is_bad
    assert verdict.per_hour == pytest.approx(60, rel=0.25)


def test_what_fills_up_in_the_first_half_is_flat() -> None:
    assert says(lambda at: min(at, 600)) == "flat"


def test_a_saw_is_flat_at_whatever_tooth_it_ends() -> None:
    assert {says(lambda at, tooth=tooth: 20 + at % tooth) for tooth in (60, 250, 290, 410)} == {
        "flat"
    }


def test_a_saw_whose_teeth_become_higher_is_growing() -> None:
    assert says(lambda at: 20 + at % 60 + at / 10) == "growing"


def test_a_few_outliers_do_not_count() -> None:
    assert says(lambda at: 100 + (400 if at % 300 == 0 else 0)) == "flat"


def test_one_step_is_flat_wherever_it_is() -> None:
    assert {
        says(lambda at, step=step: 100 if at < step else 130) for step in (1000, 1350, 1700)
    } == {"flat"}


def test_little_of_what_is_small_is_flat_and_much_is_not() -> None:
    assert says(lambda at: 0.1 + at / 3600 * 0.5) == "flat"
    assert says(lambda at: 0.1 + at / 3600 * 2.0) == "growing"


def test_what_must_not_fall_may_rise() -> None:
    speed = Measure("speed", "nodes/s", share=0.5, falls=True)

    assert says(lambda at: 1000 + at, speed) == "flat"
    assert says(lambda at: 2000 - at, speed) == "falling"


def test_what_is_only_shown_is_never_bad() -> None:
    shown = Measure("shown", "MB", why_not="because")

    assert says(lambda at: at, shown) == "not judged"


def test_a_short_time_is_not_judged() -> None:
    points = [(float(at), float(at)) for at in range(100)]

    assert judge(SIZE, points, 0, 100).says == "not judged"


def test_thinning_keeps_the_slope() -> None:
    points = [(float(at), 3.0 * at) for at in range(5000)]

    assert len(thin(points)) <= 200
    assert slope(thin(points)) == pytest.approx(3.0)
