"""How many handlers run at once, where they run, and what waits."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import msgspec
import pytest

import minuet
from minuet.clock import ManualClock
from minuet.store.exchange import Exchange, Reply, Slot

from ..scenario.harness import PATIENCE, QUICK_RETRY, node, open_scene, task, workflow


class Meter:
    """Counts how many handlers run at once; lets them go when `enough` have met."""

    def __init__(self, enough: int) -> None:
        self.now = self.most = 0
        self.enough = enough
        self.lock = threading.Lock()
        self.met = threading.Event()

    def enter(self) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            if self.now >= self.enough:
                self.met.set()

    def leave(self) -> None:
        with self.lock:
            self.now -= 1


@pytest.mark.shows("H-06", "H-07")
async def test_sync_handlers_run_in_threads_up_to_the_limit(scene: Any) -> None:
    meter = Meter(3)
    threads = set()

    def work() -> None:
        meter.enter()
        threads.add(threading.current_thread())
        meter.met.wait(PATIENCE)
        meter.leave()

    document = workflow(*(task(f"n{n}", handler="work") for n in range(20)))
    async with scene({"work": work}, concurrency=3) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert meter.most == 3
        assert threading.main_thread() not in threads


@pytest.mark.shows("H-06", "H-07", "H-08", "H-02", "H-01")
async def test_async_handlers_of_all_queues_share_the_same_permits(scene: Any) -> None:
    meter = Meter(4)
    loop = asyncio.get_running_loop()
    loops = set()
    seen: list[int] = []

    async def work() -> None:
        meter.enter()
        loops.add(asyncio.get_running_loop())
        await asyncio.to_thread(meter.met.wait, PATIENCE)
        meter.leave()

    def block() -> None:
        meter.enter()
        meter.met.wait(PATIENCE)
        meter.leave()

    document = workflow(
        *(task(f"a{n}", handler="work") for n in range(10)),
        *(task(f"b{n}", handler="block") for n in range(10)),
    )
    async with scene({"work": work, "block": block}, concurrency=4) as s:
        run_id = await s.app.start(document)
        while not meter.met.is_set():
            tokens = await s.store.read_tokens("default", run_id)
            seen.append(sum(t.state == "leased" for t in tokens))
            await asyncio.sleep(0)
        result = await s.end(run_id)

        assert result.status == "COMPLETED"
        assert meter.most == 4
        assert loops == {loop}
        # What the worker has no permit for stays in the store for others.
        assert max(seen) <= 4


@pytest.mark.shows("H-07")
async def test_no_token_is_taken_without_a_permit(scene: Any) -> None:
    go, started = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        started.set()
        await go.wait()

    document = workflow(*(task(f"n{n}", handler="hold") for n in range(5)))
    async with scene({"hold": hold}, concurrency=1) as s:
        run_id = await s.app.start(document)
        await started.wait()
        # Pure nodes need no permit: this run goes through while the only one is in use.
        assert (await s.run(workflow(node("a"), node("b", "a")))).status == "COMPLETED"
        states = Counter(t.state for t in await s.store.read_tokens("default", run_id))
        go.set()
        await s.end(run_id)

        assert states == {"leased": 1, "ready": 4}


@pytest.mark.shows("H-06")
async def test_a_thread_that_ignores_its_timeout_keeps_its_permit(scene: Any) -> None:
    go = threading.Event()
    meter = Meter(1)
    calls = []

    def stuck(ctx: minuet.Context) -> str:
        calls.append(ctx.attempt)
        meter.enter()
        try:
            if ctx.attempt == 1:
                while not ctx.cancelled:
                    go.wait(0.002)
                go.wait(0.03)  # It goes on working though it was told.
                return "dropped"
            return "kept"
        finally:
            meter.leave()

    retry = {"max_attempts": 2, "backoff_ms": 1, "jitter": False}
    # Long enough for its thread to begin on a busy machine.
    document = workflow(task("stuck", timeout_seconds=0.3, retry=retry))
    async with scene({"stuck": stuck}, concurrency=1) as s:
        result = await s.run(document)

        assert result.output == {"stuck": "kept"}
        assert calls == [1, 2]
        assert meter.most == 1


async def test_a_handler_that_waits_for_a_slot_does_not_exceed_the_limit(scene: Any) -> None:
    meter = Meter(2)
    both = asyncio.Event()

    async def work() -> None:
        meter.enter()
        if meter.met.is_set():
            both.set()
        await both.wait()  # On a busy machine the first would be gone before the second comes.
        for _ in range(20):
            await asyncio.sleep(0)
        meter.leave()

    document = workflow(
        *(
            task(f"n{n}", handler="work", concurrency={"key": f"k{n % 5}", "limit": 5})
            for n in range(40)
        ),
        *(task(f"m{n}", handler="work") for n in range(40)),
    )
    async with scene({"work": work}, concurrency=2) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert meter.most == 2


# ── concurrency keys ────────────────────────────────────────────────────────────────────────


async def test_a_concurrency_key_lets_as_many_in_as_it_says(scene: Any) -> None:
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()
    both = {"a": asyncio.Event(), "b": asyncio.Event()}

    async def work(ctx: minuet.Context) -> None:
        key = ctx.input["customer"]
        running[key] += 1
        most[key] = max(most[key], running[key])
        if running[key] == 2:
            both[key].set()
        await both[key].wait()  # On a busy machine the first would be gone before the second comes.
        for _ in range(10):
            await asyncio.sleep(0)
        running[key] -= 1

    document = workflow(
        task("work", concurrency={"key": "customer-{{ input.customer }}", "limit": 2})
    )
    async with scene({"work": work}, concurrency=16) as s:
        inputs = [{"customer": "ab"[n % 2]} for n in range(16)]
        run_ids = await s.app.start_many(document, inputs)
        results = [await s.end(run_id) for run_id in run_ids]

        assert {r.status for r in results} == {"COMPLETED"}
        assert most == {"a": 2, "b": 2}


async def test_who_waits_for_a_slot_is_served_in_the_order_of_coming(scene: Any) -> None:
    clock = ManualClock()
    go = asyncio.Event()
    order: list[int] = []

    async def work(ctx: minuet.Context) -> None:
        order.append(ctx.input)
        await go.wait()

    document = workflow(task("work", concurrency={"key": "one", "limit": 1}))
    async with scene({"work": work}, clock=clock) as s:
        run_ids = []
        for number in range(5):
            run_ids.append(await s.app.start(document, number))
            wanted = "leased" if number == 0 else "slot"
            async with asyncio.timeout(PATIENCE):
                while True:
                    (token,) = await s.store.read_tokens("default", run_ids[-1])
                    if (token.lane or token.state) == wanted and token.slot == "one":
                        break
                    await asyncio.sleep(0)
            clock.advance(1)
        why = await s.app.runs.explain(run_ids[-1], "work")
        go.set()
        for run_id in run_ids:
            await s.end(run_id)

        assert order == [0, 1, 2, 3, 4]
        assert "one" in f"{why.summary} {why.reasons}"


@pytest.mark.parametrize("end", ["fail", "cancel", "retry"])
async def test_a_slot_is_given_back_however_its_holder_ends(scene: Any, end: str) -> None:
    started = asyncio.Event()

    async def first(ctx: minuet.Context) -> None:
        started.set()
        if end == "fail":
            raise ValueError("no")
        if end == "retry" and ctx.attempt == 1:
            raise minuet.Retryable("again", after=0.001)
        if end == "cancel":
            await asyncio.Event().wait()

    async def second() -> str:
        return "in"

    slot: dict[str, Any] = {"concurrency": {"key": "one", "limit": 1}, "retry": QUICK_RETRY}
    async with scene({"first": first, "second": second}, lease_seconds=0.06) as s:
        run_id = await s.app.start(workflow(task("first", **slot)))
        await started.wait()
        waiting = await s.app.start(workflow(task("second", **slot)))
        if end == "cancel":
            await s.app.cancel(run_id)
        await s.end(run_id)

        assert (await s.end(waiting)).output == {"second": "in"}


async def test_a_concurrency_key_that_cannot_be_rendered_fails_its_node(scene: Any) -> None:
    async def work() -> None: ...

    document = workflow(task("work", concurrency={"key": "{{ input.nothing }}", "limit": 1}))
    async with scene({"work": work}) as s:
        result = await s.run(document, {})

        assert result.status == "FAILED"
        assert result.error is not None
        assert result.error["code"] == "template-error"


class WithoutSlots:
    """A store that cannot count the holders of a concurrency key, as a Redis Cluster."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def exchange(self, request: Exchange) -> Reply:
        kept = tuple(item for item in request.hand_in if not isinstance(item, Slot))
        reply = await self._store.exchange(msgspec.structs.replace(request, hand_in=kept))
        results = iter(reply.results)
        judged = ["limit" if isinstance(i, Slot) else next(results) for i in request.hand_in]
        judged_reply: Reply = msgspec.structs.replace(reply, results=tuple(judged))
        return judged_reply


async def test_a_store_without_slots_fails_the_node_that_needs_one_and_nothing_else(
    store_url: str,
) -> None:
    keyed = task("keyed", handler="work", retry=3, concurrency={"key": "k", "limit": 1})
    document = workflow(keyed, task("free", handler="work"))
    ran = []

    async def work(ctx: minuet.Context) -> None:
        ran.append(ctx.node_id)

    async with open_scene(store_url, {"work": work}, around=WithoutSlots) as s:
        result = await s.run(document)

    assert result.status == "FAILED"
    assert (result.nodes["keyed"].error or {})["code"] == "no_slots"
    assert "keyed" not in ran
