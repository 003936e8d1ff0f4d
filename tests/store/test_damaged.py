"""Rows that cannot be read: each costs its own run, and never a worker, a list or another run."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest
import redis.asyncio
from tests import servers

from minuet.app.app import App
from minuet.app.stores import make_store
from minuet.clock import ManualClock
from minuet.errors import DamagedRowError
from minuet.events import NodeWaiting
from minuet.store.redis import rows
from minuet.store.redis.columns import TOKEN

#: Its token waits, and reads an output of another node when it goes on.
HELD = {
    "name": "held",
    "nodes": [
        {"id": "start", "type": "transform", "config": {"value": 60}},
        {"id": "between", "type": "noop", "dependencies": ["start"]},
        {
            "id": "hold",
            "type": "wait",
            "config": {"seconds": "{{ start.output }}"},
            "dependencies": ["between"],
        },
    ],
}

OTHER = {
    "name": "other",
    "nodes": [
        {"id": "first", "type": "transform", "config": {"value": 7}},
        {"id": "second", "type": "noop", "dependencies": ["first"]},
        {
            "id": "third",
            "type": "transform",
            "config": {"value": "{{ first.output }}"},
            "dependencies": ["second"],
        },
    ],
}

#: Seconds until a test that does not come to its end has failed.
LIMIT_S = 30

#: The event that holds the output of `start`.
START_SEQ = 3


class Damage:
    """What is done to a stored run; by default its node `hold` fails for that."""

    def __init__(self, sql: str, field: Callable[[bytes], bytes], name: bytes, word: str) -> None:
        self.sql, self.field, self.name, self.word = sql, field, name, word


def _new_tags(text: str) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        values = _unpacked(data)
        return _packed([*values[:3], text, *values[4:]])

    return change


def _unpacked(data: bytes) -> list[Any]:
    """The packed values of a row."""
    decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])
    for count in range(20, 0, -1):
        try:
            return decoder.decode(b"\xdc" + count.to_bytes(2, "big") + data)
        except msgspec.DecodeError:
            continue
    raise AssertionError(data)


def _packed(values: list[Any]) -> bytes:
    return b"".join(map(msgspec.msgpack.encode, values))


def _new_tail(tail: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        _, old = rows.columns_of(TOKEN, data)
        assert old
        return data[: -len(old)] + tail(old)

    return change


def _new_reads(reads: bytes) -> Callable[[bytes], bytes]:
    def change(tail: bytes) -> bytes:
        values = _unpacked(tail)
        return _packed([*values[:2], msgspec.Raw(reads), *values[3:]])

    return _new_tail(change)


HOLD = b"thold\0"

DAMAGES = {
    "tags that are a list": Damage(
        "UPDATE runs SET tags = '[1]' WHERE run = {run}", _new_tags("[1]"), b"I", "tags"
    ),
    "tags that are cut off": Damage(
        """UPDATE runs SET tags = '{{"a":' WHERE run = {run}""", _new_tags('{"a":'), b"I", "tags"
    ),
    "reads that are cut off": Damage(
        "UPDATE tokens SET reads = '[[\"st' WHERE node = 'hold' AND run = {run}",
        _new_tail(lambda tail: tail[:5]),
        HOLD,
        "reads",
    ),
    "reads that are numbers": Damage(
        "UPDATE tokens SET reads = '[[1, 2, \"x\"]]' WHERE node = 'hold' AND run = {run}",
        _new_reads(b"\xa6\x91\x93\x01\x02\xa1x"),
        HOLD,
        "reads",
    ),
    "reads that are no list": Damage(
        "UPDATE tokens SET reads = '5' WHERE node = 'hold' AND run = {run}",
        _new_reads(b"\x05"),
        HOLD,
        "reads",
    ),
    "an event that is cut off": Damage(
        "UPDATE events SET data = {broken} WHERE seq = 3 AND run_id = "
        "(SELECT id FROM runs WHERE run = {run})",
        lambda data: b"x",
        b"e3",
        "event 3",
    ),
}


class Place:
    """A store, and a way to its rows that goes around it."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.url = {
            "sqlite": lambda: f"sqlite:///{folder / 'store.db'}",
            "postgres": servers.postgres_url,
        }.get(kind, lambda: servers.redis_url(kind))()

    async def damage(self, run: str, damage: Damage) -> None:
        if self.kind == "sqlite":
            with sqlite3.connect(self.url.removeprefix("sqlite:///")) as db:
                text = damage.sql.format(run=f"'{run}'", broken="x'78'")
                assert db.execute(text).rowcount == 1
            db.close()
        elif self.kind == "postgres":
            address, _, schema = self.url.partition("?schema=")
            connection = await asyncpg.connect(address)
            await connection.execute(f"SET search_path = {schema}")
            text = damage.sql.format(run=f"'{run}'", broken=r"'\x78'")
            assert await connection.execute(text) == "UPDATE 1"
            await connection.close()
        else:
            await self.damage_field(run, damage.name, damage.field)

    async def damage_field(self, run: str, name: bytes, change: Callable[[bytes], bytes]) -> None:
        """Change a field of a run on Redis."""
        prefix = self.url.partition("?prefix=")[2]
        client = redis.asyncio.from_url(self.url.partition("?")[0])
        (key,) = [key async for key in client.scan_iter(f"{prefix}*:run:{run}", count=10_000)]
        data = await client.hget(key, name)
        assert isinstance(data, bytes)
        changed = change(data)
        assert changed != data
        await client.hset(key, name, changed)
        await client.aclose()

    async def until_held(self) -> str:
        """Start a run, and stop when its last node waits."""
        async with App(self.url, clock=ManualClock()) as app:
            run_id: str = await app.start(HELD, tags={"a": 1}, idempotency_key="key")
            async for _, _, event in app.follow(run_id):
                if isinstance(event, NodeWaiting):
                    break
        return run_id

    def again(self, *, worker: bool = True) -> App:
        """Open it when the time of the wait is over."""
        clock = ManualClock()
        clock.advance(100_000)
        store: Any = make_store(self.url, clock=clock)
        # What was damaged is not what its history says, and the tests' own comparison would fail.
        store.is_compared = True
        return App(store, worker=worker, clock=clock)


@pytest.fixture(params=("sqlite", "postgres", *servers.KINDS_OF_REDIS))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


@pytest.fixture(params=servers.KINDS_OF_REDIS)
def redis_place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


async def other_completes(app: App) -> str:
    """Another run of the same queue comes to its end, and all runs are listed."""
    run_id: str = await app.start(OTHER)
    assert (await app.wait(run_id, timeout=LIMIT_S)).status == "COMPLETED"
    app.check_worker()
    return run_id


async def findings_of(app: App, run_id: str) -> str:
    found = [findings async for name, findings in app.doctor.examine() if name == run_id]
    return "\n".join(finding.message for finding in found[0])


@pytest.mark.parametrize("what", DAMAGES)
async def test_a_row_that_cannot_be_read_fails_its_run_and_no_other(
    place: Place, what: str
) -> None:
    damage = DAMAGES[what]
    damaged = await place.until_held()
    await place.damage(damaged, damage)

    async with place.again() as app:
        ended = await app.runs.wait_ended(damaged, timeout=LIMIT_S)
        sound = await other_completes(app)
        listed = {run.run: run.status for run in await app.runs.list()}
        found = await findings_of(app, damaged)

    assert listed == {damaged: "FAILED", sound: "COMPLETED"}
    assert ended.error is not None
    assert ended.error["code"] == "damaged_row"
    assert damaged in ended.error["message"]
    assert "node hold" in ended.error["message"]
    assert "minuet doctor" in ended.error["message"]
    assert damage.word in found


async def test_a_history_with_an_event_that_cannot_be_read_is_shown_as_far_as_it_goes(
    place: Place,
) -> None:
    run_id = await place.until_held()
    await place.damage(run_id, DAMAGES["an event that is cut off"])

    async with place.again(worker=False) as app:
        events = await app.runs.events(run_id)
        for ask in (app.runs.show, app.runs.replay, app.runs.history):
            with pytest.raises(DamagedRowError, match=f"run {run_id}: event 3 cannot be read"):
                await ask(run_id)
        with pytest.raises(DamagedRowError, match="minuet doctor"):
            await app.runs.explain(run_id, "hold")

    kinds = {event["seq"]: event["type"] for event in events}
    assert kinds[START_SEQ] == "unreadable"
    assert list(kinds.values()).count("unreadable") == 1


@pytest.mark.parametrize("what", DAMAGES)
async def test_a_damaged_run_can_be_cancelled(place: Place, what: str) -> None:
    run_id = await place.until_held()
    await place.damage(run_id, DAMAGES[what])

    async with place.again(worker=False) as app:
        await app.cancel(run_id)
        status = (await app.runs.get(run_id)).status

    assert status == "CANCELLED"


@pytest.mark.parametrize("what", [name for name in DAMAGES if name.startswith("reads")])
async def test_doctor_repairs_what_a_token_reads_and_the_run_completes(
    place: Place, what: str
) -> None:
    run_id = await place.until_held()
    await place.damage(run_id, DAMAGES[what])

    async with place.again(worker=False) as app:
        repair = await app.doctor.repair_run(run_id)
    async with place.again() as app:
        ended = await app.runs.wait_ended(run_id, timeout=LIMIT_S)

    assert (repair.refused, repair.left) == (None, ())
    assert any(change.what.endswith("reads") for change in repair.changes)
    assert ended.status == "COMPLETED"


async def test_an_idempotency_key_that_is_a_number_is_shown_as_text(redis_place: Place) -> None:
    run_id = await redis_place.until_held()

    def number(data: bytes) -> bytes:
        values = _unpacked(data)
        return _packed([*values[:4], 12, *values[5:]])

    await redis_place.damage_field(run_id, b"I", number)

    async with redis_place.again() as app:
        status = (await app.wait(run_id, timeout=LIMIT_S)).status
        (run,) = await app.runs.list()

    assert status == "COMPLETED"
    assert (run.idempotency_key, run.tags) == ("12", {"a": 1})


@pytest.mark.parametrize("field", [b"R", HOLD], ids=["run", "token"])
async def test_a_row_of_which_nothing_can_be_read_stops_nobody(
    redis_place: Place, field: bytes
) -> None:
    run_id = await redis_place.until_held()
    await redis_place.damage_field(run_id, field, lambda data: b"x")

    async with redis_place.again() as app:
        await app.doctor.sweep()
        sound = await other_completes(app)
        listed = [run.run for run in await app.runs.list()]
        found = await findings_of(app, run_id)

    assert sorted(listed) == sorted([run_id, sound])
    assert found
