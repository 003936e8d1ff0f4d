"""Runs to be moved: in every state, with outputs that depend on their input alone."""

from __future__ import annotations

import json
from typing import Any

import minuet
from minuet.app.app import App
from minuet.clock import Clock
from minuet.errors import NonRetryable
from minuet.store.base import Store
from minuet.types import Json


@minuet.task
async def mg_double(number: int, ctx: minuet.Context) -> int:
    doubled: int = await ctx.step("double", lambda: number * 2)
    return doubled


@minuet.task
def mg_picky(number: int) -> Json:
    """Fails for some, and returns what only fits into a blob for others."""
    if number % 7 == 3:
        raise NonRetryable(f"{number} will not do")
    return "x" * 70_000 + str(number) if number % 33 == 5 else {"number": number}


#: Two ways that meet; one of them waits for an hour if its input says so.
ORDER: dict[str, Any] = {
    "name": "order",
    "output": "{{ meet.output }}",
    "nodes": [
        {"id": "start", "type": "transform", "config": {"value": "{{ input.n }}"}},
        {
            "id": "double",
            "handler": "mg_double",
            "config": {"number": "{{ start.output }}"},
            "dependencies": ["start"],
        },
        {
            "id": "hold",
            "type": "wait",
            "config": {"seconds": "{{ input.seconds }}"},
            "dependencies": ["start"],
        },
        {
            "id": "picky",
            "handler": "mg_picky",
            "config": {"number": "{{ start.output }}"},
            "dependencies": ["hold"],
        },
        {
            "id": "meet",
            "type": "transform",
            "config": {"value": ["{{ double.output }}", "{{ picky.output }}"]},
            "dependencies": ["double", "picky"],
        },
    ],
}


def inputs(numbers: range, seconds: int) -> list[Json]:
    return [{"n": number, "seconds": seconds} for number in numbers]


def app_on(store: Any, *, worker: bool = True, clock: Clock | None = None) -> App:
    return App(store, handlers=["tests.migrate.work"], worker=worker, clock=clock)


async def fill(store: Any, *, finished: int, open: int, clock: Clock | None = None) -> None:
    """Runs that are over, runs that wait, runs of which nothing was done yet."""
    waiting = open // 2
    async with app_on(store, clock=clock) as app:
        for first in range(0, finished, 500):
            numbers = range(first, min(first + 500, finished))
            for run in await app.start_many(ORDER, inputs(numbers, 0)):
                await app.runs.wait_ended(run)
        held = await app.start_many(
            ORDER,
            inputs(range(finished, finished + waiting), 3600),
            idempotency_keys=[f"key {number}" for number in range(waiting)],
        )
        for run in held:
            await reached(app, run, "hold")
    async with app_on(store, worker=False, clock=clock) as app:
        numbers = range(finished + waiting, finished + open)
        await app.start_many(ORDER, inputs(numbers, 0), tags={"untouched": True})


async def reached(app: App, run: str, node: str) -> None:
    """Wait until a node waits and nothing else is left to do."""
    seq = 0
    while True:
        tokens = await app.store.read_tokens("default", run)
        live = [t for t in tokens if t.state in ("ready", "leased", "waiting")]
        if [(t.node, t.state) for t in live] == [(node, "waiting")]:
            return
        row = await app.store.read_run("default", run)
        assert row is not None
        seq = max(seq, row.seq)
        await app.store.wait_for_change(run, seq, 1000)


async def finish(store: Any, *, clock: Clock | None = None) -> dict[int, tuple[str, Json]]:
    """Let workers end all runs; the status and the output of each, by the number in its input."""
    async with app_on(store, clock=clock) as app:
        for tenant in await app.store.list_tenants():
            while waiting := await app.store.list_waiting(tenant, "timer", limit=1000):
                for token in waiting:
                    await app.store.resolve(tenant, token.key, b'"now"')
        for run in await app.runs.list_open():
            await app.runs.wait_ended(run.run)
        return await results(app)


async def results(app: App) -> dict[int, tuple[str, Json]]:
    """Status, output and error of all runs."""
    found: dict[int, tuple[str, Json]] = {}
    before: str | None = None
    while page := await app.runs.list(before=before, limit=500):
        for run in page:
            result = await app.runs.show(run.run)
            number = json.loads(run.input)["n"]
            assert number not in found
            error = (result.error or {}).get("message")
            found[number] = (result.status, result.output if error is None else error)
        before = page[-1].run
    return found


class Kept:
    """A store that is opened and closed by somebody else, who may compare for himself."""

    def __init__(self, store: Store, *, is_compared: bool = False) -> None:
        self._store, self.is_compared = store, is_compared

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass
