"""The scenarios that the original documents name, end to end."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

import minuet
from minuet.store.exchange import Exchange, Take
from minuet.worker.worker import Worker

from .harness import PATIENCE, node, task, workflow


@pytest.mark.shows(
    *("Y-01", "Y-39", "D-01", "D-04", "D-26", "G-01", "G-02", "G-04", "G-05", "G-07", "G-08")
)
async def test_a_chain_runs_in_order_and_passes_its_data_on(scene: Any) -> None:
    seen: list[int] = []

    async def double(value: int) -> dict[str, int]:
        seen.append(value)
        return {"value": value * 2}

    document = workflow(
        task("a", handler="double", config={"value": "{{ input.start }}"}),
        task("b", "a", handler="double", config={"value": "{{ a.value }}"}),
        task("c", "b", handler="double", config={"value": "{{ a.value + b.output.value }}"}),
    )
    async with scene({"double": double}) as s:
        result = await s.run(document, {"start": 5})

        assert result.status == "COMPLETED"
        assert result.output == {"c": {"value": 60}}
        assert seen == [5, 10, 30]
        assert await s.order(result.run_id) == ["a", "b", "c"]


@pytest.mark.shows("Y-02", "Y-17", "D-02", "D-06", "D-10", "D-11", "D-45", "G-17")
@pytest.mark.parametrize("branches", [2, 3])
async def test_a_fan_in_runs_after_all_its_parents_with_all_their_outputs(
    scene: Any, branches: int
) -> None:
    names = [f"b{number}" for number in range(branches)]

    async def work(ctx: minuet.Context) -> str:
        return f"from {ctx.node_id}"

    async def merge(ctx: minuet.Context) -> Any:
        return dict(ctx.inputs)

    document = workflow(
        task("a", handler="work"),
        *(task(name, "a", handler="work") for name in names),
        task("d", *names, handler="merge"),
    )
    async with scene({"work": work, "merge": merge}) as s:
        result = await s.run(document)

        assert result.output == {"d": {name: f"from {name}" for name in names}}
        order = await s.order(result.run_id)
        assert order[0] == "a"
        assert order[-1] == "d"
        assert sorted(order) == ["a", *names, "d"]


@pytest.mark.shows("Y-03", "Y-06", "D-08", "D-09", "D-13", "D-17", "D-53", "D-55")
@pytest.mark.parametrize("parents", [2, 10])
async def test_parents_that_finish_together_start_their_child_once(
    scene: Any, parents: int
) -> None:
    barrier = threading.Barrier(parents)
    ran: list[str] = []

    def parent() -> None:
        barrier.wait(PATIENCE)

    def child(ctx: minuet.Context) -> int:
        ran.append(ctx.idempotency_key)
        return len(ctx.inputs)

    names = [f"p{number}" for number in range(parents)]
    document = workflow(*(task(name, handler="parent") for name in names), task("child", *names))
    async with scene({"parent": parent, "child": child}, concurrency=parents) as s:
        result = await s.run(document)

        assert result.output == {"child": parents}
        assert len(ran) == 1
        assert (await s.order(result.run_id)).count("child") == 1


@pytest.mark.shows("Y-03", "Y-06", "D-17")
async def test_three_hundred_parents_that_finish_together_start_their_child_once(
    scene: Any,
) -> None:
    parents, arrived, everybody = 300, 0, asyncio.Event()
    ran = []

    async def parent() -> None:
        nonlocal arrived
        arrived += 1
        if arrived == parents:
            everybody.set()
        await everybody.wait()

    async def child(ctx: minuet.Context) -> int:
        ran.append(1)
        return len(ctx.inputs)

    names = [f"p{number}" for number in range(parents)]
    document = workflow(*(task(name, handler="parent") for name in names), task("child", *names))
    async with scene({"parent": parent, "child": child}, concurrency=parents) as s:
        result = await s.run(document)

        assert result.output == {"child": parents}
        assert len(ran) == 1


async def counters(s: Any, run_id: str) -> list[int]:
    history = await s.app.runs.history(run_id)
    return [event.counter for _, _, event in history if hasattr(event, "counter")]


@pytest.mark.shows("Y-07", "D-29", "D-30", "D-31", "D-36")
async def test_the_counter_of_a_sequence_counts_the_tokens_in_flight(scene: Any) -> None:
    async with scene() as s:
        result = await s.run(workflow(node("a"), node("b", "a"), node("c", "b")))

        # Consuming a token and emitting the next is one step, so it never shows a false 0.
        assert await counters(s, result.run_id) == [1, 1, 1, 0]
        assert (await s.app.runs.get(result.run_id)).counter == 0


@pytest.mark.shows("Y-08", "D-29", "D-31")
async def test_the_counter_of_a_fan_out_rises_by_its_width(scene: Any) -> None:
    document = workflow(node("a"), *(node(n, "a") for n in "bcd"))
    async with scene() as s:
        result = await s.run(document)

        assert await counters(s, result.run_id) == [1, 3, 2, 1, 0]


@pytest.mark.shows("D-30")
async def test_a_run_with_two_entries_starts_with_a_counter_of_two(scene: Any) -> None:
    async with scene() as s:
        result = await s.run(workflow(node("a"), node("b"), node("c", "a", "b")))

        assert (await counters(s, result.run_id))[0] == 2
        assert (await counters(s, result.run_id))[-1] == 0


@pytest.mark.shows("D-40", "D-41", "O-02", "O-03")
async def test_several_terminals_complete_a_run_once(scene: Any) -> None:
    document = workflow(node("a"), *(node(f"t{n}", "a") for n in range(20)))
    async with scene() as s:
        result = await s.run(document)

        events = await s.events(result.run_id)
        assert Counter(e["type"] for e in events)["run.completed"] == 1
        assert events[-1]["type"] == "run.completed"
        assert [e["seq"] for e in events] == list(range(1, len(events) + 1))


@pytest.mark.shows("Y-09", "Y-25", "D-15", "D-32", "D-33", "D-46", "J-28")
async def test_a_token_handed_in_twice_counts_once(scene: Any) -> None:
    async with scene(worker=False) as s:
        run_id = await s.app.start(workflow(node("a"), node("b", "a")))
        take = Exchange("s1", 1, "l1", take=(Take(("", "inline"), 10),))
        (grant,) = (await s.store.exchange(take)).granted
        item = await s.result_of(grant, {})

        first = await s.store.exchange(Exchange("s1", 2, "l2", hand_in=(item, item)))
        again = await s.store.exchange(Exchange("s1", 2, "l2", hand_in=(item, item)))
        later = await s.store.exchange(Exchange("s1", 3, "l3", hand_in=(item,)))

        assert first.results == again.results == ("applied", "duplicate")
        assert later.results == ("duplicate",)
        run = await s.app.runs.get(run_id)
        assert run.counter == 1
        assert await s.order(run_id) == ["a"]


@pytest.mark.shows("Y-22", "I-05", "I-19")
async def test_a_token_is_handed_out_to_one_worker_and_run_once(store_url: str, scene: Any) -> None:
    ran: list[str] = []

    async def once(ctx: minuet.Context) -> None:
        ran.append(ctx.node_id)

    names = [f"n{number}" for number in range(30)]
    document = workflow(*(task(name, handler="once") for name in names))
    async with scene({"once": once}) as s:
        second = Worker(s.store, handlers=s.app.handlers)
        working = asyncio.create_task(second.run())
        result = await s.run(document)
        second.stop()
        await working

        assert result.status == "COMPLETED"
        assert sorted(ran) == sorted(names)


@pytest.mark.shows("Y-11", "A-25", "E-01", "E-03", "E-05", "E-23")
@pytest.mark.parametrize(
    ("amount", "chosen"), [(5000, "director"), (500, "manager"), (5, "nobody")]
)
async def test_a_decision_routes_by_its_first_rule_that_holds(
    scene: Any, amount: int, chosen: str
) -> None:
    document = workflow(
        node("total", type="transform", config={"value": {"amount": "{{ input.amount }}"}}),
        node(
            "decide",
            "total",
            type="decision",
            branch={
                "rules": [
                    {"when": "output.total.amount > 1000", "next_nodes": ["director"]},
                    {"when": "output.total.amount > 100", "next_nodes": ["manager"]},
                ],
                "default": ["nobody"],
            },
        ),
        node("director"),
        node("manager"),
        node("nobody"),
    )
    async with scene() as s:
        result = await s.run(document, {"amount": amount})

        assert result.status == "COMPLETED"
        assert set(result.output) == {chosen}
        ends = {name: result.nodes[name].status for name in ("director", "manager", "nobody")}
        assert ends.pop(chosen) == "COMPLETED"
        assert set(ends.values()) == {"SKIPPED"}


@pytest.mark.shows("Y-18", "D-54", "E-05")
async def test_a_branch_with_three_terminals_runs_the_chosen_one(scene: Any) -> None:
    ran = []

    async def work(ctx: minuet.Context) -> None:
        ran.append(ctx.node_id)

    document = workflow(
        node(
            "choose",
            branch={
                "rules": [
                    {"condition": "input.way == 'x'", "next_nodes": ["x"]},
                    {"condition": "input.way == 'y'", "next_nodes": ["y"]},
                ],
                "default": ["z"],
            },
        ),
        *(task(name, handler="work") for name in "xyz"),
    )
    async with scene({"work": work}) as s:
        result = await s.run(document, {"way": "y"})

        assert result.status == "COMPLETED"
        assert ran == ["y"]
        assert set(result.output) == {"y"}


@pytest.mark.shows("Y-15", "Y-16", "O-09", "O-10")
async def test_a_run_is_replayed_as_it_was_at_any_event(scene: Any) -> None:
    document = workflow(
        node("a", type="transform", config={"value": 1}),
        node("b", "a", type="transform", config={"value": "{{ a.output + 1 }}"}),
        node("c", "b", type="transform", config={"value": "{{ b.output + 1 }}"}),
    )
    async with scene() as s:
        result = await s.run(document)
        stood = [await s.app.runs.replay(result.run_id, at=n) for n in range(1, result.seq + 1)]

        assert [r.status for r in stood] == ["PENDING", *["RUNNING"] * 4, "COMPLETED"]
        outputs = [[r.nodes[n].output for n in "abc"] for r in stood]
        assert outputs == [
            [None, None, None],
            [None, None, None],
            [1, None, None],
            [1, 2, None],
            [1, 2, 3],
            [1, 2, 3],
        ]
        assert [r.nodes["b"].status for r in stood[:4]] == [
            *("PENDING", "PENDING", "QUEUED", "COMPLETED")
        ]
        assert await s.app.runs.replay(result.run_id) == result


@pytest.mark.shows("D-50", "D-51", "O-08")
async def test_the_way_of_a_run_can_be_read_from_its_events(scene: Any) -> None:
    document = workflow(node("a"), node("b", "a"), node("c", "a"), node("d", "b", "c"))
    async with scene() as s:
        result = await s.run(document)

        done = await s.events(result.run_id, "node.completed")
        way = {(e["node"], to[0]) for e in done for to in e.get("to", [])}
        assert way == {("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")}
        assert {e["node"]: e.get("hop", 0) for e in done} == {"a": 0, "b": 1, "c": 1, "d": 2}
        times = [e["at_ms"] for e in done]
        assert times == sorted(times)


@pytest.mark.shows("Y-40", "H-04", "H-41", "I-06")
async def test_several_workers_share_the_work_of_one_store(scene: Any) -> None:
    ran: Counter[str] = Counter()
    meeting = asyncio.Event()
    busy = 0

    async def work(ctx: minuet.Context) -> None:
        nonlocal busy
        ran[ctx.idempotency_key] += 1
        busy += 1
        if busy == 6:  # More than one worker takes at once.
            meeting.set()
        await meeting.wait()

    document = workflow(*(task(f"n{number}", handler="work") for number in range(24)))
    async with scene({"work": work}, concurrency=2) as s:
        more = [Worker(s.store, handlers=s.app.handlers, concurrency=2) for _ in range(2)]
        working = [asyncio.create_task(worker.run()) for worker in more]
        result = await s.run(document)
        for worker in more:
            worker.stop()
        await asyncio.gather(*working)

        assert result.status == "COMPLETED"
        assert set(ran.values()) == {1}
        events = await s.events(result.run_id, "node.completed")
        assert len({e["session"] for e in events}) == 3
