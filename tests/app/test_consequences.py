"""What a change would do is known before it is made, and asking changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.app.app import App
from minuet.app.consequences import Consequences
from minuet.errors import InputError, NodeNotFoundError, RunNotFoundError

from ..scenario.harness import module_of, task, workflow
from ..waiting import until, until_waiting

FLOW: dict[str, Any] = {
    "name": "flow",
    "nodes": [
        {"id": "start", "type": "noop"},
        {"id": "gate", "type": "wait", "config": {"signal": "go"}, "dependencies": ["start"]},
        {"id": "only", "type": "noop", "dependencies": ["gate"]},
        {"id": "other", "type": "wait", "config": {"signal": "x"}, "dependencies": ["start"]},
        {"id": "join", "type": "noop", "dependencies": ["only", "other"]},
        {"id": "last", "type": "noop", "dependencies": ["join"]},
    ],
}
ASKING: dict[str, Any] = {
    "name": "asking",
    "nodes": [
        {
            "id": "ask",
            "type": "human",
            "human_config": {"title": "Fine?"},
            "rejection_path": ["no"],
        },
        {"id": "yes", "type": "noop", "dependencies": ["ask"]},
        {"id": "after", "type": "noop", "dependencies": ["yes"]},
        {"id": "no", "type": "noop"},
    ],
}


async def asked(app: App, run: str, *arguments: Any, **named: Any) -> Consequences:
    """A preview, which changes nothing."""
    before = await app.runs.get(run)
    tokens = await app.store.read_tokens("default", run)
    found = await app.runs.preview(run, *arguments, **named)
    assert await app.runs.get(run) == before
    assert await app.store.read_tokens("default", run) == tokens
    return found


async def test_an_open_run() -> None:
    async with App("memory://") as app:
        run = await app.start(FLOW)
        await until_waiting(app.store, "signal", 2)

        cancel = await asked(app, run, "cancel")
        skip = await asked(app, run, "skip", "gate")
        output = await asked(app, run, "set_output", "gate", data=1)
        signal = await asked(app, run, "signal", name="go")
        kept = await asked(app, run, "signal", name="unknown")
        pause = await asked(app, run, "pause")
        refused = [
            await asked(app, run, "retry"),
            await asked(app, run, "resume"),
            await asked(app, run, "rollback"),
            await asked(app, run, "take_back", "gate"),
            await asked(app, run, "skip", "start"),
            await asked(app, run, "approve", "gate"),
        ]

    assert (cancel.is_allowed, cancel.status) == (True, "CANCELLED")
    assert set(cancel.cut_off) == {"gate", "other"}
    assert (skip.status, skip.skipped, skip.next) == ("RUNNING", ("only",), ("join",))
    assert skip.ahead == ("join", "last")
    assert (output.skipped, output.next) == ((), ("only",))
    assert output.ahead == ("only", "join", "last")
    assert (signal.ready, signal.next) == (("gate",), ("only",))
    assert (kept.is_allowed, kept.ready) == (True, ())
    assert (pause.status, pause.ready, pause.cut_off) == ("PAUSED", (), ())
    assert not any(one.is_allowed for one in refused)
    assert "cannot be retried" in refused[0].why
    assert "has completed" in refused[4].why
    assert "does not wait for a decision" in refused[5].why


async def test_a_skip_counts_those_before_it() -> None:
    async with App("memory://") as app:
        run = await app.start(FLOW)
        await until_waiting(app.store, "signal", 2)
        await app.runs.skip(run, "gate")
        await until(app.store, lambda: is_over(app, run, "only"))

        skip = await asked(app, run, "skip", "other")

    assert (skip.skipped, skip.next) == (("join", "last"), ())


async def is_over(app: App, run: str, node: str) -> bool:
    tokens = await app.store.read_tokens("default", run)
    return any(token.node == node and token.state == "done" for token in tokens)


async def test_a_decision() -> None:
    async with App("memory://") as app:
        run = await app.start(ASKING)
        await until_waiting(app.store, "approval")

        approve = await asked(app, run, "approve", "ask")
        reject = await asked(app, run, "reject", "ask")

    assert (approve.next, approve.ahead) == (("yes",), ("yes", "after"))
    assert (reject.next, reject.status) == (("no",), "RUNNING")


async def test_a_decision_that_fails_the_run_says_so() -> None:
    document = {**ASKING, "nodes": [{"id": "ask", "type": "human", "human_config": {}}]}
    async with App("memory://") as app:
        run = await app.start(document)
        await until_waiting(app.store, "approval")

        assert (await asked(app, run, "reject", "ask")).status == "FAILED"


def make() -> int:
    return 1


def undo() -> None:
    return None


def fail() -> None:
    raise LookupError("no")


async def test_a_run_that_is_over() -> None:
    document = workflow(
        task("make", compensator={"handler": "undo"}),
        task("fail", "make", retry=1),
        {"id": "after", "type": "noop", "dependencies": ["fail"]},
    )
    handlers = module_of({"make": make, "undo": undo, "fail": fail})
    async with App("memory://", handlers=[handlers]) as app:
        run = await app.start(document)
        await run.wait()

        retry = await asked(app, run, "retry")
        back = await asked(app, run, "rollback")
        cancel = await asked(app, run, "cancel")
        skip = await asked(app, run, "skip", "fail")

    assert (retry.status, retry.ready, retry.next) == ("RUNNING", ("fail",), ("after",))
    assert (back.status, back.undone) == ("COMPENSATING", ("make",))
    assert not cancel.is_allowed
    assert (skip.is_allowed, skip.status, skip.skipped) == (True, "RUNNING", ("after",))


async def test_an_item_of_a_foreach_and_a_child_run() -> None:
    document: dict[str, Any] = {
        "name": "parent",
        "nodes": [
            {
                "id": "each",
                "type": "wait",
                "config": {"signal": "{{ item }}"},
                "foreach": {"items": ["a", "b"]},
            },
            {"id": "child", "type": "workflow", "config": {"workflow": "flow"}},
            {"id": "end", "type": "noop", "dependencies": ["each", "child"]},
        ],
    }
    async with App("memory://") as app:
        await app.workflows.deploy(FLOW)
        run = await app.start(document)
        await until_waiting(app.store, "signal", 4)

        output = await asked(app, run, "set_output", "each[1]", data=1)
        cancel = await asked(app, run, "cancel")
        (child,) = (await app.runs.tree(run)).children

    assert output.is_allowed
    assert set(cancel.cut_off) == {"each[0]", "each[1]", "child"}
    assert cancel.children == (child.run_id,)


async def test_what_is_asked_must_be_there() -> None:
    async with App("memory://", worker=False) as app:
        run = await app.start(FLOW)
        with pytest.raises(RunNotFoundError):
            await app.runs.preview("nothing", "cancel")
        with pytest.raises(NodeNotFoundError):
            await app.runs.preview(run, "skip", "nothing")
        with pytest.raises(InputError, match="node: skip is about a node"):
            await app.runs.preview(run, "skip")
        with pytest.raises(InputError, match="name the signal"):
            await app.runs.preview(run, "signal")


async def test_a_preview_reads_the_rows_of_every_store(store_url: str) -> None:
    async with App(store_url) as app:
        run = await app.start(FLOW)
        await until_waiting(app.store, "signal", 2)

        assert (await asked(app, run, "skip", "gate")).skipped == ("only",)
