"""What is moved, what is refused, and what is said about it."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.migrate.work import ORDER, Kept, app_on, fill, finish, inputs, results
from tests.store.conftest import FACTORIES, ONE_OF_EACH

from minuet.app.move.mover import Mover
from minuet.app.move.parcel import moved_store, moved_to
from minuet.app.move.transfer import Outcome
from minuet.clock import ManualClock, SystemClock
from minuet.errors import ConfigError, RunConflictError
from minuet.store.base import Store
from minuet.store.changes import NewRun, Pause
from minuet.store.exchange import Delivery, Done, Exchange, Released, Slot, Take
from minuet.store.memory import MemoryStore


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def here(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def there(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock)


Move = Callable[..., Any]


@pytest.fixture
def move(here: MemoryStore, there: MemoryStore, clock: ManualClock) -> Move:
    async def call(**options: Any) -> list[Outcome]:
        mover = Mover(here, there, clock, come_from="here", to="there", **options)
        total = await mover.count()
        found = [outcome async for outcome in mover.move()]
        assert len(found) == total
        return found

    return call


def kinds(outcomes: list[Outcome]) -> list[str]:
    return sorted(outcome.kind for outcome in outcomes)


class Hand:
    """A worker that does what a test tells it."""

    def __init__(self, store: Store) -> None:
        self._store, self._seq = store, 0

    async def exchange(self, *items: Any, limit: int = 0) -> Any:
        self._seq += 1
        queues = ("", "q", "inline", "task:mg_double", "task:mg_picky")
        return await self._store.exchange(
            Exchange(
                "hand",
                self._seq,
                f"lease {self._seq}",
                hand_in=items,
                take=(Take(queues, limit),),
            )
        )


# ── any store to any ────────────────────────────────────────────────────────────────────────


#: To move a run is to read it and to put it: each store does both with each of two others, and
#: `make faults` has all of them do it with all.
PAIRS = [
    (here, there)
    for (number, here), (place, there) in itertools.product(enumerate(ONE_OF_EACH), repeat=2)
    if (place - number) % len(ONE_OF_EACH) in (0, 1, 2) or "MINUET_TEST_BLOWS" in os.environ
]


@pytest.fixture
async def source(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    store = FACTORIES[request.param](tmp_path, None)  # type: ignore[arg-type]
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def target(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    (tmp_path / "target").mkdir()
    store = FACTORIES[request.param](tmp_path / "target", None)  # type: ignore[arg-type]
    await store.open()
    yield store
    await store.close()


@pytest.mark.shows("W-09")
@pytest.mark.parametrize(("source", "target"), PAIRS, indirect=True)
async def test_runs_end_in_any_other_store_as_they_would_have_ended(
    source: Store, target: Store
) -> None:
    await fill(Kept(source), finished=3, open=4)
    untouched = MemoryStore()
    await fill(untouched, finished=3, open=4)
    before = [run.run for run in await source.list_runs("default")]
    mover = Mover(source, target, SystemClock(), come_from="a", to="b")

    outcomes = [outcome async for outcome in mover.move()]

    assert kinds(outcomes) == ["moved"] * 7
    assert sum(outcome.open for outcome in outcomes) == 4
    assert [run.run for run in await target.list_runs("default")] == before
    assert await source.list_queues() == []
    ended = await finish(Kept(target))
    assert ended == await finish(untouched)
    assert {status for status, _ in ended.values()} == {"COMPLETED", "FAILED"}


# ── what is moved ───────────────────────────────────────────────────────────────────────────


async def test_what_was_moved_before_is_not_moved_again(
    move: Move, here: MemoryStore, clock: ManualClock
) -> None:
    await fill(here, finished=2, open=3, clock=clock)

    assert kinds(await move()) == ["moved"] * 5
    assert kinds(await move()) == ["there"] * 5


async def test_a_run_that_has_gone_on_in_the_other_store_is_there(
    move: Move, here: MemoryStore, there: MemoryStore, clock: ManualClock
) -> None:
    await fill(here, finished=1, open=2, clock=clock)
    await move()
    ended = await finish(there, clock=clock)

    assert kinds(await move()) == ["there"] * 3
    async with app_on(there, worker=False, clock=clock) as app:
        assert await results(app) == ended


async def test_only_open_or_only_finished_runs_are_moved(
    move: Move, here: MemoryStore, there: MemoryStore, clock: ManualClock
) -> None:
    await fill(here, finished=2, open=3, clock=clock)

    assert [outcome.open for outcome in await move(only="finished")] == [False] * 2
    assert len(await there.list_runs("default")) == 2
    assert [outcome.open for outcome in await move(only="open")] == [True] * 3
    # Those that were closed to be moved are still looked after.
    assert kinds(await move(only="open")) == ["there"] * 3


async def test_a_dry_run_changes_nothing(
    move: Move, here: MemoryStore, there: MemoryStore, clock: ManualClock
) -> None:
    await fill(here, finished=2, open=3, clock=clock)
    before = [await here.read_snapshot("default", r.run) for r in await here.list_runs("default")]

    outcomes = await move(dry_run=True)

    assert kinds(outcomes) == ["moved"] * 5
    assert await there.list_runs("default") == []
    assert there._blobs == {}
    after = [await here.read_snapshot("default", r.run) for r in await here.list_runs("default")]
    assert after == before


async def test_all_tenants_are_moved_with_their_own_blobs(
    move: Move, here: MemoryStore, there: MemoryStore, clock: ManualClock
) -> None:
    await fill(here, finished=1, open=0, clock=clock)
    (run,) = await here.list_runs("default")
    leaf = await here.put_blob(b"leaf", tenant="b")
    branch = await here.put_blob(b'{"leaf": "%s"}' % leaf.encode(), tenant="b")
    plan = await here.get_blob(run.plan)
    assert plan is not None
    await here.put_blob(plan, tenant="b")
    escaped = branch.replace("/", "\\/").encode()
    new = NewRun("z", "order", run.plan, "b", input=b'{"n": "%s"}' % escaped)
    await here.create_runs([new])
    await here.put_blob(b"nobody wants it", tenant="b")

    assert kinds(await move()) == ["moved"] * 2

    assert await there.list_tenants() == ["b", "default"]
    assert {data for tenant, data in _blobs(there) if tenant == "b"} == {
        plan,
        b"leaf",
        b'{"leaf": "%s"}' % leaf.encode(),
    }
    assert await there.get_blob(leaf, tenant="default") is None


def _blobs(store: MemoryStore) -> set[tuple[str, bytes]]:
    return {(tenant, data) for (tenant, _, _), data in store._blobs.items()}


async def test_slots_are_asked_for_again_where_the_runs_are_now(
    here: MemoryStore, there: MemoryStore, move: Move, clock: ManualClock
) -> None:
    await fill(here, finished=0, open=4, clock=clock)
    hand = Hand(here)
    grants = []
    while taken := (await hand.exchange(limit=10)).granted:
        grants += taken
    names = [(g.run, g.node, g.scope, g.lease) for g in grants if g.node == "start"]
    for name in names:
        await hand.exchange(Slot(*name, key="k", limit=1))
    await hand.exchange(Released(*names[0]))
    # The first has given the slot back, and the second was handed it.
    (holder,) = [t for n in names for t in await here.read_tokens("default", n[0]) if t.slot]
    assert (holder.run, holder.state, holder.lane) == (names[1][0], "ready", "")

    assert kinds(await move()) == ["moved"] * 4

    tokens = [
        t
        for r in await there.list_runs("default")
        for t in await there.read_tokens("default", r.run)
    ]
    assert not [t for t in tokens if t.slot or t.lane]


# ── what is refused ─────────────────────────────────────────────────────────────────────────


async def test_a_store_whose_workers_hold_something_is_refused(
    move: Move, here: MemoryStore, there: MemoryStore, clock: ManualClock
) -> None:
    await fill(here, finished=1, open=2, clock=clock)
    await Hand(here).exchange(limit=1)

    with pytest.raises(ConfigError, match=r"1 node is being worked on .* --wait"):
        await move()
    assert await there.list_runs("default") == []
    assert kinds(await move(dry_run=True)) == ["busy", "moved", "moved"]
    assert kinds(await move(only="finished")) == ["moved"]

    # A worker that has died holds nothing for ever.
    clock.advance(31_000)
    assert kinds(await move()) == ["moved", "moved", "there"]
    tokens = [
        t
        for r in await there.list_runs("default")
        for t in await there.read_tokens("default", r.run)
    ]
    assert max(t.delivery for t in tokens if t.state == "ready") == 1


async def test_with_wait_a_run_is_moved_as_soon_as_nobody_holds_it(
    move: Move, here: MemoryStore, there: MemoryStore, clock: ManualClock
) -> None:
    await fill(here, finished=0, open=1, clock=clock)
    (run,) = await here.list_runs("default")
    hand = Hand(here)
    (grant,) = (await hand.exchange(limit=1)).granted

    moving = asyncio.ensure_future(move(wait=True))
    while (await here.read_run("default", run.run)).status != "PAUSED":  # type: ignore[union-attr]
        await here.wait_for_change(run.run, run.seq, 1000)
    assert await there.list_runs("default") == []
    # Nothing new begins there, and what has begun is handed in.
    assert (await hand.exchange(limit=10)).granted == ()
    entry = Delivery("double", "", True, 1, 1, "task:mg_double")
    done = Done(grant.run, grant.node, "", grant.lease, run.plan, output=b"0", deliveries=(entry,))
    assert (await hand.exchange(done)).results == ("applied",)

    assert kinds(await moving) == ["moved"]
    (moved,) = await there.list_runs("default")
    assert moved.status == "RUNNING"
    assert [t.node for t in await there.read_tokens("default", run.run)] == ["double", "start"]


async def test_a_worker_that_is_faster_keeps_its_run(
    here: MemoryStore, there: MemoryStore, clock: ManualClock, move: Move
) -> None:
    await fill(here, finished=0, open=1, clock=clock)
    hand = Hand(here)

    class Late(Kept):
        """Somebody takes a token between the look at the queues and the run."""

        async def list_queues(self) -> Any:
            found = await here.list_queues()
            await hand.exchange(limit=1)
            return found

    mover = Mover(Late(here), there, clock, come_from="here", to="there")
    (outcome,) = [outcome async for outcome in mover.move()]

    assert (outcome.kind, "--wait" in outcome.message) == ("busy", True)
    (run,) = await here.list_runs("default")
    assert run.status == "RUNNING"
    assert await there.list_runs("default") == []


async def test_a_damaged_run_is_left_where_it_is(
    move: Move, here: MemoryStore, there: MemoryStore, clock: ManualClock
) -> None:
    await fill(here, finished=1, open=2, clock=clock)
    *_, over = runs = await here.list_runs("default")
    del here._tokens[(over.run, "meet", "")]
    here._runs[runs[0].run].counter += 1

    outcomes = await move()

    assert kinds(outcomes) == ["damaged", "damaged", "moved"]
    assert {o.run_id for o in outcomes if o.is_problem} == {over.run, runs[0].run}
    assert all(o.message.startswith("[I") for o in outcomes if o.is_problem)
    assert len(await there.list_runs("default")) == 1
    left = await here.read_run("default", runs[0].run)
    assert left is not None
    assert left.status == "RUNNING"


async def test_a_run_whose_plan_is_gone_is_left_where_it_is(
    move: Move, here: MemoryStore, clock: ManualClock
) -> None:
    await fill(here, finished=1, open=0, clock=clock)
    here._blobs.clear()

    (outcome,) = await move()

    assert (outcome.kind, "plan" in outcome.message) == ("damaged", True)


@pytest.mark.shows("O-12")
async def test_a_run_that_the_other_store_has_with_another_history_is_a_conflict(
    move: Move, here: MemoryStore, there: MemoryStore, clock: ManualClock
) -> None:
    await fill(here, finished=1, open=1, clock=clock)
    runs = await here.list_runs("default")
    for run in runs:
        await there.create_runs([NewRun(run.run, "other", "p")])
    before = [await there.read_snapshot("default", run.run) for run in runs]

    outcomes = await move()

    assert kinds(outcomes) == ["conflict"] * 2
    assert [await there.read_snapshot("default", run.run) for run in runs] == before
    assert (await here.list_runs("default"))[0].status == "RUNNING"


async def test_a_run_whose_idempotency_key_is_taken_there_goes_on_here(
    move: Move, here: MemoryStore, there: MemoryStore, clock: ManualClock
) -> None:
    await fill(here, finished=0, open=2, clock=clock)
    await there.create_runs([NewRun("owner", "w", "p", idempotency_key="key 0")])

    outcomes = await move()

    assert kinds(outcomes) == ["conflict", "moved"]
    (conflict,) = [outcome for outcome in outcomes if outcome.is_problem]
    assert "'key 0' belongs to run owner" in conflict.message
    run = await here.read_run("default", conflict.run_id)
    assert run is not None
    assert run.status == "RUNNING"
    assert len(await finish(here, clock=clock)) == 2


# ── the mark ────────────────────────────────────────────────────────────────────────────────


async def test_a_run_that_was_moved_says_where_it_is(
    move: Move, here: MemoryStore, there: MemoryStore, clock: ManualClock
) -> None:
    await fill(here, finished=1, open=2, clock=clock)
    assert await moved_store(here, "default") is None
    await move()

    run, _, over = await here.list_runs("default")

    assert (run.status, moved_to(run), moved_to(over)) == ("CANCELLED", "there", None)
    assert await moved_store(here, "default") == "there"
    assert await moved_store(there, "default") is None
    async with app_on(here, worker=False, clock=clock) as app:
        with pytest.raises(RunConflictError, match="was moved to there: retry it there"):
            await app.runs.retry(run.run)


async def test_a_run_that_was_moved_elsewhere_is_not_moved_here(
    move: Move, here: MemoryStore, there: MemoryStore, clock: ManualClock
) -> None:
    await fill(here, finished=0, open=2, clock=clock)
    await move()
    third = MemoryStore(clock)

    mover = Mover(here, third, clock, come_from="here", to="third")
    outcomes = [outcome async for outcome in mover.move()]

    assert kinds(outcomes) == ["elsewhere"] * 2
    assert await third.list_runs("default") == []


async def test_a_run_that_has_been_moved_on_is_not_brought_back_to_life(
    move: Move, here: MemoryStore, there: MemoryStore, clock: ManualClock
) -> None:
    await fill(here, finished=0, open=2, clock=clock)
    async with app_on(here, worker=False, clock=clock) as app:
        (run,) = await app.start_many(ORDER, inputs(range(9, 10), 0))
        await here.change_run("default", run, Pause("somebody"))
    await move()
    third = MemoryStore(clock)
    onward = Mover(there, third, clock, come_from="there", to="third")
    assert kinds([outcome async for outcome in onward.move()]) == ["moved"] * 3

    assert kinds(await move()) == ["elsewhere"] * 3

    assert {run.status for run in await there.list_runs("default")} == {"CANCELLED"}


async def test_a_mark_without_what_was_left_with_it_is_told(
    move: Move, here: MemoryStore, there: MemoryStore, clock: ManualClock
) -> None:
    await fill(here, finished=0, open=1, clock=clock)
    await move()
    there._runs.clear()
    here._blobs.clear()

    (outcome,) = await move()

    assert (outcome.kind, "is missing" in outcome.message) == ("damaged", True)


async def move_on(clock: ManualClock, *stores: tuple[str, Store]) -> list[str]:
    """Move all runs from each store to the next one; what became of them on the last way."""
    outcomes: list[Outcome] = []
    for (come_from, source), (to, target) in itertools.pairwise(stores):
        mover = Mover(source, target, clock, come_from=come_from, to=to)
        outcomes = [outcome async for outcome in mover.move()]
    return kinds(outcomes)


async def test_a_run_comes_back_by_way_of_others(
    here: MemoryStore, there: MemoryStore, clock: ManualClock
) -> None:
    third = MemoryStore(clock)
    stores = (("here", here), ("there", there), ("third", third), ("here", here))
    await fill(here, finished=0, open=2, clock=clock)
    async with app_on(here, worker=False, clock=clock) as app:
        (paused,) = await app.start_many(ORDER, inputs(range(9, 10), 0))
        await here.change_run("default", paused, Pause("somebody"))
        pending = await app.runs.create(ORDER)

    for _ in range(2):
        assert await move_on(clock, *stores) == ["moved"] * 4

    statuses = {run.run: run.status for run in await here.list_runs("default")}
    assert sorted(statuses.values()) == ["PAUSED", "PENDING", "RUNNING", "RUNNING"]
    assert (statuses[paused], statuses[pending]) == ("PAUSED", "PENDING")
    for store in (there, third):
        assert {run.status for run in await store.list_runs("default")} == {"CANCELLED"}
    # Giving an old command again brings nothing back to life elsewhere.
    assert await move_on(clock, *stores[1:3]) == ["elsewhere"] * 4


async def test_a_run_that_has_ended_elsewhere_replaces_what_it_left_behind(
    here: MemoryStore, there: MemoryStore, clock: ManualClock
) -> None:
    third = MemoryStore(clock)
    await fill(here, finished=0, open=2, clock=clock)
    await move_on(clock, ("here", here), ("there", there), ("third", third))
    wanted = await finish(third, clock=clock)

    assert await move_on(clock, ("third", third), ("here", here)) == ["moved"] * 2

    async with app_on(here, worker=False, clock=clock) as app:
        assert await results(app) == wanted
    assert await move_on(clock, ("third", third), ("here", here)) == ["there"] * 2


@pytest.mark.shows("O-12")
async def test_a_run_with_another_history_than_what_is_left_there_stays_open_here(
    here: MemoryStore, there: MemoryStore, clock: ManualClock
) -> None:
    await fill(here, finished=0, open=1, clock=clock)
    await move_on(clock, ("here", here), ("there", there))
    (left,) = await here.list_runs("default")
    here._events[left.run][0] = msgspec.structs.replace(here._events[left.run][0], at_ms=1)

    assert await move_on(clock, ("there", there), ("here", here)) == ["conflict"]

    assert [run.status for run in await there.list_runs("default")] == ["RUNNING"]
    assert [run.status for run in await here.list_runs("default")] == ["CANCELLED"]
