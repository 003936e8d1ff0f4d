"""Whether a measure is flat: a robust slope over the second half of a soak.

The slope is that of Theil and Sen: the median of the slopes between all pairs of points, which a
few outliers (a server that was killed) do not move. A measure grows when

* an hour at this slope is more than is tolerated: a share of its median, or, for what is small,
  a fixed amount;
* what it rose by in the time that was looked at is more than a quarter of that amount, and more
  than its ups and downs (twice the median distance of the points from the line): what goes up
  and down like a saw is bounded; and
* it rose in the first part of that time and in the second, by at least a quarter of that slope:
  one step (a store is fuller after an outage than ever before) is no growth.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

#: Points that are compared pair by pair; more are put together, by their medians.
POINTS_MAX = 200

#: Below this nobody can say.
POINTS_MIN = 10
SECONDS_MIN = 60.0

#: The least share of the slope that each part of the time must have.
STEADY = 0.25

#: Time and value.
Point = tuple[float, float]


@dataclass(frozen=True)
class Measure:
    """Something that must be flat, or is only shown."""

    name: str
    unit: str
    #: What it may grow by in an hour: as a share of its median, and at least so much.
    share: float = 0.2
    slack: float = 0.0
    #: It must not fall, rather than not grow.
    falls: bool = False
    #: Shown, and not judged, for this reason.
    why_not: str = ""


@dataclass(frozen=True)
class Verdict:
    measure: Measure
    #: "flat", "growing" (or "falling"), "not judged".
    says: str
    median: float = 0.0
    highest: float = 0.0
    per_hour: float = 0.0
    #: Its ups and downs, when they are all that speaks for it.
    noise: float | None = None

    @property
    def is_bad(self) -> bool:
        return self.says in ("growing", "falling")


def thin(points: Sequence[Point], count: int = POINTS_MAX) -> list[Point]:
    """At most so many points, each the median of its neighbours."""
    if len(points) <= count:
        return list(points)
    size = -(-len(points) // count)
    groups = [points[first : first + size] for first in range(0, len(points), size)]
    return [
        (statistics.median(t for t, _ in group), statistics.median(v for _, v in group))
        for group in groups
    ]


def slope(points: Sequence[Point]) -> float:
    """The median slope between two points."""
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(points, 2) if b[0] > a[0]]
    return statistics.median(slopes) if slopes else 0.0


def judge(measure: Measure, points: Sequence[Point], begin_s: float, end_s: float) -> Verdict:
    """What is to be said about a measure; `begin_s` to `end_s` is the whole soak."""
    half = [point for point in points if (begin_s + end_s) / 2 <= point[0] <= end_s]
    if not half:
        return Verdict(measure, "not judged")
    values = [value for _, value in half]
    median, highest = statistics.median(values), max(value for _, value in points)
    span_s = half[-1][0] - half[0][0]
    if len(half) < POINTS_MIN or span_s < SECONDS_MIN:
        return Verdict(measure, "not judged", median, highest)
    few = thin(half)
    rate = slope(few)
    middle = len(few) // 2
    steady = min(slope(part) / rate for part in (few[:middle], few[middle:])) if rate else 0.0
    level = statistics.median(value - rate * at for at, value in few)
    noise = statistics.median(abs(value - rate * at - level) for at, value in few)
    per_hour = rate * 3600
    worse = -per_hour if measure.falls else per_hour
    least = max(2 * noise, measure.slack / 4)
    bound = max(measure.share * abs(median), measure.slack)
    if measure.why_not:
        says = "not judged"
    elif worse > bound and worse * span_s / 3600 > least and steady > STEADY:
        says = "falling" if measure.falls else "growing"
    else:
        says = "flat"
    return Verdict(measure, says, median, highest, per_hour, noise if worse > bound else None)
