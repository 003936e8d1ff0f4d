"""A workflow that is dumped reads as the same workflow."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minuet.model import dump_document, read_document, read_mapping
from minuet.model.workflow import (
    AgentConfig,
    Branch,
    Budget,
    Compensator,
    Concurrency,
    ConfigRef,
    Defaults,
    Edge,
    Foreach,
    HumanConfig,
    Limits,
    Loop,
    Node,
    NodeLimits,
    OnCancel,
    OnFailure,
    Placement,
    Retry,
    Rule,
    Workflow,
)  # fmt: skip

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
IDS = st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True).filter(lambda name: name != "self")
PATHS = st.lists(IDS, max_size=2).map(tuple)
LABEL = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=6)
STRINGS = st.lists(LABEL, max_size=2).map(tuple)
COUNTS = st.integers(1, 10**9)
ERRORS = st.lists(
    st.sampled_from(["ValueError", "a.b.Custom", "timeout", "503", "5xx"]), max_size=2
).map(tuple)
SECONDS = st.floats(0.001, 10**9)
VALUES = st.none() | st.booleans() | st.integers(-9, 9) | TEXT | st.lists(TEXT, max_size=2)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=2)
CONDITIONS = TEXT | OBJECTS.map(lambda data: {**data, "type": "cel"})


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


BUDGETS = st.builds(Budget, tokens=maybe(COUNTS), usd=maybe(st.floats(0, 10**9)))
RETRIES = st.builds(
    Retry,
    max_attempts=maybe(COUNTS),
    backoff_ms=maybe(st.integers(0, 10**9)),
    multiplier=maybe(st.floats(1, 100)),
    max_delay_ms=maybe(st.integers(0, 10**9)),
    jitter=maybe(st.booleans()),
    retry_on=maybe(ERRORS),
    no_retry_on=maybe(ERRORS),
)
NODE_LIMITS = st.builds(
    NodeLimits, deadline_s=maybe(SECONDS), max_hops=maybe(COUNTS), max_fanout=maybe(COUNTS),
    max_output_bytes=maybe(st.integers(1, 2**24)),
)  # fmt: skip
BRANCHES = st.builds(
    Branch,
    type=st.sampled_from(["conditional", "agent_driven"]),
    rules=st.lists(st.builds(Rule, condition=CONDITIONS, next_nodes=PATHS), max_size=2).map(tuple),
    default=PATHS,
    available_next_nodes=PATHS,
)
LOOPS = st.builds(
    Loop,
    condition=CONDITIONS,
    max_iterations=maybe(COUNTS),
    loop_back_to=maybe(IDS),
    break_path=maybe(PATHS),
    timeout_path=maybe(PATHS),
)
HUMANS = st.builds(
    HumanConfig,
    approvers=STRINGS,
    timeout_seconds=maybe(SECONDS),
    escalation_policy=st.sampled_from(["reject", "approve", "fail"]),
    form=maybe(OBJECTS),
    quorum=COUNTS,
    title=maybe(TEXT),
    approval_ui_url=maybe(TEXT),
)
AGENTS = st.builds(
    AgentConfig,
    model=maybe(LABEL),
    temperature=maybe(st.floats(0, 2)),
    available_tools=STRINGS,
    prompt=maybe(TEXT),
    max_turns=maybe(COUNTS),
    budget=maybe(BUDGETS),
    response_schema=maybe(OBJECTS),
    max_tokens=maybe(COUNTS),
)
PLACEMENTS = st.builds(
    Placement,
    requires_executors=STRINGS,
    requires_capabilities=OBJECTS,
    max_parallel_per_node=maybe(COUNTS),
    allowed_nodes=STRINGS,
    forbidden_nodes=STRINGS,
)
NODES = st.builds(
    Node,
    id=IDS,
    description=maybe(TEXT),
    type=st.just("task") | IDS.filter(lambda name: name[0] != "-"),
    handler=maybe(st.just("module:function")),
    config=OBJECTS,
    config_ref=maybe(st.builds(ConfigRef, cas_ref=st.just("cas://sha256:x"), type_url=maybe(TEXT))),
    dependencies=PATHS,
    dependents=PATHS,
    join=st.sampled_from(["all", "any", "each"]) | COUNTS,
    join_rest=st.sampled_from(["absorb", "cancel"]),
    branch=maybe(BRANCHES),
    loop=maybe(LOOPS),
    foreach=maybe(
        st.builds(
            Foreach,
            items=TEXT | st.lists(VALUES, max_size=2),
            max_parallel=maybe(COUNTS),
            need=maybe(COUNTS),
            as_=st.sampled_from(["item", "row"]),
        )
    ),
    retry=maybe(RETRIES),
    timeout_seconds=maybe(SECONDS),
    limits=maybe(NODE_LIMITS),
    on_error=st.sampled_from(["fail", "continue"]) | PATHS,
    on_dlq=st.sampled_from(["fail", "hold", None]),
    human_config=maybe(HUMANS),
    rejection_path=maybe(PATHS),
    agent_config=maybe(AGENTS),
    compensator=maybe(
        st.builds(
            Compensator,
            handler=st.just("undo"),
            config=OBJECTS,
            timeout_seconds=maybe(SECONDS),
            retry=maybe(RETRIES),
        )
    ),
    placement=maybe(PLACEMENTS),
    concurrency=maybe(st.builds(Concurrency, key=TEXT, limit=COUNTS)),
    secrets=st.lists(st.just("api_key"), max_size=1).map(tuple),
)
WORKFLOWS = st.builds(
    Workflow,
    name=IDS,
    description=maybe(TEXT),
    input=maybe(OBJECTS),
    limits=st.builds(
        Limits, max_hops=maybe(COUNTS), max_iterations=maybe(COUNTS), budget=maybe(BUDGETS)
    ),
    defaults=st.builds(
        Defaults, retry=maybe(RETRIES), timeout_seconds=maybe(SECONDS), queue=maybe(st.just("q"))
    ),
    on_failure=st.builds(OnFailure, compensate=st.booleans()),
    on_cancel=st.builds(OnCancel, compensate=st.booleans()),
    dlq_policy=st.sampled_from(["non_retryable", "all"]),
    on_dlq=st.sampled_from(["fail", "hold"]),
    output=VALUES,
    nodes=st.lists(NODES, max_size=3).map(tuple),
    edges=st.lists(st.builds(Edge, source=IDS, target=IDS), max_size=2).map(tuple),
)


@pytest.mark.slow
@given(WORKFLOWS)
def test_workflow_reads_the_same_after_dumping(workflow: Workflow) -> None:
    dumped = dump_document(workflow)

    assert read_mapping(dumped).workflow == workflow
    assert read_document(json.dumps(dumped)).workflow == workflow


def test_dump_has_canonical_names_and_no_defaults() -> None:
    workflow = read_document(
        "name: w\nnodes:\n- node_id: a\n  type: task\n  retry: 2\n  timeout: 3\n"
        "  wait_for_all: false\n  placement: {allowed_nodes: [x]}\n  depends_on: []\n"
        "  branch: {rules: [{when: x, next_nodes: []}]}\n  config_ref: sha256:c\n"
    ).workflow

    assert dump_document(workflow) == {
        "name": "w",
        "nodes": [
            {
                "id": "a",
                "config_ref": {"cas_ref": "cas://sha256:c"},
                "join": "any",
                "branch": {"rules": [{"condition": "x", "next_nodes": []}]},
                "retry": {"max_attempts": 2},
                "timeout_seconds": 3,
                "placement_constraints": {"allowed_nodes": ["x"]},
            }
        ],
    }
