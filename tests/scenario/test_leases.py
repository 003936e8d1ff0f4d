"""Leases: who may finish a node, and what happens when nobody does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import minuet
from minuet.clock import ManualClock
from minuet.store.exchange import Exchange, Grant, Held, Reply, Take
from minuet.worker import loop as worker_loop
from minuet.worker.worker import Worker

from .harness import PATIENCE, node, open_scene, task, workflow

LEASE_MS = 30_000


class Hand:
    """A worker played by the test: takes and hands in when it is told to."""

    def __init__(self, scene: Any, session: str) -> None:
        self.scene, self.session, self.seq = scene, session, 0

    async def exchange(self, **fields: Any) -> Reply:
        self.seq += 1
        request = Exchange(self.session, self.seq, f"{self.session}-{self.seq}", LEASE_MS, **fields)
        return await self.scene.store.exchange(request)  # type: ignore[no-any-return]

    async def take(self, limit: int = 10) -> list[Grant]:
        reply = await self.exchange(take=(Take(("", "inline", "task", "task:deadly"), limit),))
        return list(reply.granted)

    async def renew(self, grant: Grant) -> bool:
        held = Held(grant.run, grant.node, grant.scope, grant.lease)
        return not (await self.exchange(renew=(held,))).revoked

    async def finish(self, grant: Grant, output: Any = None) -> str:
        item = await self.scene.result_of(grant, output)
        (result,) = (await self.exchange(hand_in=(item,))).results
        return result


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.mark.shows("Y-21", "I-20", "I-26")
async def test_a_taken_token_has_a_lease_of_its_own(scene: Any, clock: ManualClock) -> None:
    async with scene(worker=False, clock=clock) as s:
        await s.app.start_many(workflow(node("a")), [None, None])
        hand = Hand(s, "w1")
        (first,) = await hand.take(1)
        (second,) = await hand.take(1)

        assert first.lease != second.lease
        assert await hand.finish(first) == "applied"
        assert (await s.end(first.run)).status == "COMPLETED"


@pytest.mark.shows("Y-22", "I-19", "I-05")
async def test_a_token_that_is_held_is_not_handed_out(scene: Any, clock: ManualClock) -> None:
    async with scene(worker=False, clock=clock) as s:
        await s.app.start(workflow(node("a")))

        assert len(await Hand(s, "w1").take()) == 1
        assert await Hand(s, "w2").take() == []


@pytest.mark.shows("Y-23", "Y-36", "I-21", "I-29", "I-08", "Q-20")
async def test_an_expired_lease_makes_the_token_ready_again(scene: Any, clock: ManualClock) -> None:
    async with scene(worker=False, clock=clock) as s:
        run_id = await s.app.start(workflow(node("a")))
        (lost,) = await Hand(s, "w1").take()
        clock.advance(LEASE_MS - 1)
        early = await s.store.sweep()
        clock.advance(1)
        late = await s.store.sweep()
        (again,) = await Hand(s, "w2").take()

        assert (early.expired, late.expired) == (0, 1)
        assert (again.node, again.expiry, again.delivery) == ("a", 1, 2)
        # A worker that dies is no failed attempt.
        assert again.attempt == lost.attempt == 1
        (expired,) = await s.events(run_id, "lease.expired")
        assert (expired["node"], expired["session"]) == ("a", "w1")


@pytest.mark.shows("Y-24", "I-22", "Q-18")
async def test_a_renewed_lease_does_not_expire(scene: Any, clock: ManualClock) -> None:
    async with scene(worker=False, clock=clock) as s:
        run_id = await s.app.start(workflow(node("a")))
        hand = Hand(s, "w1")
        (grant,) = await hand.take()
        for _ in range(5):
            clock.advance(20_000)
            assert await hand.renew(grant)
            assert (await s.store.sweep()).expired == 0

        assert await hand.finish(grant) == "applied"
        assert (await s.end(run_id)).status == "COMPLETED"


@pytest.mark.shows("Y-37", "Y-38", "Y-42", "I-24", "I-27", "I-28", "I-31")
async def test_a_healthy_worker_takes_over_and_the_old_one_comes_too_late(
    scene: Any, clock: ManualClock
) -> None:
    async with scene(worker=False, clock=clock) as s:
        run_id = await s.app.start(workflow(node("a")))
        old, new = Hand(s, "w1"), Hand(s, "w2")
        (lost,) = await old.take()
        clock.advance(LEASE_MS)
        await s.store.sweep()
        (grant,) = await new.take()

        assert (lost.delivery, grant.delivery) == (1, 2)
        assert not await old.renew(lost)
        assert await old.finish(lost, "of the old") == "stale"
        assert await new.finish(grant, "of the new") == "applied"
        assert await old.finish(lost, "of the old") in ("stale", "closed")
        result = await s.end(run_id)
        assert result.output == {"a": "of the new"}
        assert await s.order(run_id) == ["a"]


@pytest.mark.shows("Y-43", "I-22")
async def test_a_long_handler_keeps_its_short_lease(scene: Any) -> None:
    starts = []
    go = asyncio.Event()

    async def long(ctx: minuet.Context) -> str:
        starts.append(ctx.attempt)
        await go.wait()
        return "done"

    # Long enough for a machine that is busy with other things for a moment.
    async with scene({"long": long}, lease_seconds=1) as s:
        run_id = await s.app.start(workflow(task("long")))
        ends: set[int] = set()
        async with asyncio.timeout(PATIENCE):
            while len(ends) < 5:  # Five renewals: well beyond one lease.
                ends |= {t.due_ms for t in await s.store.read_tokens("default", run_id) if t.lease}
                await asyncio.sleep(0.01)
        go.set()
        result = await s.end(run_id)

        assert result.output == {"long": "done"}
        assert starts == [1]
        assert await s.count(run_id, "lease.expired") == 0


@pytest.mark.shows("H-38")
async def test_a_handler_whose_lease_is_lost_is_cancelled(
    scene: Any, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_loop, "IDLE_MS", 5)
    # Held on to here, so that nothing but a cancel can end the first handler.
    told, started, never = asyncio.Event(), asyncio.Event(), asyncio.Event()
    runs = []

    async def hold(ctx: minuet.Context) -> str:
        runs.append(ctx.lease_id)
        if len(runs) > 1:
            return "second"
        started.set()
        try:
            await never.wait()
        finally:
            told.set()
        return "first"

    # The store's clock jumps past the lease long before the worker thinks of renewing it, so
    # the token comes back to the very worker whose handler still runs.
    async with scene({"hold": hold}, clock=clock, lease_seconds=LEASE_MS / 1000) as s:
        run_id = await s.app.start(workflow(task("hold")))
        await started.wait()
        clock.advance(LEASE_MS)
        assert (await s.store.sweep()).expired == 1
        async with asyncio.timeout(PATIENCE):
            await told.wait()
        result = await s.end(run_id)

        assert result.output == {"hold": "second"}
        assert len(set(runs)) == 2


@pytest.mark.shows("I-29")
async def test_a_node_whose_workers_keep_dying_becomes_a_dead_letter(
    scene: Any, clock: ManualClock
) -> None:
    ran = []

    async def deadly() -> None:
        ran.append(1)

    document = workflow(task("deadly"), node("below", "deadly"))
    async with scene({"deadly": deadly}, worker=False, clock=clock) as s:
        run_id = await s.app.start(document)
        for number in range(3):
            grants = await Hand(s, f"w{number}").take(1)
            assert [g.node for g in grants] == ["deadly"]
            clock.advance(LEASE_MS)
            await s.store.sweep()
        worker = Worker(s.store, handlers=s.app.handlers, clock=clock)
        working = asyncio.create_task(worker.run())
        result = await s.end(run_id)
        other = await s.run(document)
        worker.stop()
        await working

        assert result.status == "FAILED"
        assert result.error is not None
        assert (result.error["code"], result.error["node"]) == ("crash_loop", "deadly")
        letters = await s.store.list_dead_letters("default", run=run_id)
        assert [(d.node, d.reason) for d in letters] == [("deadly", "crash_loop")]
        # Its attempts were none of the node's own failures.
        assert letters[0].attempts == 1
        # Nobody else suffers, and the node itself was not started a fourth time.
        assert other.status == "COMPLETED"
        assert len(ran) == 1


@pytest.mark.shows("Y-41", "Y-37")
async def test_a_run_goes_on_in_another_app_where_the_first_left_it(tmp_path: Path) -> None:
    store_url = f"sqlite:///{tmp_path}/runs.db"  # A store that outlives its App.
    ran: list[str] = []
    started = asyncio.Event()

    async def first(ctx: minuet.Context) -> None:
        ran.append(ctx.node_id)
        if ctx.node_id == "b":
            started.set()
            await asyncio.Event().wait()

    async def second(ctx: minuet.Context) -> None:
        ran.append(ctx.node_id)

    document = workflow(
        task("a", handler="work"), task("b", "a", handler="work"), task("c", "b", handler="work")
    )
    async with open_scene(store_url, {"work": first}, drain_seconds=0) as s:
        run_id = await s.app.start(document)
        await started.wait()
    async with open_scene(store_url, {"work": second}) as s:
        await s.app.runs.prepare(await s.app.runs.list_open())
        result = await s.end(run_id)

        assert result.status == "COMPLETED"
        assert ran == ["a", "b", "b", "c"]


@pytest.mark.shows("D-20", "D-21", "D-24")
async def test_a_node_is_pending_then_queued_then_running_then_completed(
    scene: Any, clock: ManualClock
) -> None:
    async with scene(worker=False, clock=clock) as s:
        run_id = await s.app.start(workflow(node("a"), node("b", "a")))
        hand = Hand(s, "w1")

        async def status() -> list[str]:
            nodes = (await s.app.runs.show(run_id)).nodes
            return [nodes["a"].status, nodes["b"].status]

        seen = [await status()]
        (grant,) = await hand.take()
        seen.append(await status())
        await hand.finish(grant)
        seen.append(await status())
        (grant,) = await hand.take()
        seen.append(await status())
        await hand.finish(grant)
        seen.append(await status())

        assert seen == [
            ["QUEUED", "PENDING"],
            ["RUNNING", "PENDING"],
            ["COMPLETED", "QUEUED"],
            ["COMPLETED", "RUNNING"],
            ["COMPLETED", "COMPLETED"],
        ]


async def test_a_retried_run_has_the_time_that_its_plan_gives_a_run(
    scene: Any, clock: ManualClock
) -> None:
    document = {**workflow(node("a")), "limits": {"deadline_s": 5}}
    async with scene(worker=False, clock=clock) as s:
        run_id = await s.app.start(document)
        clock.advance(5_000)
        await s.store.sweep()
        clock.advance(60_000)

        run = await s.app.runs.retry(run_id)

        assert run.deadline_ms == clock.now_ms() + 5_000
