"""Nodes that wait for a signal: they receive it, or time out, and no worker is held up."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.clock import ManualClock
from minuet.errors import DocumentError, InputError, RunConflictError, RunNotFoundError
from minuet.moments import moment

from .harness import QUICK_RETRY, node, workflow


def wait(name: str, *dependencies: str, signal: str = "paid", **fields: Any) -> dict[str, Any]:
    """A node that waits for a signal."""
    config = {"signal": signal, **fields.pop("config", {})}
    return node(name, *dependencies, type="wait", config=config, **fields)


async def test_the_output_of_a_wait_is_the_data_of_the_signal(scene: Any) -> None:
    after = node("after", "w", type="transform", config={"value": "{{ w.output.amount }}"})
    async with scene() as s:
        run = await s.app.start(workflow(wait("w"), after))
        await s.until(run, lambda row: row.seq == 3)
        await s.app.runs.signal(run, "paid", {"amount": 5})
        result = await s.end(run)

        assert (result.status, result.output) == ("COMPLETED", {"after": 5})
        assert result.nodes["w"].output == {"amount": 5}


async def test_a_signal_that_comes_before_the_node_waits_is_not_lost(scene: Any) -> None:
    async with scene() as s:
        run = await s.app.runs.create(workflow(node("first"), wait("w", "first")))
        await run.signal("paid", "early")
        await s.app.runs.trigger(run)
        result = await s.end(run)

        assert result.output == {"w": "early"}


async def test_a_signal_without_data_is_null(scene: Any) -> None:
    async with scene() as s:
        run = await s.app.start(workflow(wait("w")))
        await s.app.signal(run, "paid")

        assert (await s.end(run)).output == {"w": None}


async def test_a_timeout_fails_the_node_and_the_run(scene: Any) -> None:
    clock = ManualClock()
    async with scene(clock=clock) as s:
        document = workflow(wait("w", config={"timeout_seconds": 60}, retry=QUICK_RETRY))
        run = await s.app.start(document)
        await s.until(run, lambda row: row.seq == 3)
        clock.advance(60_000)
        await s.store.sweep()
        result = await s.end(run)

        assert result.status == "FAILED"
        assert result.error["code"] == "signal_timeout"
        assert result.error["message"] == "signal 'paid' did not come within 60 s"
        assert await s.count(run, "node.retried") == 0


@pytest.mark.parametrize("comes", [True, False])
async def test_on_error_is_the_path_of_a_timeout(scene: Any, comes: bool) -> None:
    clock = ManualClock()
    document = workflow(
        wait("w", config={"timeout_seconds": 60}, on_error=["remind"]),
        node("ship", "w"),
        node("remind"),
    )
    async with scene(clock=clock) as s:
        run = await s.app.start(document)
        await s.until(run, lambda row: row.seq == 3)
        if comes:
            await s.app.runs.signal(run, "paid")
        else:
            clock.advance(60_000)
            await s.store.sweep()
        result = await s.end(run)

        assert result.status == "COMPLETED"
        statuses = {name: one.status for name, one in result.nodes.items()}
        taken, left = ("ship", "remind") if comes else ("remind", "ship")
        assert (statuses[taken], statuses[left]) == ("COMPLETED", "SKIPPED")


async def test_a_retry_of_the_run_waits_again_and_takes_what_has_come_since(scene: Any) -> None:
    clock = ManualClock()
    async with scene(clock=clock) as s:
        run = await s.app.start(workflow(wait("w", config={"timeout_seconds": 60})))
        await s.until(run, lambda row: row.seq == 3)
        clock.advance(60_000)
        await s.store.sweep()
        await s.end(run)
        with pytest.raises(RunConflictError, match="is FAILED and cannot receive signals"):
            await s.app.runs.signal(run, "paid")
        await s.app.runs.retry(run)
        await s.app.runs.signal(run, "paid", 1)

        assert (await s.end(run)).output == {"w": 1}


async def test_instances_of_a_loop_take_one_signal_each(scene: Any) -> None:
    loop = {"condition": "!output.done", "loop_back_to": "w", "max_iterations": 5}
    document = workflow(wait("w", loop=loop), node("after", "w"))
    async with scene() as s:
        run = await s.app.start(document)
        for done in (False, False, True):
            await s.app.runs.signal(run, "paid", {"done": done})
        result = await s.end(run)

        assert result.status == "COMPLETED"
        assert result.nodes["w"].instances == 3
        received = [e["signal"] for e in await s.events(run, "node.resumed")]
        sent = [e["seq"] for e in await s.events(run, "signal.received")]
        assert received == sent


async def test_the_name_of_a_signal_may_be_a_template(scene: Any) -> None:
    async with scene() as s:
        run = await s.app.start(workflow(wait("w", signal="paid-{{ input.order }}")), {"order": 7})
        await s.app.runs.signal(run, "paid-7", "yes")

        assert (await s.end(run)).output == {"w": "yes"}


async def test_large_data_comes_as_it_was_sent(scene: Any) -> None:
    data = {"text": "x" * 1_500_000}
    async with scene() as s:
        run = await s.app.start(workflow(wait("w")))
        await s.app.runs.signal(run, "paid", data)

        assert (await s.end(run)).output == {"w": data}


async def test_a_signal_with_a_key_counts_once(scene: Any) -> None:
    document = workflow(wait("a"), wait("b", "a"))
    async with scene() as s:
        run = await s.app.start(document)
        for _ in range(2):
            await s.app.runs.signal(run, "paid", 1, idempotency_key="order-1")
        await s.until(run, lambda row: row.seq >= 7)
        await s.idle()
        waiting = (await s.app.runs.show(run)).nodes["b"]
        await s.app.runs.signal(run, "paid", 2, idempotency_key="order-2")

        assert waiting.status == "WAITING"
        assert (await s.end(run)).output == {"b": 2}


async def test_what_a_node_waits_for_is_shown(scene: Any) -> None:
    clock = ManualClock()
    async with scene(clock=clock) as s:
        run = await s.app.start(workflow(wait("w", config={"timeout_seconds": 60}), node("x", "w")))
        await s.until(run, lambda row: row.seq == 3)
        found = (await s.app.runs.show(run)).nodes["w"].waiting_for
        why = await s.app.runs.explain(run, "w")
        below = await s.app.runs.explain(run, "x")
        await s.app.runs.signal(run, "paid")
        await s.end(run)

        now = clock.now_ms()
        assert (found.kind, found.key) == ("signal", "paid")
        assert (found.since_ms, found.until_ms) == (now, now + 60_000)
        since = moment(now)
        assert why.summary.startswith(f"'w' has waited for signal 'paid' since {since}; due at ")
        assert why.details["waiting_for"]["key"] == "paid"
        assert "'w' has waited for signal 'paid'" in below.summary


async def test_a_signal_to_a_run_that_cannot_take_it_is_refused(scene: Any) -> None:
    async with scene() as s:
        run = await s.app.start(workflow(node("a")))
        await s.end(run)

        with pytest.raises(RunConflictError, match="is COMPLETED and cannot receive signals"):
            await s.app.runs.signal(run, "paid")
        for unknown in ("nowhere", "a\0b"):
            with pytest.raises(RunNotFoundError):
                await s.app.runs.signal(unknown, "paid")
        with pytest.raises(InputError, match="data: "):
            await s.app.runs.signal(run, "paid", float("nan"))
        for name in ("", "a\0b", 5, "x" * 256, "$child:1"):
            with pytest.raises(InputError, match="name: "):
                await s.app.runs.signal(run, name)
        with pytest.raises(InputError, match="idempotency_key: expected text that does not begin"):
            await s.app.runs.signal(run, "paid", idempotency_key="$child:1")


async def test_a_name_that_is_rendered_to_something_else_fails_the_node(scene: Any) -> None:
    async with scene() as s:
        for value in (5, "", "x" * 256):
            result = await s.run(workflow(wait("w", signal="{{ input.x }}")), {"x": value})

            assert result.error["code"] == "invalid-output"
            assert "`signal` must be text of 1 to 255 characters" in result.error["message"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"signal": ""}, '"" is shorter than 1 character'),
        ({"signal": 5}, '5 is not of type "string"'),
        ({"signal": "a", "seconds": 5}, "is valid under more than one of the schemas"),
        ({"seconds": 5, "timeout_seconds": 5}, '"signal" is a required property'),
        ({"signal": "a", "timeout_seconds": -1}, "-1 is less than the minimum of 0"),
        ({"until": "tomorrow"}, "is not a time in ISO 8601, such as 2026-12-24T18:00:00Z"),
        ({"until": "2026-13-01T00:00:00Z"}, "is not a time in ISO 8601"),
        ({"until": "2026-12-01T25:00:00Z"}, "is not a time in ISO 8601"),
    ],
)
async def test_a_config_that_cannot_work_is_refused_when_the_document_is_read(
    scene: Any, config: dict[str, Any], message: str
) -> None:
    async with scene() as s:
        with pytest.raises(DocumentError) as raised:
            await s.app.start(workflow(node("w", type="wait", config=config)))

        (problem,) = raised.value.diagnostics
        assert message in problem.message


async def test_a_time_that_has_passed_ends_a_wait_at_once(scene: Any) -> None:
    clock = ManualClock()
    async with scene(clock=clock) as s:
        result = await s.run(
            workflow(node("w", type="wait", config={"until": "2001-02-03T04:05:06"}))
        )

        assert result.status == "COMPLETED"


async def test_a_time_that_is_rendered_to_none_fails_the_node(scene: Any) -> None:
    async with scene() as s:
        document = workflow(node("w", type="wait", config={"until": "{{ input.at }}"}))
        result = await s.run(document, {"at": "soon"})

        assert result.error["code"] == "invalid-output"
        assert "`until` must be a time like 2026-12-24T18:00:00Z, not 'soon'" in str(result.error)
