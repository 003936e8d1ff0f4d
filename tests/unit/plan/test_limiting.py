"""Plans of runs that have limits of their own, and the format of plans with limits."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.model.workflow import Limits
from minuet.plan.digest import encode_plan
from minuet.plan.limiting import limit_plan

LOOP = {"condition": "true", "max_iterations": 9}


@pytest.mark.shows("S-36")
@pytest.mark.parametrize(
    ("given", "found"),
    [
        (Limits(), (5, None, 9, 1)),
        (Limits(max_hops=4), (4, None, 9, 1)),
        (Limits(max_hops=6, max_iterations=3), (5, None, 3, 1)),
        (Limits(max_iterations=10), (5, None, 9, 1)),
        (Limits(deadline_s=0.5), (5, 500, 9, 1)),
        (Limits(max_bytes=7), (5, None, 9, 4)),
    ],
)
def test_the_smaller_of_two_limits_counts(compiled: Any, given: Limits, found: Any) -> None:
    plan = compiled({"id": "a", "loop": LOOP}, limits={"max_hops": 5}).plan
    limited = limit_plan(plan, given)

    loop = limited.nodes[0].loop
    assert loop is not None
    assert (limited.max_hops, limited.deadline_ms, loop.max_iterations, limited.format) == found
    assert limited.max_bytes == given.max_bytes
    assert limited.nodes[0].edges == plan.nodes[0].edges


def test_runs_with_the_same_limits_share_a_plan(compiled: Any) -> None:
    plan = compiled({"id": "a"}).plan
    one, other = (limit_plan(plan, Limits(max_bytes=7, max_hops=3)) for _ in range(2))

    assert encode_plan(one) == encode_plan(other) != encode_plan(plan)


@pytest.mark.parametrize(
    ("node", "fields", "number"),
    [
        ({"isolation": "process"}, {}, 4),
        ({"isolation": "none"}, {}, 1),
        ({"soft_timeout_seconds": 3}, {}, 1),
        ({}, {"limits": {"max_bytes": 3}}, 4),
        ({}, {"limits": {"max_hops": 3}}, 1),
    ],
)
def test_a_worker_of_an_earlier_version_refuses_what_it_would_ignore(
    compiled: Any, node: dict[str, Any], fields: dict[str, Any], number: int
) -> None:
    plan = compiled({"id": "a", "type": "task", "handler": "h", **node}, **fields).plan

    assert plan.format == number
