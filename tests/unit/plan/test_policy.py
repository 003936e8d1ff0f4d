"""Retries, times, limits and what is kept as written."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.app.compiling import compile_source
from minuet.plan.digest import decode_plan
from minuet.plan.plan import Concurrency, Retry


@pytest.mark.parametrize(
    ("own", "default", "expected"),
    [
        (None, None, Retry()),
        (5, None, Retry(max_attempts=5)),
        (None, {"max_attempts": 9, "jitter": False}, Retry(max_attempts=9, jitter=False)),
        (
            {"max_attempts": 1, "multiplier": 3.0},
            {"max_attempts": 9, "backoff_ms": 5, "max_delay_ms": 7},
            Retry(max_attempts=1, multiplier=3.0, backoff_ms=5, max_delay_ms=7),
        ),
    ],
)
def test_retry_is_completed_from_the_defaults(
    nodes_of: Any, own: Any, default: Any, expected: Retry
) -> None:
    node = {"id": "a"} if own is None else {"id": "a", "retry": own}
    fields = {} if default is None else {"defaults": {"retry": default}}

    assert nodes_of(node, **fields)["a"].retry == expected


@pytest.mark.parametrize(
    ("own", "default", "deadline", "expected"),
    [
        (None, None, None, None),
        (2.5, None, None, 2500),
        (None, 4, None, 4000),
        (2.5, 4, None, 2500),
        (9, 4, 3, 3000),
        (2, None, 3, 2000),
        (None, None, 3, 3000),
        (0.0001, None, None, 1),
    ],
)
def test_the_shortest_time_for_an_attempt_wins(
    nodes_of: Any, own: Any, default: Any, deadline: Any, expected: int | None
) -> None:
    node: dict[str, Any] = {"id": "a"}
    if own is not None:
        node["timeout_seconds"] = own
    if deadline is not None:
        node["limits"] = {"deadline_s": deadline}
    fields = {} if default is None else {"defaults": {"timeout_seconds": default}}

    assert nodes_of(node, **fields)["a"].timeout_ms == expected


def test_the_workflows_limits_are_the_plans(compiled: Any) -> None:
    plan = compiled(
        {"id": "a", "limits": {"max_hops": 1, "max_fanout": 2, "max_output_bytes": 3}},
        limits={"deadline_s": 60, "max_hops": 4, "max_fanout": 5, "max_output_bytes": 6},
        dlq_policy="all",
        description="what it is for",
    ).plan

    assert plan.deadline_ms == 60_000
    assert (plan.max_hops, plan.max_fanout, plan.max_output_bytes) == (4, 5, 6)
    node = plan.nodes[0]
    assert (node.max_hops, node.max_fanout, node.max_output_bytes) == (1, 2, 3)
    assert plan.dlq_policy == "all"
    assert plan.description == "what it is for"


@pytest.mark.parametrize(
    ("on_error", "expected"), [("fail", "fail"), ("continue", "continue"), (["b"], "path")]
)
def test_what_an_error_does_is_one_word(nodes_of: Any, on_error: Any, expected: str) -> None:
    nodes = nodes_of({"id": "a", "on_error": on_error, "dependents": ["b"]}, {"id": "b"})

    assert nodes["a"].on_error == expected


def test_the_workflows_queue_goes_before_the_types(nodes_of: Any) -> None:
    assert nodes_of({"id": "a"})["a"].queue == "noop"
    assert nodes_of({"id": "a"}, defaults={"queue": "gpu"})["a"].queue == "gpu"


def test_what_other_parts_understand_is_kept_as_written(nodes_of: Any) -> None:
    node = nodes_of(
        {
            "id": "a",
            "human_config": {"approvers": ["ann"]},
            "agent_config": {"model": "m"},
            "rejection_path": ["b"],
            "concurrency": {"key": "k", "limit": 2},
            "secrets": ["token"],
        },
        {"id": "b"},
    )["a"]

    assert node.extra == {
        "human_config": {"approvers": ["ann"]},
        "agent_config": {"model": "m"},
        "rejection_path": ["b"],
    }
    assert node.concurrency == Concurrency(key="k", limit=2)
    assert node.secrets == ("token",)


@pytest.mark.parametrize(
    ("own", "default", "settings", "author"),
    [
        (None, None, Retry(), None),
        (None, None, Retry(max_attempts=7), "settings"),
        (3, None, Retry(), "document"),
        (None, 3, Retry(), "document"),
        ({}, None, Retry(max_attempts=7), "document"),
    ],
)
def test_the_plan_knows_who_wrote_a_retry_policy(
    own: Any, default: Any, settings: Retry, author: str | None
) -> None:
    node = {"id": "a", "type": "noop"} | ({} if own is None else {"retry": own})
    fields = {} if default is None else {"defaults": {"retry": default}}
    document = {"name": "w", "nodes": [node], **fields}

    plan = compile_source(document, retry=settings).plan

    assert plan.nodes[0].retry_by == author
    assert plan.nodes[0].retry.max_attempts == (3 if author != "settings" and own != {} else 7)


def test_a_plan_of_an_older_version_says_nothing_about_who_wrote_its_policies() -> None:
    node = b'{"id":"a","retry":{"max_attempts":5}}'
    plan = b'{"name":"w","nodes":[%s],"entries":["a"],"terminals":["a"]}' % node

    (decoded,) = decode_plan(b'{"format":1,"plan":%s}' % plan).nodes

    assert (decoded.retry, decoded.retry_by) == (Retry(max_attempts=5), None)
