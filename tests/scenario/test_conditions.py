"""Conditions of all types decide where runs go, on every store."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from minuet.errors import DocumentError

from .harness import node, task, workflow

#: The payment node as the original document has it, but for the config, which it only names.
PAYMENT = {
    "node_id": "call_payment_api",
    "type": "task",
    "handler": "pay",
    "dependencies": ["calculate_total"],
    "loop": {
        "enabled": True,
        "condition": {
            "type": "composite",
            "operator": "AND",
            "conditions": [
                {"type": "cel", "expression": "output.status != 'success'"},
                {
                    "type": "jsonpath",
                    "query": "$.error_code",
                    "operator": "in",
                    "value": ["TIMEOUT", "RATE_LIMIT", "TEMP_ERROR"],
                },
                {
                    "type": "cross_node_comparison",
                    "left": {"source": "current", "path": "output.amount"},
                    "operator": "==",
                    "right": {
                        "source": "context",
                        "node": "calculate_total",
                        "path": "output.final_amount",
                    },
                },
            ],
        },
        "max_iterations": 5,
        "loop_back_to": "call_payment_api",
        "break_path": ["confirm_payment"],
        "timeout_path": ["refund_customer"],
    },
    "branch": {
        "enabled": True,
        "type": "conditional",
        "rules": [
            {
                "condition": {
                    "type": "cel",
                    "expression": "output.status == 'success' && output.amount >= 1000",
                },
                "next_nodes": ["send_premium_confirmation", "update_crm"],
            },
            {
                "condition": {"type": "cel", "expression": "output.status == 'success'"},
                "next_nodes": ["send_standard_confirmation"],
            },
        ],
        "default": ["manual_review"],
    },
}
ENDS = (
    *("confirm_payment", "refund_customer", "send_premium_confirmation", "update_crm"),
    *("send_standard_confirmation", "manual_review"),
)


def paid(amount: int) -> dict[str, Any]:
    return {"status": "success", "amount": amount}


def refused(code: str, amount: int) -> dict[str, Any]:
    return {"status": "failed", "error_code": code, "amount": amount}


@pytest.mark.shows("F-01", "F-29", "F-36", "F-37")
@pytest.mark.parametrize(
    ("total", "answers", "ends"),
    [
        (1000, [paid(1000)], ["send_premium_confirmation", "update_crm"]),
        (10, [paid(10)], ["send_standard_confirmation"]),
        (10, [refused("TIMEOUT", 10), refused("RATE_LIMIT", 10), paid(10)], ENDS[4:5]),
        (10, [refused("CARD_DECLINED", 10)], ["manual_review"]),
        (10, [refused("TIMEOUT", 11)], ["manual_review"]),
        (10, [refused("TEMP_ERROR", 10)] * 5, ["refund_customer"]),
    ],
    ids=["premium", "standard", "second try", "declined", "another amount", "exhausted"],
)
async def test_the_payment_node_takes_each_of_its_paths(
    scene: Any, total: int, answers: list[Any], ends: list[str]
) -> None:
    left = list(answers)

    async def pay() -> Any:
        return left.pop(0)

    document = workflow(
        node("calculate_total", type="transform", config={"value": {"final_amount": total}}),
        PAYMENT,
        *(node(name) for name in ENDS),
    )
    async with scene({"pay": pay}) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert not left
        assert [n for n in ENDS if result.nodes[n].status == "COMPLETED"] == list(ends)


@pytest.mark.shows("E-14")
async def test_a_loop_runs_until_its_output_fits_a_schema(scene: Any) -> None:
    answers: list[Any] = [
        {"status": "pending"},
        {"status": "success", "data": []},
        {"status": "success", "data": [1]},
    ]

    async def fetch() -> Any:
        return answers.pop(0)

    condition = {
        "type": "schema_validation",
        "schema": {
            "type": "object",
            "required": ["status", "data"],
            "properties": {
                "status": {"const": "success"},
                "data": {"type": "array", "minItems": 1},
            },
        },
        "invert": True,
    }
    document = workflow(task("fetch", loop={"condition": condition, "max_iterations": 3}))
    async with scene({"fetch": fetch}) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert result.nodes["fetch"].instances == 3


CODE = """
def evaluate(output, context):
    before = context.get("first", {}).get("output", {}).get("n", 0)
    return output["n"] > before and sum(range(output["n"])) > 10
"""


@pytest.mark.shows("F-01", "F-30")
@pytest.mark.parametrize(("n", "end"), [(6, "large"), (3, "small")])
async def test_code_decides_a_branch_and_reads_an_earlier_node(
    scene: Any, n: int, end: str
) -> None:
    document = workflow(
        node("first", type="transform", config={"value": {"n": 2}}),
        node("between", "first"),
        node(
            "choice",
            "between",
            type="transform",
            config={"value": {"n": n}},
            branch={
                "rules": [
                    {
                        "condition": {"type": "python_sandbox", "code": CODE},
                        "next_nodes": ["large"],
                    }
                ],
                "default": ["small"],
            },
        ),
        node("large"),
        node("small"),
    )
    async with scene() as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert [x for x in ("large", "small") if result.nodes[x].status == "COMPLETED"] == [end]
        why = await s.app.runs.explain(result.run_id, end)
        assert "evaluate(output, context)" in msgspec.json.encode(why).decode()


METADATA_CODE = """
def evaluate(output, context):
    metadata = context["flaky"]["metadata"]
    return metadata["attempts"] == 2 and metadata["completed_at"].endswith("Z")
"""


@pytest.mark.shows("F-36")
@pytest.mark.parametrize(
    "condition",
    [
        "ctx.flaky.metadata.attempts == 2 && ctx.first.metadata.attempts == 1",
        'ctx["flaky"]["metadata"].duration_ms >= 0',
        "timestamp(ctx.flaky.metadata.completed_at) >= timestamp(ctx.first.metadata.completed_at)",
        {
            "type": "cross_node_comparison",
            "left": {"source": "context", "node": "flaky", "path": "metadata.attempts"},
            "operator": ">",
            "right": {"source": "context", "node": "first", "path": "metadata.attempts"},
        },
        {
            "type": "composite",
            "operator": "NOT",
            "conditions": ["ctx.flaky.metadata.attempts != 2"],
        },
        {"type": "python_sandbox", "code": METADATA_CODE},
    ],
    ids=["cel", "index", "time", "cross-node", "composite", "sandbox"],
)
async def test_conditions_read_when_and_how_earlier_nodes_ran(scene: Any, condition: Any) -> None:
    failures = [ConnectionError("not yet")]

    async def flaky() -> int:
        if failures:
            raise failures.pop()
        return 1

    document = workflow(
        node("first"),
        task("flaky", "first", retry={"max_attempts": 2, "backoff_ms": 1}),
        node("between", "flaky"),
        node(
            "choice",
            "between",
            branch={"rules": [{"condition": condition, "next_nodes": ["yes"]}], "default": ["no"]},
        ),
        node("yes"),
        node("no"),
    )
    async with scene({"flaky": flaky}) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert result.nodes["yes"].status == "COMPLETED"
        why = await s.app.runs.explain(result.run_id, "yes")
        assert any(" followed rule 1: " in reason for reason in why.reasons), why.reasons


@pytest.mark.shows("F-14", "F-30")
async def test_schemas_and_code_may_be_blobs(scene: Any) -> None:
    async with scene() as s:
        schema = await s.store.put_blob(b'{"required": ["a"]}')
        code = await s.store.put_blob(
            b"def evaluate(output, context):\n    return output['a'] == 1\n"
        )
        document = workflow(
            node(
                "choice",
                type="transform",
                config={"value": {"a": 1}},
                branch={
                    "rules": [
                        {
                            "condition": {
                                "type": "composite",
                                "operator": "AND",
                                "conditions": [
                                    {"type": "schema_validation", "schema_ref": schema},
                                    {"type": "python_sandbox", "code_ref": code, "nodes": []},
                                ],
                            },
                            "next_nodes": ["yes"],
                        }
                    ],
                    "default": ["no"],
                },
            ),
            node("yes"),
            node("no"),
        )

        result = await s.run(document)

        assert result.nodes["yes"].status == "COMPLETED"
        assert result.nodes["no"].status == "SKIPPED"


async def test_a_rule_whose_blob_is_missing_does_not_match_and_says_why(scene: Any) -> None:
    ref = "cas://sha256:retry_schema"
    condition = {"type": "schema_validation", "schema_ref": ref}
    document = workflow(
        node(
            "choice",
            branch={"rules": [{"condition": condition, "next_nodes": ["yes"]}], "default": ["no"]},
        ),
        node("yes"),
        node("no"),
    )
    async with scene() as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert result.nodes["no"].status == "COMPLETED"
        why = msgspec.json.encode(await s.app.runs.explain(result.run_id, "no")).decode()
        assert f"there is no blob {ref}" in why


async def test_a_loop_condition_that_cannot_be_evaluated_fails_the_node(scene: Any) -> None:
    condition = {"type": "jsonpath", "query": "$.missing", "operator": ">", "value": 1}
    document = workflow(node("a", loop={"condition": condition, "max_iterations": 3}))
    async with scene() as s:
        result = await s.run(document)

        assert result.status == "FAILED"
        assert "nothing matches $.missing" in result.error["message"]


async def test_nodes_named_inside_a_condition_must_come_before_it(scene: Any) -> None:
    inner = {
        "type": "cross_node_comparison",
        "left": {"source": "context", "node": "later", "path": "output.n"},
        "operator": "==",
        "right": {"value": 1},
    }
    condition = {"type": "composite", "operator": "NOT", "conditions": [inner]}
    document = workflow(
        node("a", branch={"rules": [{"condition": condition, "next_nodes": ["later"]}]}),
        node("later"),
    )
    async with scene() as s:
        with pytest.raises(DocumentError, match="later"):
            await s.run(document)
