"""One suite for every store: a test here holds for all of them.

A new store joins by adding its factory to `FACTORIES`. Tests talk to the store through `World`,
which checks after each call that what the store holds is sound.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests import chosen, pooler, servers

from minuet.blobs.folder import FolderBlobs
from minuet.clock import Clock, ManualClock
from minuet.events import COUNTED, NodeCompleted, decode_event, event_type
from minuet.kernel.mailbox import Mailbox
from minuet.store.base import Store
from minuet.store.changes import Change, NewRun
from minuet.store.exchange import (
    Delivery,
    Done,
    Exchange,
    Grant,
    Held,
    Item,
    NewStep,
    Refusal,
    Reply,
    Swept,
    Take,
)
from minuet.store.logged import LoggedStore
from minuet.store.memory import MemoryStore
from minuet.store.outside import keep_outside
from minuet.store.postgres import PostgresStore
from minuet.store.postgres.log import PostgresLog
from minuet.store.records import LIVE_STATES, Key, Run, Snapshot, Token
from minuet.store.redis import RedisStore
from minuet.store.redis.hot import HotRedisStore
from minuet.store.sqlite import SqliteStore
from minuet.types import TERMINAL


def redis_store(kind: str) -> Callable[[Path, Clock], Store]:
    return lambda folder, clock: RedisStore(servers.redis_url(kind), clock=clock)


FACTORIES: dict[str, Callable[[Path, Clock], Store]] = {
    "memory": lambda folder, clock: MemoryStore(clock),
    # What is tested is meaning; durability has tests of its own.
    "sqlite": lambda folder, clock: SqliteStore(
        servers.sqlite_file(folder / "store.db"), clock=clock, durability="normal"
    ),
    "postgres": lambda folder, clock: PostgresStore(servers.postgres_url(), clock=clock),
    **{kind: redis_store(kind) for kind in servers.KINDS_OF_REDIS},
    "logged": lambda folder, clock: LoggedStore(
        HotRedisStore(servers.redis_url(), clock=clock),
        PostgresLog(servers.postgres_url(), clock=clock),
        never_rebuild,
    ),
}
FACTORIES["outside"] = lambda folder, clock: keep_outside(
    FACTORIES["sqlite"](folder, clock), FolderBlobs(folder / "blobs")
)
if pooler.program() is not None:
    FACTORIES["pgbouncer"] = lambda folder, clock: PostgresStore(servers.pooled_url(), clock=clock)


#: What goes through these stores in every run of the tests; `make faults` has all of it go. A
#: pooler changes how calls reach the store; contents outside, what becomes of blobs. Another server
#: that speaks Redis runs the same Lua: these tests call all of its verbs, and with them every
#: command of the server that the store uses.
ONLY = {
    "pgbouncer": {"test_take", "test_hand_in", "test_reads", "test_durability"},
    "outside": {
        *("test_blobs", "test_large", "test_collect", "test_retention", "test_put_run"),
        *("test_done", "test_durability", "test_workflows"),
    },
    **{
        kind: {
            *("test_blobs", "test_collect", "test_grants", "test_put_run", "test_retention"),
            *("test_take", "test_hand_in", "test_reads", "test_durability", "test_workflows"),
        }
        for kind in servers.KINDS_OF_REDIS[1:]
    },
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def is_chosen(item: pytest.Item, store: str) -> bool:
        return store not in ONLY or item.path.stem in ONLY[store]

    chosen.leave_out(config, items, "store", is_chosen)


async def never_rebuild(logged: Snapshot) -> Snapshot:
    raise AssertionError(f"nothing was lost of {logged.run.run}")


#: One of each kind: where a test is about two stores, and not about their servers.
ONE_OF_EACH = ("memory", "sqlite", "outside", "postgres", servers.KINDS_OF_REDIS[0], "logged")

LEASE_MS = 30_000


class World:
    """A store, its clock and one worker; every call is followed by a look at all runs."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        self._numbers: dict[tuple[str, str], int] = {}
        self._runs: dict[str, str] = {}
        #: The rows of each run that were found sound last.
        self._sound: dict[str, bytes] = {}
        self._names = 0
        #: Whether calls are followed by that look: large runs are looked at less often.
        self.looks = True

    # ── making things ───────────────────────────────────────────────────────────────────

    def name(self, prefix: str) -> str:
        """A name that was not used before and sorts after those before it."""
        self._names += 1
        return f"{prefix}-{self._names:04d}"

    def to(self, node: str, scope: str = "", **fields: Any) -> Delivery:
        """A live delivery to a node that expects just this one."""
        return Delivery(
            **{
                "node": node,
                "scope": scope,
                "live": True,
                "need": 1,
                "total": 1,
                "queue": "q",
                **fields,
            }
        )

    def new(self, *entries: str | Delivery, **fields: Any) -> NewRun:
        """A run to create, with a token at each of these nodes."""
        deliveries = tuple(self.to(e) if isinstance(e, str) else e for e in entries)
        return NewRun(
            **{
                "run": self.name("run"),
                "workflow": "w",
                "plan": "p",
                "tenant": "a",
                "entries": deliveries,
                **fields,
            }
        )

    async def start(self, *entries: str | Delivery, **fields: Any) -> str:
        """Create a run and say its name."""
        (run,) = await self.create(self.new(*entries, **fields))
        name: str = run.run
        return name

    async def create(self, *runs: NewRun) -> list[Any]:
        answers = await self.store.create_runs(runs)
        for new, answer in zip(runs, answers, strict=True):
            if isinstance(answer, Run):
                self._runs[answer.run] = new.tenant
        await self.check()
        return answers

    # ── calls ───────────────────────────────────────────────────────────────────────────

    def request(
        self, *hand_in: Item, session: str = "s", tenant: str = "a", **fields: Any
    ) -> Exchange:
        """The next call of a session."""
        name = (tenant, session)
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        return Exchange(
            **{
                "session": session,
                "seq": number,
                "lease": self.name("lease"),
                "lease_ms": LEASE_MS,
                "tenant": tenant,
                "hand_in": hand_in,
                **fields,
            }
        )

    async def exchange(self, request: Exchange) -> Reply:
        reply = await self.store.exchange(request)
        await self.check()
        return reply

    async def hand_in(self, *items: Item, **fields: Any) -> tuple[str, ...]:
        """Hand items in; their results."""
        return (await self.exchange(self.request(*items, **fields))).results

    async def take(
        self, limit: int = 100, queues: Sequence[str] = ("", "q"), **fields: Any
    ) -> list[Grant]:
        """Take tokens."""
        take = (Take(tuple(queues), limit),)
        return list((await self.exchange(self.request(take=take, **fields))).granted)

    async def take_one(self, **fields: Any) -> Grant:
        """Take the only token that is ready."""
        (grant,) = await self.take(**fields)
        return grant

    def done(self, grant: Grant, *to: str | Delivery, **fields: Any) -> Done:
        """The result of a token, and where it goes."""
        deliveries = tuple(self.to(d) if isinstance(d, str) else d for d in to)
        values = {"plan": "p", "output": b'"out"', "deliveries": deliveries, **fields}
        return Done(grant.run, grant.node, grant.scope, grant.lease, **values)

    async def finish(
        self, grant: Grant, *to: str | Delivery, session: str = "s", **fields: Any
    ) -> None:
        """Hand in a result that must be applied."""
        done = self.done(grant, *to, **fields)
        assert await self.hand_in(done, session=session) == ("applied",)

    async def change(self, run: str, change: Change, expected: int | None = None) -> Run:
        changed = await self.store.change_run("a", run, change, expected)
        await self.check()
        return changed

    async def sweep(self, limit: int = 1000) -> Swept:
        swept = await self.store.sweep(limit)
        await self.check()
        return swept

    async def resolve(self, key: Key, resolution: bytes = b'"yes"', **fields: Any) -> bool:
        resolved = await self.store.resolve("a", key, resolution, **fields)
        await self.check()
        return resolved

    async def record(
        self, held: Grant | Held, name: str, value: bytes = b"1", *, signal: int = 0
    ) -> bytes | Refusal:
        """Record one step under a lease."""
        key = (held.run, held.node, held.scope)
        new = NewStep(*key, held.lease, name, value, signal)
        (answer,) = await self.store.record_steps("a", [new])
        await self.check()
        return answer

    # ── looking ─────────────────────────────────────────────────────────────────────────

    async def run(self, run: str) -> Run:
        row = await self.store.read_run(self._runs.get(run, "a"), run)
        assert row is not None
        return row

    async def token(self, run: str, node: str, scope: str = "") -> Token:
        tokens = await self.store.read_tokens(self._runs[run], run)
        (token,) = [t for t in tokens if (t.node, t.scope) == (node, scope)]
        return token

    async def events(self, run: str) -> list[str]:
        """The types of a run's events."""
        records = await self.store.read_events(self._runs[run], run)
        return [event_type(decode_event(record.data)) for record in records]

    async def last_event(self, run: str, kind: str) -> Any:
        """The last event of a type."""
        records = await self.store.read_events(self._runs[run], run)
        found = [decode_event(record.data) for record in records]
        return [event for event in found if event_type(event) == kind][-1]

    async def snapshot(self, run: str) -> Snapshot | None:
        return await self.store.read_snapshot(self._runs[run], run)

    async def check(self) -> None:
        """What must hold for every run at any moment."""
        for run in self._runs if self.looks else ():
            snapshot = await self.snapshot(run)
            # Most runs have not changed. Bytes do not change with the rows that they were made of.
            rows = msgspec.msgpack.encode(snapshot)
            if snapshot is not None and self._sound.get(run) != rows:
                check_sound(snapshot)
                self._sound[run] = rows


def check_sound(snapshot: Snapshot) -> None:
    """The invariants of one run, as far as a store can know them."""
    run = snapshot.run
    events = [decode_event(record.data) for record in snapshot.events]
    live = [t for t in snapshot.tokens if t.state in LIVE_STATES]
    assert run.counter == len(live)
    assert (run.counter == 0) == (run.status in TERMINAL or run.status == "PENDING")
    assert [record.seq for record in snapshot.events] == list(range(1, run.seq + 1))
    completed = [(e.node, e.scope) for e in events if isinstance(e, NodeCompleted)]
    assert len(completed) == len(set(completed))
    assert (run.ended_ms is not None) == (run.status in TERMINAL)
    for token in snapshot.tokens:
        assert token.tenant == run.tenant
        assert (token.outcome != "") == (token.state in ("done", "dead"))
        assert token.state != "leased" or (token.lease and token.due_ms is not None)
        assert token.state in ("ready", "leased") or not token.slot
        assert token.lane == "" or token.state == "ready"
        assert token.event <= run.seq
    for join in snapshot.joins:
        arrivals = [a for a in snapshot.arrivals if (a.run, a.node, a.scope) == join.key]
        # Items leave no row: the events say which have come, and what they needed.
        items = [
            sent
            for event in events
            if isinstance(event, NodeCompleted)
            for sent in event.to
            if sent[2] >= COUNTED and (run.run, *sent[:2]) == join.key
        ]
        assert (join.live, join.skipped) == (
            sum(a.live for a in arrivals) + sum(sent[2] % COUNTED for sent in items),
            sum(not a.live for a in arrivals) + sum(1 - sent[2] % COUNTED for sent in items),
        )
        need = min([join.need, *(sent[3] for sent in items)])
        enough = join.live >= need or join.live + join.skipped >= join.total
        assert join.fired == enough
        assert join.fired == any(t.key == join.key for t in snapshot.tokens)
    mailbox = Mailbox()
    for seq, event in enumerate(events, 1):
        mailbox.count(seq, event)
    assert [*mailbox.broken, *mailbox.unmatched()] == []


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=FACTORIES)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> AsyncIterator[Store]:
    """Every store, one after the other."""
    store = FACTORIES[request.param](tmp_path, clock)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def world(store: Store, clock: ManualClock) -> World:
    return World(store, clock)


@pytest.fixture
def held() -> Callable[[Grant], Held]:
    """A grant as its worker names it when it renews."""
    return lambda grant: Held(grant.run, grant.node, grant.scope, grant.lease)
