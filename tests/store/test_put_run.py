"""Putting a whole run in its place: to move it between stores, to repair it."""

from __future__ import annotations

import copy
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from tests.differential.driver import BLOBS, Driver
from tests.store.conftest import FACTORIES, ONE_OF_EACH, World

from minuet.clock import ManualClock
from minuet.errors import RunConflictError, StoreError
from minuet.events import NodeCompleted, RunCompleted, RunCreated, RunStarted, encode_event
from minuet.store.base import Store
from minuet.store.blob import blob_ref
from minuet.store.changes import RetryRun
from minuet.store.exchange import Failed, Held, Slot, Take, Waiting
from minuet.store.logged import LoggedStore
from minuet.store.memory import MemoryStore
from minuet.store.records import LIVE_STATES, EventRecord, Read, Run, Snapshot, Token
from minuet.types import RunStatus


@pytest.fixture
def source(clock: ManualClock) -> World:
    """Another store, from which runs come."""
    return World(MemoryStore(clock), clock)


@pytest.fixture
async def joined(world: Any) -> str:
    """A run with a live token, a settled one, a join with an arrival and a recorded step."""
    run: str = await world.start("a", "b")
    first, second = sorted(await world.take(), key=lambda grant: grant.node)
    await world.finish(first, world.to("c", need=2, total=2))
    await world.record(second, "one")
    return run


async def move(source: World, world: World, run: str) -> Snapshot:
    """Put a run of one store into another, as it is."""
    rows = await source.snapshot(run)
    assert rows is not None
    assert await world.store.put_run("a", rows, None)
    world._runs[run] = "a"
    await world.check()
    assert await world.snapshot(run) == rows
    return rows


# ── what is there is replaced ───────────────────────────────────────────────────────────────


async def test_rows_that_are_put_back_are_the_rows_that_were_there(world: Any, joined: str) -> None:
    before = await world.snapshot(joined)

    assert await world.store.put_run("a", before, before.run.seq)

    assert await world.snapshot(joined) == before


async def test_rows_that_are_not_given_are_removed(world: Any, joined: str) -> None:
    before = await world.snapshot(joined)
    live = tuple(t for t in before.tokens if t.state in LIVE_STATES)
    run = copy.copy(before.run)
    run.seq = 2
    rows = Snapshot(run=run, tokens=live, events=before.events[:2])

    assert await world.store.put_run("a", rows, before.run.seq)

    assert await world.snapshot(joined) == rows
    assert await world.store.read_events("a", joined) == list(rows.events)


async def test_everything_that_a_run_says_of_itself_can_be_put_right(
    world: Any, joined: str
) -> None:
    before = await world.snapshot(joined)
    other = copy.deepcopy(before)
    other.run.workflow, other.run.tags, other.run.parent = "other", {"a": [1]}, "p"
    other.run.created_ms, other.run.idempotency_key = 7, "key"
    assert await world.store.put_run("a", other, before.run.seq)

    assert await world.snapshot(joined) == other
    assert [r.run for r in await world.store.list_runs("a", workflow="other")] == [joined]
    assert await world.store.list_runs("a", workflow="w") == []


async def test_the_number_of_events_itself_can_be_put_right(world: Any, joined: str) -> None:
    before = await world.snapshot(joined)
    wrong = copy.deepcopy(before)
    wrong.run.seq -= 1
    assert await world.store.put_run("a", wrong, before.run.seq)

    assert not await world.store.put_run("a", before, before.run.seq)
    assert await world.store.put_run("a", before, before.run.seq - 1)

    assert await world.snapshot(joined) == before


async def test_a_run_that_has_moved_on_is_left_alone(world: Any, joined: str) -> None:
    rows = await world.snapshot(joined)
    (grant,) = [t for t in rows.tokens if t.state == "leased"]
    await world.finish(grant, world.to("c", need=2, total=2))
    after = await world.snapshot(joined)

    assert not await world.store.put_run("a", rows, rows.run.seq)
    assert not await world.store.put_run("a", rows, None)

    assert await world.snapshot(joined) == after


async def test_the_rows_of_another_tenant_cannot_be_replaced(world: Any, joined: str) -> None:
    rows = await world.snapshot(joined)
    own = Snapshot(run=msgspec.structs.replace(rows.run, tenant="b"), events=rows.events)

    for expected in (rows.run.seq, None):
        assert not await world.store.put_run("b", rows, expected)
        assert not await world.store.put_run("b", own, expected)
    assert await world.snapshot(joined) == rows
    assert await world.store.list_runs("b") == []


async def test_a_run_that_is_not_there_is_only_put_when_that_is_expected(
    source: World, world: Any
) -> None:
    rows = await source.snapshot(await source.start("a"))
    assert rows is not None

    assert not await world.store.put_run("a", rows, rows.run.seq)
    assert await world.store.list_runs("a") == []
    assert await world.store.put_run("a", rows, None)
    assert not await world.store.put_run("a", rows, None)


async def test_rows_of_another_run_are_refused(world: Any, joined: str) -> None:
    before = await world.snapshot(joined)
    for name, value in (("run", "other"), ("tenant", "b")):
        rows = copy.deepcopy(before)
        setattr(rows.tokens[0], name, value)
        with pytest.raises(StoreError, match="rows of another run or tenant"):
            await world.store.put_run("a", rows, before.run.seq)
    assert await world.snapshot(joined) == before


async def test_a_run_goes_on_with_the_rows_it_was_given(world: Any, joined: str) -> None:
    rows = await world.snapshot(joined)
    for token in rows.tokens:
        if token.state == "leased":
            token.state, token.lease, token.due_ms = "ready", "", 0
    assert await world.store.put_run("a", rows, rows.run.seq)

    await world.finish(await world.take_one(), world.to("c", need=2, total=2))
    await world.finish(await world.take_one())

    assert (await world.run(joined)).status == "COMPLETED"


async def test_a_slot_that_is_taken_away_goes_to_who_waits_for_it(world: Any) -> None:
    holder, waiter = await world.start("a"), await world.start("a")
    grants = {grant.run: grant for grant in await world.take()}

    def slot(run: str) -> Slot:
        grant = grants[run]
        return Slot(grant.run, grant.node, grant.scope, grant.lease, key="k", limit=1)

    assert await world.hand_in(slot(holder)) == ("held",)
    assert await world.hand_in(slot(waiter)) == ("applied",)
    rows = await world.snapshot(holder)
    rows.tokens[0].slot, rows.tokens[0].slot_limit = "", 0

    assert await world.store.put_run("a", rows, rows.run.seq)

    reply = await world.exchange(world.request(take=(Take(("q",), 10),)))
    assert [grant.run for grant in reply.granted] == [waiter]


# ── a run that comes from elsewhere lives on ────────────────────────────────────────────────


async def test_ready_tokens_are_taken_with_what_they_need(source: World, world: World) -> None:
    run = await source.start("a", "b", input=b'{"x":1}')
    for grant in sorted(await source.take(), key=lambda g: g.node):
        output = b' {"from": "%s"} ' % grant.node.encode()
        to = (source.to("c", need=2, total=2), source.to(f"{grant.node}2", "0001"))
        await source.finish(grant, *to, output=output)
    for grant in await source.take():
        if grant.scope:
            read = source.to("d", reads=(Read("a", ""), Read("a2", "0"), Read("b2", "0002")))
            await source.finish(grant, *((read,) if grant.node == "a2" else ()))
        else:
            await source.finish(grant, output=b"{}")
    rows = await move(source, world, run)
    assert [t.node for t in rows.tokens if t.state == "ready"] == ["d"]

    ours, theirs = await source.take_one(), await world.take_one()

    assert msgspec.structs.replace(theirs, lease=ours.lease) == ours
    assert [output.node for output in theirs.reads] == ["a", "a2"]


async def test_a_join_goes_on_where_it_was(source: World, world: World) -> None:
    run = await source.start("a", "b")
    first, _ = sorted(await source.take(), key=lambda g: g.node)
    await source.finish(first, source.to("c", need=2, total=2), output=b"1")
    source.clock.advance(31_000)
    await source.sweep()
    await move(source, world, run)

    await world.finish(await world.take_one(), world.to("c", need=2, total=2), output=b"2")
    grant = await world.take_one()

    assert [(o.node, o.data) for o in grant.inputs] == [("a", b"1"), ("b", b"2")]
    await world.finish(grant)
    assert (await world.run(run)).status == "COMPLETED"


async def test_leases_timers_and_deadlines_fire(source: World, world: World) -> None:
    leased, waiting = await source.start("a"), await source.start("a")
    late = await source.start("a", deadline_ms=5_000)
    for grant in await source.take():
        name = (grant.run, grant.node, grant.scope, grant.lease)
        if grant.run == waiting:
            await source.hand_in(Waiting(*name, kind="timer", key="k", delay_ms=60_000))
    due = await source.store.sweep()
    for run in (leased, waiting, late):
        await move(source, world, run)
    assert await world.store.list_waiting("a", "timer", key="k") == await source.store.list_waiting(
        "a", "timer"
    )
    assert (await world.sweep()).next_due_ms == due.next_due_ms

    for seconds, what in ((6, "cancelled"), (31, "expired"), (61, "resumed")):
        world.clock.advance(1000 * seconds)
        assert getattr(await world.sweep(), what) == 1
    assert {grant.run for grant in await world.take()} == {leased, waiting}
    assert (await world.run(late)).status == "CANCELLED"


async def test_a_token_that_is_leased_is_still_its_workers(source: World, world: World) -> None:
    run = await source.start("a")
    grant = await source.take_one()
    await move(source, world, run)

    assert await world.take() == []
    held = Held(grant.run, grant.node, grant.scope, grant.lease)
    assert not (await world.exchange(world.request(renew=(held,)))).revoked
    await world.finish(grant)

    assert (await world.run(run)).status == "COMPLETED"


async def test_its_idempotency_key_is_known(source: World, world: World) -> None:
    new = source.new("a", idempotency_key="key", input=b"[1]")
    await source.create(new)
    await move(source, world, new.run)

    again = msgspec.structs.replace(new, run=world.name("again"))
    (found,) = await world.create(again)
    (other,) = await world.create(msgspec.structs.replace(again, input=b"[2]"))

    assert isinstance(found, Run)
    assert found.run == new.run
    assert isinstance(other, RunConflictError)


async def test_a_run_whose_idempotency_key_is_taken_is_refused(source: World, world: World) -> None:
    rows = await source.snapshot(await source.start("a", idempotency_key="key"))
    assert rows is not None
    (owner,) = await world.create(world.new("a", run="owner", idempotency_key="key"))

    with pytest.raises(RunConflictError, match=f"{rows.run.run}.*'key' belongs to run owner"):
        await world.store.put_run("a", rows, None)

    assert [r.run for r in await world.store.list_runs("a")] == [owner.run]
    (found,) = await world.create(world.new("a", run="owner", idempotency_key="key"))
    assert found.run == "owner"


async def test_a_key_that_a_run_gives_up_is_free(world: World) -> None:
    run = await world.start("a", idempotency_key="old")
    rows = await world.snapshot(run)
    assert rows is not None
    rows.run.idempotency_key = "new"
    assert await world.store.put_run("a", rows, rows.run.seq)

    first, second = await world.create(
        world.new("a", idempotency_key="old"), world.new("a", idempotency_key="new")
    )

    assert first.run != run
    assert second.run == run


async def test_slots_are_counted(source: World, world: World) -> None:
    runs = [await source.start("a") for _ in range(2)]
    for grant in await source.take():
        slot = Slot(grant.run, grant.node, grant.scope, grant.lease, key="k", limit=1)
        await source.hand_in(slot)
    for run in runs:
        await move(source, world, run)

    (holder,) = [t for run in runs for t in await world.store.read_tokens("a", run) if not t.lane]
    name = (holder.run, holder.node, holder.scope, holder.lease)
    third = await world.start("a", run="third")
    mine = await world.take_one()
    asked = Slot(mine.run, mine.node, mine.scope, mine.lease, key="k", limit=1)
    assert await world.hand_in(asked) == ("applied",)

    await world.finish(Held(*name))  # type: ignore[arg-type]

    assert third == mine.run
    assert {g.run for g in await world.take()} == set(runs) - {holder.run}


async def test_a_failed_run_can_be_retried_where_it_was_put(source: World, world: World) -> None:
    run = await source.start("a", "b")
    first, _ = await source.take()
    name = (first.run, first.node, first.scope, first.lease)
    await source.hand_in(Failed(*name, error={"code": "x"}, dead_letter="broken"))
    await move(source, world, run)
    letters = await world.store.list_dead_letters("a")
    assert letters == await source.store.list_dead_letters("a")
    assert len(letters) == 1

    await world.change(run, RetryRun())

    assert {g.node for g in await world.take()} == {"a", "b"}
    assert await world.store.list_dead_letters("a") == []
    assert len(await world.store.list_dead_letters("a", status="reprocessed")) == 1


# ── any run, between any two stores ─────────────────────────────────────────────────────────


async def listed(store: Store) -> dict[str, Any]:
    """What a store lists, in its order."""
    found: dict[str, Any] = {"queues": await store.list_queues()}
    statuses: tuple[RunStatus, ...] = ("RUNNING", "FAILED")
    for tenant in ("a", "b"):
        found |= {
            f"{tenant} runs": await store.list_runs(tenant),
            f"{tenant} some runs": await store.list_runs(tenant, statuses=statuses, workflow="w1"),
            f"{tenant} waiting": await store.list_waiting(tenant, "signal"),
            f"{tenant} letters": await store.list_dead_letters(tenant, status=None),
        }
    return found


async def blobs_of(store: Store, tenant: str, run: str | None) -> list[bytes]:
    """Those of the driver's blobs that can be read by this name."""
    found = [await store.get_blob(blob_ref(data), run=run, tenant=tenant) for data in BLOBS]
    return [data for data in found if data is not None]


@pytest.mark.parametrize("seed", range(2))
async def test_random_runs_live_on_in_another_store_as_if_nothing_had_happened(
    store: Store, clock: ManualClock, tmp_path: Path, seed: int
) -> None:
    reference, rng = MemoryStore(clock), Random(seed)
    driver = Driver(clock, [reference])
    # A logged store does not look whether a result's blob is there: it loses none. And it keeps
    # what child runs begin with for all runs of a tenant.
    driver.names_blobs = not isinstance(store, LoggedStore)
    # Nor does its log know what was reported.
    driver.marks_reported = not isinstance(store, LoggedStore)
    for _ in range(300):
        await driver.step(rng)

    moved = 0
    for tenant in ("a", "b", "n"):
        for data in await blobs_of(reference, tenant, None):
            await store.put_blob(data, tenant=tenant)
        for run in await reference.list_runs(tenant, limit=1000):
            rows = await reference.read_snapshot(tenant, run.run)
            assert rows is not None
            blobs = await blobs_of(reference, tenant, run.run)
            assert await store.put_run(tenant, rows, None, blobs=blobs)
            assert await store.read_snapshot(tenant, run.run) == rows
            moved += 1
    assert moved >= 5
    assert await listed(store) == await listed(reference)

    # From here on, both give the same answers.
    driver.go_on_with(store)
    for _ in range(100):
        await driver.step(rng)


@pytest.mark.parametrize("target", ONE_OF_EACH)
async def test_a_run_comes_back_from_any_store_unchanged(
    store: Store, target: str, clock: ManualClock, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = FACTORIES[target](tmp_path / "other", clock)
    await other.open()
    driver, rng = Driver(clock, [store]), Random(target)
    for _ in range(80):
        await driver.step(rng)

    for run in await store.list_runs("a", limit=1000):
        before = await store.read_snapshot("a", run.run)
        assert before is not None
        assert await other.put_run("a", before, None)
        there = await other.read_snapshot("a", run.run)
        assert there is not None
        assert await store.put_run("a", there, before.run.seq)
        assert await store.read_snapshot("a", run.run) == before
    assert (await listed(store))["a runs"] == (await listed(other))["a runs"]
    await other.close()


# ── a large one ─────────────────────────────────────────────────────────────────────────────

NODES, EVENTS = 10_000, 30_000


def large_run() -> Snapshot:
    """A run of ten thousand nodes, the second half of them live, and thirty thousand events."""
    half = NODES // 2
    facts: list[Any] = [RunCreated("w", "p", msgspec.Raw(b"{}")), RunStarted([], NODES)]
    for number in range(half):
        facts.append(NodeCompleted(f"n{number}", "0001", msgspec.Raw(b"%d" % number)))
    facts += [RunCompleted()] * (EVENTS - len(facts))
    tokens = [
        Token("run", f"n{number}", "0001", "a", "q", state="done", outcome="completed", due_ms=None)
        for number in range(half)
    ]
    for number, token in enumerate(tokens):
        token.event = number + 3
    tokens += [Token("run", f"m{number}", "", "a", "q", due_ms=1) for number in range(half)]
    for number in (0, half - 1):
        tokens[half + number].reads = (Read(f"n{number}", ""),)
    run = Run("run", "a", "w", "p", "RUNNING", half, EVENTS, input=b"{}", started_ms=1)
    events = [EventRecord("run", n, 1, encode_event(fact)) for n, fact in enumerate(facts, start=1)]
    return Snapshot(run, tuple(sorted(tokens, key=lambda t: t.key)), events=tuple(events))


async def test_a_run_of_ten_thousand_nodes_is_put_in_one_step(world: World) -> None:
    rows = large_run()

    assert await world.store.put_run("a", rows, None)

    stored = await world.store.read_snapshot("a", "run")
    assert stored == rows
    (queue,) = await world.store.list_queues()
    assert queue.ready == NODES // 2
    taken = await world.store.exchange(world.request(take=(Take(("q",), NODES),)))
    reads = {g.node: [o.data for o in g.reads] for g in taken.granted if g.reads}
    assert reads == {"m0": [b"0"], f"m{NODES // 2 - 1}": [b"%d" % (NODES // 2 - 1)]}
    assert not await world.store.put_run("a", rows, None)
    assert await world.store.put_run("a", rows, EVENTS)
    assert await world.store.read_snapshot("a", "run") == rows
