"""Areas D and E: tokens, joins, counters, loops and choices."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

import pytest

import minuet
from minuet.clock import ManualClock
from minuet.kernel.fold import replay
from minuet.store.exchange import Exchange, Reply, Take
from minuet.store.memory import MemoryStore
from minuet.store.records import LIVE_STATES, Join, Key, Run, Token
from minuet.worker import loop, session, sweeping
from minuet.worker.worker import Worker

from ..scenario.harness import PATIENCE, node, open_scene, task, workflow
from ..worker.test_store_trouble import every, shaky
from .hand import Hand


@pytest.mark.shows("A-31")
async def test_all_entry_nodes_start_when_the_run_starts(scene: Any) -> None:
    begun = {"left": asyncio.Event(), "right": asyncio.Event()}

    async def left() -> None:
        begun["left"].set()
        await begun["right"].wait()

    async def right() -> None:
        begun["right"].set()
        await begun["left"].wait()

    async with scene({"left": left, "right": right}) as s:
        # Each waits for the other: the run ends only if both were started.
        result = await s.run(workflow(task("left"), task("right")))

    assert result.status == "COMPLETED"


@pytest.mark.shows("D-05")
async def test_a_node_starts_when_its_dependencies_end_and_not_at_the_next_look(
    scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever looks only now and then looks once an hour: with polling this run takes hours.
    monkeypatch.setattr(loop, "IDLE_MS", 3_600_000)
    monkeypatch.setattr(sweeping, "SWEEP_MS", 3_600_000)

    async def work() -> None:
        await asyncio.sleep(0)

    names = [f"n{n}" for n in range(10)]
    chain = [
        task(name, *([names[n - 1]] if n else []), handler="work") for n, name in enumerate(names)
    ]
    async with scene({"work": work}) as s:
        await s.idle()
        result = await s.run(workflow(*chain, task("join", "n9", "n4", handler="work")))

        assert result.status == "COMPLETED"


@pytest.mark.shows("H-13", "H-14")
async def test_a_result_that_is_committed_is_never_made_again(
    store_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(session, "BACKOFF_MS", (1, 4))
    caplog.set_level(logging.CRITICAL, "minuet.worker")
    ran: dict[str, int] = {}

    async def work(ctx: minuet.Context) -> None:
        ran[ctx.node_id] = ran.get(ctx.node_id, 0) + 1

    # Every other answer is lost after the fact, so the worker asks again for what it has done.
    names = [f"n{n}" for n in range(10)]
    document = workflow(*(task(n, handler="work") for n in names), node("end", *names))
    plan = every(["after", None], "exchange")
    async with shaky(store_url, plan, {"work": work}, concurrency=2) as s:
        result = await s.run(document)
        await s.idle()

        assert len(s.app.store.failed) > 3
        assert result.status == "COMPLETED"
        assert ran == dict.fromkeys(names, 1)


@pytest.mark.shows("H-13", "H-14")
async def test_a_token_that_comes_twice_has_one_result(scene: Any, clock: ManualClock) -> None:
    async with scene(worker=False, clock=clock) as s:
        run_id = await s.app.start(workflow(node("a"), node("b", "a")))
        first, second = Hand(s, "w1"), Hand(s, "w2")
        lost = (await first.take())["a"]
        clock.advance(30_000)
        await s.store.sweep()
        again = (await second.take())["a"]
        counted = await second.finish(again, "second")
        seq = (await s.app.runs.get(run_id)).seq

        assert counted == "applied"
        assert await second.finish(again, "second") == "duplicate"
        assert await first.finish(lost, "first") == "stale"
        # It is not handed out any more, whatever happens to leases.
        clock.advance(60_000)
        await s.store.sweep()
        assert set(await Hand(s, "w3").take()) == {"b"}
        assert (await s.app.runs.get(run_id)).seq == seq
        assert (await s.app.runs.show(run_id)).nodes["a"].output == "second"


@pytest.mark.shows("D-18")
async def test_a_worker_that_hangs_holds_up_no_other_arrival(scene: Any) -> None:
    names = ["p0", "p1", "p2"]
    async with scene(worker=False) as s:
        run_id = await s.app.start(workflow(*map(node, names), node("join", *names)))
        hanging, healthy = Hand(s, "w1"), Hand(s, "w2")
        held = await hanging.take(1)
        others = await healthy.take()
        for grant in others.values():
            assert await healthy.finish(grant) == "applied"
        arrived = (await s.store.read_snapshot("default", run_id)).joins[0].live
        (last,) = held.values()
        await hanging.finish(last)

        assert arrived == 2
        assert set(await healthy.take()) == {"join"}


@pytest.mark.shows("D-42")
async def test_at_its_end_a_run_is_complete_and_leaves_nothing_behind(
    scene: Any, clock: ManualClock
) -> None:
    document = workflow(
        node("a", type="transform", config={"value": 1}), node("b", "a"), node("c", "a", "b")
    )
    async with scene(worker=False, clock=clock) as s:
        run_id = await s.app.start(document)
        hand = Hand(s, "w")
        while grants := await hand.take():
            clock.advance(10)
            for grant in grants.values():
                await hand.finish(grant, {"of": grant.node})
        run, result = await s.app.runs.get(run_id), await s.app.runs.show(run_id)

        assert (run.status, run.counter) == ("COMPLETED", 0)
        assert run.ended_ms == run.created_ms + 30 == clock.now_ms()
        assert result.output == {"c": {"of": "c"}}
        assert await s.store.list_queues() == []
        tokens = await s.store.read_tokens("default", run_id)
        assert not [token for token in tokens if token.state in LIVE_STATES]
        assert (await s.store.sweep()).next_due_ms is None


@pytest.mark.shows("D-43")
async def test_a_run_that_waits_goes_on_and_says_for_what(scene: Any) -> None:
    document = workflow(node("a"), node("pause", type="wait", config={"seconds": 3600}))
    async with scene() as s:
        run_id = await s.app.start(document)
        await s.until(run_id, lambda run: run.seq == 4)
        run, why = await s.app.runs.get(run_id), await s.app.runs.explain(run_id, "pause")

        assert (run.status, run.counter) == ("RUNNING", 1)
        assert why.status == "WAITING"
        assert "timer" in why.summary


@pytest.mark.shows("D-47", "D-48")
async def test_an_arrival_counts_once_for_each_sender_and_receiver(scene: Any) -> None:
    document = workflow(
        *(node(name) for name in "abc"),
        node("all", *"abc"),
        node("two", *"abc", join=2),
    )
    async with scene(worker=False) as s:
        run_id = await s.app.start(document)
        hand = Hand(s, "w")
        grants = await hand.take()

        async def joins() -> dict[str, tuple[int, bool]]:
            snapshot = await s.store.read_snapshot("default", run_id)
            return {join.node: (join.live, join.fired) for join in snapshot.joins}

        seen = []
        for name in "abc":
            for _ in range(2):  # The second time counts for nobody.
                await hand.finish(grants[name])
            seen.append(await joins())
        first = await hand.take()

        assert seen == [
            {"all": (1, False), "two": (1, False)},
            {"all": (2, False), "two": (2, True)},
            {"all": (3, True), "two": (3, True)},
        ]
        # Each has fired once: what came later, or comes again, starts nobody.
        assert set(first) == {"all", "two"}
        for grant in first.values():
            await hand.finish(grant)
        assert await hand.finish(grants["a"]) == "duplicate"
        assert await hand.take() == {}
        assert (await s.app.runs.get(run_id)).status == "COMPLETED"


@pytest.mark.shows("D-49", "I-13")
async def test_a_token_says_where_it_comes_from_and_where_it_goes(
    scene: Any, clock: ManualClock
) -> None:
    async with scene(worker=False, clock=clock) as s:
        run_id = await s.app.start(workflow(node("a"), node("b", "a"), node("c", "b")))
        hand = Hand(s, "w")
        for output in ("one", "two"):
            ((_, grant),) = (await hand.take()).items()
            clock.advance(100)
            await hand.finish(grant, output)
        token = (await s.store.read_tokens("default", run_id))[-1]
        history = await s.app.runs.history(run_id)
        created_ms = replay(history).details["c", ""].created_ms
        grant = (await hand.take())["c"]

        # The run, the receiver and the sender, how far it has come, since when, and with what.
        assert token.key == (grant.run, grant.node, grant.scope) == (run_id, "c", "")
        assert (token.source, token.hop, grant.hop) == ("b", 2, 2)
        assert created_ms == clock.now_ms()
        assert [(given.node, given.data) for given in grant.inputs] == [("b", b'"two"')]
        source = next(t for t in await s.store.read_tokens("default", run_id) if t.node == "b")
        assert bytes(history[source.event - 1][2].output) == b'"two"'


@pytest.mark.shows("D-56")
async def test_a_completion_does_everything_in_one_step(scene: Any) -> None:
    document = workflow(
        node("a", branch={"rules": [{"when": "output.go", "next_nodes": ["b"]}]}),
        node("b"),
    )
    async with scene(worker=False) as s:
        run_id = await s.app.start(document)
        hand = Hand(s, "w")
        stood = []
        outputs: dict[str, Any] = {"a": {"go": True}, "b": {}}
        for name in "ab":
            grant = (await hand.take())[name]
            before = await s.store.read_snapshot("default", run_id)
            await hand.finish(grant, outputs[name])
            after = await s.store.read_snapshot("default", run_id)
            states = {token.node: token.state for token in after.tokens}
            new = [event for event in await s.events(run_id) if event["seq"] > before.run.seq]
            kinds = [event["type"] for event in new]
            stood.append((states, kinds, after.run.counter, after.run.status))

        # Consumed, routed, published and counted; and at a last node, the run ended with it.
        assert stood == [
            ({"a": "done", "b": "ready"}, ["node.completed"], 1, "RUNNING"),
            ({"a": "done", "b": "done"}, ["node.completed", "run.completed"], 0, "COMPLETED"),
        ]


@pytest.mark.shows("E-09")
async def test_the_iterations_of_a_loop_can_be_watched(scene: Any) -> None:
    document = workflow(
        node("before"), node("poll", "before", loop={"while": "output < 3", "max_iterations": 9})
    )
    async with scene(worker=False) as s:
        first, second = [await s.app.start(document) for _ in range(2)]
        hand = Hand(s, "w", "inline")
        watched = []
        for number in range(4):
            reply = await hand.exchange(take=(Take(("inline",), 100),))
            for grant in reply.granted:
                if grant.run == first:
                    await hand.finish(grant, number)
            view = (await s.app.runs.show(first)).nodes["poll"]
            watched.append((view.instances, view.output))
        program = await s.app.runs.program(first, (await s.app.runs.get(first)).plan)

        # One more is on its way each time; the other run's loop has not begun.
        assert watched == [(1, None), (2, 1), (3, 2), (3, 3)]
        assert (await s.app.runs.show(second)).nodes["poll"].instances == 0
        assert program.nodes["poll"].loop.max_iterations == 9
        assert (await s.app.runs.get(first)).status == "COMPLETED"


@pytest.mark.shows("E-22")
@pytest.mark.parametrize("chosen", [["x"], ["y", "z"], ["x", "y", "z"]])
async def test_a_choice_made_at_run_time_counts_like_any_other(
    scene: Any, chosen: list[str]
) -> None:
    async def agent() -> Any:
        return {"next_nodes": chosen, "reasoning": "because"}

    document = workflow(
        task(
            "agent",
            branch={"type": "agent_driven", "available_next_nodes": ["x", "y", "z"]},
        ),
        *map(node, "xyz"),
        node("end", *"xyz"),
    )
    async with scene({"agent": agent}) as s:
        result = await s.run(document)

        assert [n for n in "xyz" if result.nodes[n].status == "COMPLETED"] == chosen
        assert result.nodes["end"].status == "COMPLETED"
        (event,) = [e for e in await s.events(result.run_id) if e.get("node") == "agent"]
        # One consumed; three sent, live or skipped, and each of them is a token.
        assert event["counter"] == 3
        assert (await s.app.runs.get(result.run_id)).counter == 0


@pytest.mark.shows("E-25", "I-11")
async def test_a_worker_and_a_store_are_all_that_a_run_needs(scene: Any) -> None:
    async def work(ctx: minuet.Context) -> int:
        return len(ctx.inputs)

    document = workflow(
        task("a", handler="work"),
        node(
            "choose",
            "a",
            branch={"rules": [{"when": "ctx.a.output == 0", "next_nodes": ["b", "c"]}]},
        ),
        task("b", handler="work", loop={"while": "iteration < 2"}),
        task("c", handler="work"),
        task("end", "b", "c", handler="work"),
    )
    async with scene({"work": work}, worker=False) as s:
        run_id = await s.app.start(document)
        # It is given the store and the handlers, and nobody to report to.
        worker = Worker(s.store, handlers=s.app.handlers)
        working = asyncio.create_task(worker.run())
        async with asyncio.timeout(PATIENCE):
            while not await s.store.wait_for_end(str(run_id), 1000):
                pass
        worker.stop()
        await working
        result = await s.app.runs.show(run_id)

        assert result.status == "COMPLETED"
        assert result.output == {"end": 2}
        assert result.nodes["b"].instances == 3


class CountingStore(MemoryStore):
    """Counts the rows that the rules of an exchange look at."""

    looked_at = 0
    in_last_exchange = 0

    async def exchange(self, request: Exchange) -> Reply:
        self.looked_at = 0
        reply = await super().exchange(request)
        self.in_last_exchange = self.looked_at
        return reply

    def load_run(self, run: str) -> Run | None:
        self.looked_at += 1
        return super().load_run(run)

    def load_token(self, key: Key) -> Token | None:
        self.looked_at += 1
        return super().load_token(key)

    def has_token(self, key: Key) -> bool:
        self.looked_at += 1
        return super().has_token(key)

    def load_join(self, key: Key) -> Join | None:
        self.looked_at += 1
        return super().load_join(key)

    def has_arrival(self, key: Key, source: str) -> bool:
        self.looked_at += 1
        return super().has_arrival(key, source)

    def find_tokens(self, run: str, states: tuple[str, ...]) -> Iterable[Token]:
        found = list(super().find_tokens(run, states))
        self.looked_at += len(found)
        return found


@pytest.mark.shows("D-03")
async def test_whether_a_node_is_ready_costs_as_much_as_it_has_dependencies() -> None:
    async def cost(dependencies: int, others: int = 0) -> int:
        """Rows that are looked at until all have arrived and the node is ready."""
        before = [f"d{number}" for number in range(dependencies)]
        nodes = [*before, *(f"o{number}" for number in range(others))]
        document = workflow(*map(node, nodes), node("join", *before))
        store, looked_at = CountingStore(ManualClock()), 0
        async with open_scene(store, worker=False) as s:
            await s.app.start(document)
            hand = Hand(s, "w")
            granted = await hand.take()
            for name in before:
                await hand.finish(granted[name])
                looked_at += store.in_last_exchange
            assert list(await hand.take()) == ["join"]
        return looked_at

    four, eight, twelve = [await cost(number) for number in (4, 8, 12)]

    assert eight - four == twelve - eight > 0
    assert await cost(4, others=100) == four
