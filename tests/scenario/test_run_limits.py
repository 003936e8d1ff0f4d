"""Limits that a run is given at its start, beside those of its document."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import minuet
from minuet.errors import InputError, RunConflictError

from .harness import node, task, workflow

#: A loop of one node that goes on for as long as it may.
ROUNDS = node("a", loop={"condition": "true", "max_iterations": 50})


def long_output() -> str:
    return "x" * 200


@pytest.mark.shows("S-36", "K-22", "K-23", "K-24")
@pytest.mark.parametrize(
    ("limits", "code", "figure"),
    [
        ({"max_hops": 4}, "exceeded_max_hops", "4"),
        ({"max_fanout": 2}, "exceeded_max_fanout", "2"),
        ({"max_iterations": 3}, "loop_exhausted", "3"),
        ({"max_output_bytes": 100}, "invalid-output", "100"),
    ],
)
async def test_a_run_that_breaks_a_limit_of_its_own_fails_and_says_which(
    scene: Any, limits: minuet.RunLimits, code: str, figure: str
) -> None:
    documents = {
        "exceeded_max_fanout": workflow(node("a"), *(node(f"n{n}", "a") for n in range(3))),
        "invalid-output": workflow(task("long_output")),
    }
    async with scene({"long_output": long_output}) as s:
        document = documents.get(code, workflow(ROUNDS))
        run = await s.app.start(document, limits=limits)
        result = await s.end(run.id)

        assert result.status == "FAILED"
        assert result.error["code"] == code
        assert figure in result.error["message"]


@pytest.mark.parametrize(("own", "given", "rounds"), [(3, 5, 3), (5, 3, 3), (None, 3, 3)])
async def test_of_the_documents_limit_and_the_runs_the_smaller_counts(
    scene: Any, own: int | None, given: int, rounds: int
) -> None:
    document = workflow(ROUNDS, limits={} if own is None else {"max_hops": own})
    async with scene() as s:
        run = await s.app.start(document, limits={"max_hops": given})
        result = await s.end(run.id)

        assert (result.error["code"], result.nodes["a"].instances) == ("exceeded_max_hops", rounds)


async def test_limits_of_one_run_do_not_hold_for_another(scene: Any) -> None:
    document = workflow(node("a", loop={"condition": "iteration < 4"}))
    async with scene() as s:
        limited = await s.app.start(document, limits={"max_iterations": 2})
        free = await s.app.start(document)

        assert (await s.end(limited.id)).status == "FAILED"
        assert (await s.end(free.id)).status == "COMPLETED"


@pytest.mark.shows("S-36", "K-21")
async def test_the_deadline_of_a_run_holds_again_after_its_retry(scene: Any) -> None:
    def work(ctx: minuet.Context) -> int:
        if ctx.generation == 1:
            raise minuet.NonRetryable("no")
        return 1

    async with scene({"work": work}) as s:
        run = await s.app.start(workflow(task("work")), limits={"deadline_s": 900.5})
        await s.end(run.id)
        await s.app.runs.retry(run.id)
        records = await s.store.read_events("default", run.id)
        (retried,) = [one for one in records if b'"run.retried"' in one.data]

        assert msgspec.json.decode(retried.data)["deadline_ms"] - retried.at_ms == 900_500
        assert (await s.end(run.id)).status == "COMPLETED"


async def test_a_key_stands_for_a_run_with_its_limits(scene: Any) -> None:
    document = workflow(node("a"))
    async with scene() as s:
        first = await s.app.start(document, idempotency_key="k", limits={"max_hops": 5})
        again = await s.app.start(document, idempotency_key="k", limits={"max_hops": 5})
        assert again.id == first.id
        with pytest.raises(RunConflictError):
            await s.app.start(document, idempotency_key="k", limits={"max_hops": 6})


async def test_a_run_that_is_triggered_later_has_its_limits(scene: Any) -> None:
    async with scene() as s:
        run = await s.app.runs.create(workflow(ROUNDS), limits={"max_hops": 2})
        await s.app.runs.trigger(run.id)

        assert (await s.end(run.id)).error["code"] == "exceeded_max_hops"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_hop": 1}, "has no field"),
        ({"max_hops": 0}, "max_hops: expected a whole number from 1"),
        ({"max_hops": "9"}, "max_hops: expected a whole number"),
        ({"deadline_s": -1}, "deadline_s: expected a number above 0"),
        ({"budget": {"usd": 1}}, "has no field"),
    ],
)
async def test_limits_that_cannot_be_are_refused(
    scene: Any, limits: dict[str, Any], message: str
) -> None:
    async with scene() as s:
        with pytest.raises(InputError, match=message):
            await s.app.start(workflow(node("a")), limits=limits)


# ── bytes of all outputs ────────────────────────────────────────────────────────────────


@pytest.mark.shows("U-06", "S-36")
@pytest.mark.parametrize("where", ["document", "run"])
async def test_a_run_whose_outputs_have_too_many_bytes_fails_and_says_how_many(
    scene: Any, where: str
) -> None:
    limits: Any = {"max_bytes": 500}
    document = workflow(
        *(task("long_output", *([f"n{n - 1}"] if n else []), id=f"n{n}") for n in range(4)),
        **({"limits": limits} if where == "document" else {}),
    )
    async with scene({"long_output": long_output}) as s:
        run = await s.app.start(document, limits=limits if where == "run" else None)
        result = await s.end(run.id)
        row = await s.app.runs.get(run.id)
        (letter,) = await s.store.list_dead_letters("default", run=run.id)

        assert result.status == "FAILED"
        assert result.error["code"] == "exceeded_max_bytes"
        assert result.error["message"] == (
            "max_bytes is 500: the outputs of the run have 404 bytes, and that of node 'n2' "
            "would add 202"
        )
        assert (row.output_bytes, letter.reason) == (404, "limit")
        assert result.nodes["n3"].status != "COMPLETED"


async def test_bytes_of_nodes_that_run_at_once_never_exceed_the_limit(scene: Any) -> None:
    nodes = [task("long_output", id=f"n{n}", on_error="continue") for n in range(8)]
    async with scene({"long_output": long_output}, concurrency=8) as s:
        run = await s.app.start(workflow(*nodes), limits={"max_bytes": 1000})
        result = await s.end(run.id)

        assert result.error["code"] == "exceeded_max_bytes"
        assert (await s.app.runs.get(run.id)).output_bytes == 808


async def test_a_large_output_counts_with_all_its_bytes(scene: Any) -> None:
    def large() -> str:
        return "x" * 100_000

    async with scene({"large": large}) as s:
        document = workflow(task("large"), task("large", "large", id="again"))
        fits = await s.app.start(document, limits={"max_bytes": 200_004})
        breaks = await s.app.start(document, limits={"max_bytes": 200_003})

        assert (await s.end(fits.id)).status == "COMPLETED"
        assert (await s.end(breaks.id)).error["code"] == "exceeded_max_bytes"


async def test_a_run_without_a_limit_counts_nothing(scene: Any) -> None:
    async with scene({"long_output": long_output}) as s:
        run = await s.app.start(workflow(task("long_output")))
        await s.end(run.id)

        assert (await s.app.runs.get(run.id)).output_bytes == 0
