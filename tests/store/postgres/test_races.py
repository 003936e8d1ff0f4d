"""Several workers on one schema at the same moment, each with connections of its own."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from minuet.errors import MinuetError, RunConflictError, RunNotFoundError
from minuet.store import ends as ends_module
from minuet.store.changes import Cancel, Pause, Resume, RetryRun
from minuet.store.exchange import Delivery, Failed, Held, Released, Retried, Slot, Waiting
from minuet.store.postgres import PostgresStore
from minuet.store.postgres import store as store_module
from minuet.store.postgres.log import PostgresLog
from minuet.store.postgres.statements import in_schema, statement
from minuet.store.records import LIVE_STATES, Run

from .conftest import Opener, Session, done, new_run, schema_of, to

JOIN: dict[str, Any] = {"need": 2, "total": 2}


async def test_a_join_that_two_workers_reach_at_once_fires_once(opened: Opener) -> None:
    stores = [await opened(), await opened()]
    first, second = Session(stores[0], "first"), Session(stores[1], "second")
    for _ in range(30):
        (run,) = await stores[0].create_runs([new_run("a", "b")])
        assert isinstance(run, Run)
        (one,) = (await first.exchange(take=1)).granted
        (two,) = (await second.exchange(take=1)).granted

        replies = await asyncio.gather(
            first.exchange(done(one, to("c", **JOIN)), take=1),
            second.exchange(done(two, to("c", **JOIN)), take=1),
        )

        assert [reply.results for reply in replies] == [("applied",), ("applied",)]
        (last,) = [grant for reply in replies for grant in reply.granted]
        assert [output.node for output in last.inputs] == ["a", "b"]
        assert (await first.exchange(done(last))).results == ("applied",)
        ended = await stores[0].read_run("default", run.run)
        assert ended is not None
        assert ended.status == "COMPLETED"


async def test_many_takers_get_every_token_once(opened: Opener) -> None:
    stores = [await opened() for _ in range(3)]
    await stores[0].create_runs([new_run("a", "b", "c") for _ in range(40)])
    sessions = [Session(store, f"s{n}") for n, store in enumerate(stores)]
    taken: list[tuple[str, str]] = []

    async def take_all(session: Session) -> None:
        while grants := (await session.exchange(take=7)).granted:
            taken.extend((grant.run, grant.node) for grant in grants)

    await asyncio.gather(*map(take_all, sessions))
    await take_all(sessions[0])

    assert len(taken) == len(set(taken)) == 120


async def test_the_same_key_used_at_once_makes_one_run(opened: Opener) -> None:
    stores = [await opened() for _ in range(4)]

    answers = await asyncio.gather(
        *(store.create_runs([new_run("a", idempotency_key="k\0")]) for store in stores)
    )

    assert len({run.run for (run,) in answers if isinstance(run, Run)}) == 1
    assert len(await stores[0].list_runs("default")) == 1


async def test_the_same_run_created_at_once_is_one_run(opened: Opener) -> None:
    stores = [await opened() for _ in range(4)]
    same = [new_run("a"), new_run("b")]

    answers = await asyncio.gather(
        *(s.create_runs(same if n % 2 else same[::-1]) for n, s in enumerate(stores))
    )

    assert not [a for answer in answers for a in answer if isinstance(a, RunConflictError)]
    assert len(await stores[0].list_runs("default")) == 2


async def test_a_call_repeated_while_the_first_is_under_way_gets_the_same_answer(
    opened: Opener,
) -> None:
    stores = [await opened(), await opened()]
    await stores[0].create_runs([new_run("a", "b") for _ in range(5)])
    session = Session(stores[0], "s")
    for _ in range(3):
        request = session.request(take=2)

        one, two = await asyncio.gather(*(store.exchange(request) for store in stores))

        assert sorted(g.run + g.node for g in one.granted) == sorted(
            g.run + g.node for g in two.granted
        )
        assert len(one.granted) == 2


@pytest.mark.slow
async def test_random_calls_of_four_workers_never_lock_each_other_up(
    opened: Opener, url: str, admin: Any
) -> None:
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    before = await admin.fetchval(deadlocks)
    stores = [await opened(), await opened()]
    runs: list[str] = []
    refused: set[str] = set()

    async def work(number: int) -> None:
        rng = Random(number)
        worker = _Worker(Session(stores[number % 2], f"s{number}"), rng, runs)
        for _ in range(60):
            try:
                await worker.call()
            except MinuetError as error:
                refused.add(type(error).__name__)

    await asyncio.gather(*(work(number) for number in range(4)))
    checked = 0
    for run in runs:
        snapshot = await stores[0].read_snapshot("default", run)
        assert snapshot is not None
        live = [t for t in snapshot.tokens if t.state in LIVE_STATES]
        assert snapshot.run.counter == len(live)
        assert [e.seq for e in snapshot.events] == list(range(1, snapshot.run.seq + 1))
        checked += 1
    held = await admin.fetch(
        f"SELECT slot, count(*), max(slot_limit) FROM {schema_of(url)}.tokens "
        "WHERE slot <> '' AND lane <> 'slot' GROUP BY slot"
    )
    for store in stores:
        await store.close()
    await admin.execute("SELECT pg_stat_force_next_flush()")

    assert checked > 20
    assert refused <= {"RunConflictError"}
    assert all(count <= limit for _, count, limit in held)
    assert await admin.fetchval(deadlocks) == before


class _Worker:
    """Random calls of one session, many of them about runs that others work on."""

    def __init__(self, session: Session, rng: Random, runs: list[str]) -> None:
        self._session, self._rng, self._runs = session, rng, runs
        self._held: list[Any] = []

    async def call(self) -> None:
        rng, store = self._rng, self._session.store
        match rng.choices(("exchange", "create", "change", "sweep"), (12, 3, 3, 1))[0]:
            case "create":
                new = [new_run("a", "b", "c") for _ in range(2)]
                await store.create_runs(new)
                self._runs += [run.run for run in new]
            case "change" if self._runs:
                change = rng.choice((Cancel(), Pause(), Resume(), Resume(), RetryRun()))
                await store.change_run("default", rng.choice(self._runs[-6:]), change)
            case "sweep":
                await store.sweep()
            case _:
                await self._exchange()

    async def _exchange(self) -> None:
        rng = self._rng
        rng.shuffle(self._held)
        count = rng.randint(0, 4)
        handed, self._held = self._held[:count], self._held[count:]
        items = [self._item(grant) for grant in handed]
        renew = tuple(Held(g.run, g.node, g.scope, g.lease) for g in self._held[:2])
        reply = await self._session.exchange(*items, take=rng.randint(0, 6), renew=renew)
        kept = zip(handed, items, reply.results, strict=True)
        self._held += [g for g, i, result in kept if isinstance(i, Slot) and result == "held"]
        self._held += reply.granted

    def _item(self, grant: Any) -> Any:
        name = (grant.run, grant.node, grant.scope, grant.lease)
        match self._rng.choices(
            ("done", "slot", "failed", "retry", "waiting", "released"), (9, 6, 1, 1, 1, 1)
        )[0]:
            case "slot":
                return Slot(*name, key=self._rng.choice(("x", "y")), limit=2)
            case "failed":
                return Failed(*name, error={"code": "x"}, dead_letter="x")
            case "retry":
                return Retried(*name, error={"code": "x"})
            case "waiting":
                return Waiting(*name, delay_ms=1)
            case "released":
                return Released(*name)
        return done(grant, *self._next(grant.node))

    def _next(self, node: str) -> tuple[Delivery, ...]:
        if node in ("a", "b", "c"):
            return (to("j", need=self._rng.choice((1, 3)), total=3, withdraws=("a", "b", "c")),)
        return (to("k"), to("l")) if node == "j" else ()


# ── wake-ups ────────────────────────────────────────────────────────────────────────────


async def _waits(store: PostgresStore, admin: Any) -> None:
    """Until a store listens: then it has nothing left to do but to wait."""
    while not await admin.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle' AND query LIKE $1",
        f'LISTEN%minuet_{store._address.schema}"%',
    ):
        pass


async def test_a_run_created_elsewhere_wakes_up_who_waits_for_work(
    opened: Opener, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that looking again cannot be what ends the wait.
    monkeypatch.setattr(store_module, "POLL_MS", 50_000)
    here, elsewhere = await opened(), await opened()
    waiting = asyncio.create_task(here.wait_for_work("default", ["q"], 50_000))
    await _waits(here, admin)

    await elsewhere.create_runs([new_run("a")])

    assert await waiting


async def test_an_event_written_elsewhere_wakes_up_who_waits_for_it(
    opened: Opener, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "POLL_MS", 50_000)
    here, elsewhere = await opened(), await opened()
    (run,) = await here.create_runs([new_run("a")])
    assert isinstance(run, Run)
    monkeypatch.setattr(ends_module, "POLL_MS", 50_000)
    waiting = asyncio.create_task(here.wait_for_change(run.run, run.seq, 50_000))
    ending = asyncio.create_task(here.wait_for_end(run.run, 50_000))
    await _waits(here, admin)

    await elsewhere.change_run("default", run.run, Cancel())

    assert await waiting
    assert await ending


async def test_without_hints_looking_again_finds_what_another_process_did(
    opened: Opener, url: str
) -> None:
    here = await opened(at=f"{url}&pooler=transaction")
    elsewhere = await opened()
    waiting = asyncio.create_task(here.wait_for_work("default", ["q"], 50_000))

    await elsewhere.create_runs([new_run("a")])

    assert await waiting
    assert not here._hints._listening


@pytest.mark.parametrize(
    ("verb", "table"), [("put_run_blob", "run"), ("put_record_blob", "record")]
)
async def test_a_blob_that_is_put_while_its_run_is_deleted_is_not_left_behind(
    opened: Opener, url: str, admin: Any, verb: str, table: str
) -> None:
    schema, new = schema_of(url), new_run("a")
    store = await opened()
    deleter: PostgresStore | PostgresLog = store
    await store.create_runs([new])
    await store.change_run("default", new.run, Cancel())
    if table == "record":
        deleter = PostgresLog(url)
        await deleter.open()
        rows = await store.read_snapshot("default", new.run)
        assert rows is not None
        await deleter.put_log(rows, None)
    put = in_schema(statement(verb), schema)

    async with admin.transaction():
        assert await admin.fetchval(put, new.run, "cas://x", "default", b"x") == new.run
        deleting = asyncio.create_task(deleter.delete_runs("default", [new.run]))
        while not await admin.fetchval("SELECT 1 FROM pg_locks WHERE NOT granted"):
            continue

    assert await deleting == 1
    assert await admin.fetchval(f"SELECT count(*) FROM {schema}.{table}_blobs") == 0
    with pytest.raises(RunNotFoundError):
        await deleter.put_blob(b"late", run=new.run)
    if deleter is not store:
        await deleter.close()
