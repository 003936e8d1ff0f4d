"""A run that has finished much gives way to runs that have finished little."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from minuet.app.app import App
from minuet.app.stores import make_store
from minuet.clock import SystemClock
from minuet.store.exchange import Exchange, Grant, Released, Reply, RunHeader
from minuet.worker.assignment import Assignment
from minuet.worker.sharing import GIVE_WAY_S, LARGE_S, SHARE, Finished, Sharing

from ..scenario.harness import PATIENCE, module_of, node, task, workflow

HEADER = RunHeader("run", "example", "plan")


def finished(**counts: int) -> Finished:
    """So many items of each run, all of the first run first."""
    found: Finished = []
    for run, count in counts.items():
        for number in range(count):
            grant = Grant(run, f"n{number}", "", "lease")
            found.append((Assignment(grant, HEADER), Released(run, f"n{number}", "", "lease")))
    return found


def test_a_run_that_is_alone_hands_in_everything() -> None:
    items = finished(large=500)

    assert Sharing().divide(items, 0.0) == (items, [])


def test_a_run_with_most_of_the_items_hands_in_its_share_and_the_others_everything() -> None:
    items = finished(large=100, small=2)

    first, rest = Sharing().divide(items, 0.0)

    assert first == items[:SHARE] + items[100:]
    assert rest == items[SHARE:100]


def test_a_run_hands_in_as_many_items_as_all_the_others_together() -> None:
    others = {f"small{number}": 1 for number in range(60)}

    first, rest = Sharing().divide(finished(large=100, **others), 0.0)
    even = finished(large=100, other=100)

    assert (len(first), len(rest)) == (120, 40)
    assert Sharing().divide(even, 0.0) == (even, [])


def test_a_run_gives_way_for_a_while_after_the_others_had_something() -> None:
    sharing, items = Sharing(), finished(large=100)
    sharing.divide(finished(large=100, small=1), 5.0)

    first, rest = sharing.divide(items, 5.0 + GIVE_WAY_S / 2)

    assert (first, rest) == (items[:SHARE], items[SHARE:])
    assert sharing.divide(items, 5.0 + GIVE_WAY_S) == (items, [])


def test_a_run_gives_way_to_one_that_it_takes_turns_with() -> None:
    sharing, items = Sharing(), finished(large=100)
    sharing.divide(finished(small=1), 5.0)

    assert sharing.divide(items, 5.0) == (items[:SHARE], items[SHARE:])
    assert sharing.divide(items, 5.0 + GIVE_WAY_S) == (items, [])


def test_a_run_does_not_give_way_to_those_that_were_large_while_none_gave_way() -> None:
    """Else large runs that began together would give way to each other's last nodes."""
    sharing, items = Sharing(), finished(large=100)
    sharing.divide(finished(large=1, other=1), 5.0)
    sharing.hand_in_all(finished(other=100), 5.0)

    assert sharing.divide(items, 5.0) == (items, [])
    joined = finished(large=100, other=1)
    assert sharing.divide(joined, 5.0) == (joined, [])


def test_a_run_does_not_give_way_to_itself() -> None:
    sharing, items = Sharing(), finished(large=100)
    sharing.divide(finished(large=1), 5.0)

    assert sharing.divide(items, 5.0) == (items, [])


def test_large_runs_that_began_at_the_same_time_do_not_give_way_to_each_other() -> None:
    sharing, items = Sharing(), finished(a=100, b=SHARE)
    sharing.divide(finished(a=1, b=1), 5.0)
    sharing.divide(finished(a=100), 5.0)

    assert sharing.divide(items, 5.0) == (items, [])


def test_a_run_does_not_give_way_to_the_last_node_of_a_large_one() -> None:
    sharing, items = Sharing(), finished(a=100)
    sharing.divide(finished(a=100, b=100), 5.0)
    sharing.divide(finished(b=1), 5.0)

    assert sharing.divide(items, 5.0) == (items, [])


def test_a_large_run_that_goes_on_in_small_steps_is_a_small_one_after_a_while() -> None:
    sharing, items = Sharing(), finished(a=100)
    sharing.divide(finished(b=100), 5.0)
    sharing.divide(items, 5.0 + LARGE_S)
    sharing.divide(finished(b=1), 5.0 + LARGE_S)

    first, _ = sharing.divide(items, 5.0 + LARGE_S)

    assert first == items[:SHARE]


class Watched:
    """A store that notes what each exchange hands in, and how much its worker holds."""

    def __init__(self, store: Any, overlaps: bool | None = None) -> None:
        self._store = store
        self.overlaps = store.overlaps if overlaps is None else overlaps
        self.batches: list[Counter[str]] = []
        self.held = self.held_most = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def exchange(self, request: Exchange) -> Reply:
        self.batches.append(Counter(item.run for item in request.hand_in))
        reply: Reply = await self._store.exchange(request)
        self.held += len(reply.granted) - len(request.hand_in)
        self.held_most = max(self.held_most, self.held)
        return reply


def chain(length: int, first: str) -> dict[str, Any]:
    """Nodes one after the other; the first has a handler of its own."""
    nodes = [task("n0", handler=first)]
    nodes += [task(f"n{i}", f"n{i - 1}", handler="work") for i in range(1, length)]
    return workflow(*nodes)


class Meeting:
    """Handlers of a large run that wait for the first one of a small run."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def wait(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.begun.wait()

    async def begin(self) -> None:
        self.begun.set()

    async def work(self) -> None:
        return None

    @property
    def handlers(self) -> dict[str, Any]:
        return {"wait": self.wait, "begin": self.begin, "work": self.work}


async def test_a_small_run_shares_its_exchanges_with_few_items_of_a_foreach(scene: Any) -> None:
    watched: list[Watched] = []

    def watch(store: Any) -> Watched:
        watched.append(Watched(store))
        return watched[0]

    each = {"items": list(range(210)), "max_parallel": 60}
    large = workflow(task("each", handler="wait", foreach=each))
    async with scene(Meeting().handlers, concurrency=200, around=watch) as s:
        large_run = await s.app.start(large)
        small_run = await s.app.start(chain(5, "begin"))
        assert (await s.end(small_run)).status == "COMPLETED"
        assert (await s.end(large_run)).status == "COMPLETED"

    shared = [batch[large_run] for batch in watched[0].batches if batch[small_run]]
    assert max(shared) == SHARE


@pytest.mark.parametrize("overlaps", [False, True])
async def test_a_small_run_beside_a_foreach_hands_in_a_node_with_every_exchange(
    tmp_path: Path, overlaps: bool
) -> None:
    under_way = asyncio.Event()

    async def count(number: int) -> None:
        if number == 100:
            under_way.set()

    async def work() -> None:
        return None

    store = Watched(make_store(f"sqlite:///{tmp_path}/runs.db", clock=SystemClock()), overlaps)
    each = {"items": list(range(700)), "max_parallel": 60}
    large = workflow(task("each", handler="count", foreach=each, config={"number": "{{ item }}"}))
    handlers = module_of({"count": count, "work": work})
    async with App(store, handlers=[handlers], concurrency=200) as app:
        large_run = await app.start(large)
        async with asyncio.timeout(PATIENCE):
            await under_way.wait()
        small_run = await app.start(chain(5, "work"))
        assert (await app.wait(small_run, timeout=PATIENCE)).status == "COMPLETED"
        assert (await app.wait(large_run, timeout=PATIENCE)).status == "COMPLETED"

    found = [at for at, batch in enumerate(store.batches) if batch[small_run]]
    # From the second one on: the first may meet a large exchange that is under way.
    assert found[1:] == list(range(found[1], found[1] + 4))
    assert {store.batches[at][large_run] for at in found[1:]} == {SHARE}


async def test_a_worker_that_keeps_results_back_does_not_take_more_and_more(
    tmp_path: Path,
) -> None:
    store = Watched(make_store(f"sqlite:///{tmp_path}/runs.db", clock=SystemClock()))
    wide = workflow(*(task(f"n{number}", handler="wait") for number in range(300)))
    meeting = Meeting()
    async with App(store, handlers=[module_of(meeting.handlers)], concurrency=60) as app:
        large_run = await app.start(wide)
        # Inline nodes do not queue behind the tasks, so each exchange has one of them.
        inline = (node(f"n{i}", f"n{i - 1}") for i in range(1, 60))
        meeting.begun.set()
        small_run = await app.start(workflow(node("n0"), *inline))
        assert (await app.wait(small_run, timeout=PATIENCE)).status == "COMPLETED"
        assert (await app.wait(large_run, timeout=PATIENCE)).status == "COMPLETED"

    assert store.held_most <= 2 * 60
