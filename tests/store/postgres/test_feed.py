"""The change feed where transactions commit in another order than they began."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests import servers

from minuet.errors import PositionError
from minuet.store.changes import NewRun
from minuet.store.exchange import Delivery
from minuet.store.postgres import PostgresStore
from minuet.store.postgres import feed as feeds
from minuet.store.postgres.address import Address
from minuet.store.postgres.feed import Seen, whole

asyncpg = pytest.importorskip("asyncpg")


class Writer:
    """A connection that writes events as an exchange does, one statement at a time."""

    def __init__(self, connection: Any, schema: str) -> None:
        self._connection, self._schema = connection, schema

    async def begin(self) -> None:
        """From here on it has a number."""
        await self._connection.execute("BEGIN; SELECT pg_current_xact_id()")

    async def write(self, run: str) -> None:
        await self._connection.execute(
            f"""
            WITH r AS (
                UPDATE "{self._schema}".runs SET seq = seq + 1 WHERE run = '{run}' RETURNING id, seq
            )
            INSERT INTO "{self._schema}".events (run_id, seq, at_ms, data)
            SELECT id, seq, 0, '{{}}' FROM r
            """
        )

    async def commit(self) -> None:
        await self._connection.execute("COMMIT")

    async def roll_back(self) -> None:
        await self._connection.execute("ROLLBACK")


class Scene:
    """A store with two runs, and a reader of its feed that keeps what it has seen."""

    def __init__(self, store: PostgresStore, writers: list[Writer], position: str) -> None:
        self.store, self.writers, self.position = store, writers, position
        self.seen: dict[str, list[int]] = {}

    async def read(self, limit: int = 1000) -> dict[str, list[int]]:
        """What comes now, and is kept."""
        now: dict[str, list[int]] = {}
        while (page := await self.store.read_feed(self.position, limit=limit)).entries:
            for entry in page.entries:
                now.setdefault(entry.event.run, []).append(entry.event.seq)
                self.seen.setdefault(entry.event.run, []).append(entry.event.seq)
            self.position = page.position
        self.position = page.position
        return now


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    url = servers.postgres_url()
    store = PostgresStore(url)
    await store.open()
    address = Address(url)
    connections = [await asyncpg.connect(address.dsn) for _ in range(3)]
    for name in ("x", "y"):
        entry = Delivery("a", "", live=True, need=1, total=1, queue="q")
        await store.create_runs([NewRun(run=name, workflow="w", plan="p", entries=(entry,))])
    position = (await store.read_feed(None)).position
    try:
        yield Scene(store, [Writer(c, address.schema) for c in connections], position)
    finally:
        for connection in connections:
            await connection.close()
        await store.close()


async def test_a_transaction_that_commits_after_a_later_one_is_not_missed(scene: Scene) -> None:
    early, late, _ = scene.writers
    await early.begin()
    await early.write("x")
    await late.begin()
    await late.write("y")
    await late.commit()
    assert await scene.read() == {"y": [3]}

    await early.commit()

    assert await scene.read() == {"x": [3]}


async def test_the_test_finds_a_reader_that_remembers_the_last_number(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mistake that a position by number would be: what is running counts as seen."""
    monkeypatch.setattr(Seen, "__str__", lambda self: str(self.below))
    early, late, _ = scene.writers
    await early.begin()
    await early.write("x")
    await late.begin()
    await late.write("y")
    await late.commit()
    assert await scene.read() == {"y": [3]}
    await early.commit()

    assert await scene.read() == {}


@pytest.mark.parametrize("limit", [1, 2, 1000])
async def test_a_number_from_before_the_lock_tears_no_run(scene: Scene, limit: int) -> None:
    """The first one has the lowest number and writes the last event of the run."""
    first, second, third = scene.writers
    await first.begin()
    await second.begin()
    await third.begin()
    await third.write("x")
    await third.commit()
    await second.write("y")
    await first.write("x")
    await first.commit()

    await scene.read(limit)
    await second.commit()
    await scene.read(limit)

    assert scene.seen == {"x": [3, 4], "y": [3]}


async def test_each_position_in_a_page_can_be_resumed(scene: Scene) -> None:
    first, second, third = scene.writers
    for writer in scene.writers:
        await writer.begin()
    await third.write("x")
    await third.commit()
    await first.write("x")
    await first.commit()
    page = await scene.store.read_feed(scene.position)
    await second.write("y")
    await second.commit()

    (event,) = [e for e in page.entries if e.event.seq == 3]
    rest = await scene.store.read_feed(event.position)
    assert [e.event.seq for e in rest.entries] == [4]
    last = await scene.store.read_feed(rest.position)
    assert [(e.event.run, e.event.seq) for e in last.entries] == [("y", 3)]


async def test_what_is_rolled_back_never_comes(scene: Scene) -> None:
    first, second, _ = scene.writers
    await first.begin()
    await first.write("x")
    await second.begin()
    await second.write("y")
    assert await scene.read() == {}
    await first.roll_back()
    await second.commit()

    assert await scene.read() == {"y": [3]}
    assert await scene.read() == {}


async def test_a_long_transaction_elsewhere_delays_nothing(scene: Scene) -> None:
    foreign, writer, _ = scene.writers
    await foreign.begin()
    for number in range(3, 6):
        await writer.begin()
        await writer.write("x")
        await writer.commit()
        assert await scene.read() == {"x": [number]}
    await foreign.commit()
    assert await scene.read() == {}


async def test_a_position_of_another_history_is_refused(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "p" + "0" * 10 + scene.position[scene.position.index(":") :]
    with pytest.raises(PositionError):
        await scene.store.read_feed(other)
    head, seen = scene.position.split(":")
    with pytest.raises(PositionError):
        await scene.store.read_feed(f"{head}:{int(seen.split('.')[0]) + 10**9}")


async def test_tables_from_a_dump_of_another_server_begin_a_new_feed(scene: Scene) -> None:
    """The numbers in them are those of the other server."""
    address = Address(scene.store._database.address.dsn)
    schema = scene.store._database.address.schema
    connection = await asyncpg.connect(address.dsn)
    await connection.execute(
        f"""
        UPDATE "{schema}".events SET written_by = '900000000000';
        UPDATE "{schema}".feed_origin SET system = system - 1
        """
    )
    await connection.close()
    await scene.store.close()
    await scene.store.open()

    scene.position = (await scene.store.read_feed(None)).position
    (writer, *_) = scene.writers
    await writer.begin()
    await writer.write("x")
    await writer.commit()
    assert await scene.read() == {"x": [3]}


def row(number: int, seq: int, before: int | None, run: str = "x") -> feeds._Row:
    return feeds._Row(number, before, "a", "w", SimpleNamespace(run=run, seq=seq))


def test_a_page_ends_where_no_run_is_torn() -> None:
    rows = [row(10, 6, 12), row(11, 1, None, "y"), row(12, 5, 8)]
    seen = Seen(9)
    assert whole(rows, seen, 12) == (rows, 12)
    assert whole(rows, seen, 11) == ([], 9)
    assert whole(rows[1:], seen, 11) == (rows[1:2], 11)


def test_what_was_seen_includes_what_came_since() -> None:
    seen = Seen(20, frozenset({11, 15}))
    now = Seen(30, frozenset({15, 25}))
    assert seen.with_those_up_to(29, now) == now
    assert seen.with_those_up_to(26, now) == Seen(27, frozenset({15, 25}))
    assert seen.with_those_up_to(21, now) == Seen(22, frozenset({15}))
    assert seen.with_those_up_to(12, now) == Seen(20, frozenset({15}))
    assert [now.has(number) for number in (11, 15, 30)] == [True, False, False]
