"""Connections that end, servers that crash, and text that PostgreSQL does not like."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests import servers
from tests.proxy import Proxy
from tools.services import Postgres

from minuet.errors import StoreError, StoreUnavailableError
from minuet.store.changes import Cancel
from minuet.store.exchange import NewStep, Slot, Waiting
from minuet.store.postgres import PostgresStore
from minuet.store.postgres.address import Address
from minuet.store.postgres.database import Database
from minuet.store.records import Run

from .conftest import Opener, Session, done, new_run, schema_of, to

#: Replies of the server in one transaction: BEGIN, load, write and take, COMMIT.
REPLIES = 4


async def test_a_backend_that_is_ended_in_mid_call_does_not_change_the_answer(
    opened: Opener, url: str, admin: Any
) -> None:
    store = await opened()
    (run,) = await store.create_runs([new_run("a")])
    assert isinstance(run, Run)
    session = Session(store, "s")
    (grant,) = (await session.exchange(take=1)).granted
    request = session.request(done(grant, to("b")), take=1)
    async with admin.transaction():
        # The call stops in its middle, where it waits for the run.
        await admin.execute(f"SELECT FROM {schema_of(url)}.runs FOR UPDATE")
        calling = asyncio.create_task(store.exchange(request))
        while not (
            ended := await admin.fetch(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE wait_event_type = 'Lock' AND query LIKE '%\\_rows\\_%'"
            )
        ):
            # Within a transaction it would go on seeing what it saw first.
            await admin.execute("SELECT pg_stat_clear_snapshot()")
    reply = await calling

    assert len(ended) == 1
    assert reply.results == ("applied",)
    assert [g.node for g in reply.granted] == ["b"]
    again = await store.exchange(request)
    assert (again.results, again.granted) == (reply.results, reply.granted)


async def test_a_call_cancelled_while_it_connects_leaves_no_error_behind(url: str) -> None:
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    database = Database(Address(url))
    await database.open()
    for turns in range(24):
        connecting = asyncio.create_task(database.connect())
        for _ in range(turns):
            await asyncio.sleep(0)
        connecting.cancel()
        await asyncio.wait({connecting})
    await database.close()
    gc.collect()

    assert errors == []


@pytest.fixture
async def cut(url: str) -> AsyncIterator[tuple[PostgresStore, Proxy]]:
    """A store whose link to the server can be cut."""
    proxy = await Proxy.to(servers.postgres().port)
    place = f"127.0.0.1:{servers.postgres().port}"
    store = PostgresStore(url.replace(place, f"127.0.0.1:{proxy.port}"))
    await store.open()
    yield store, proxy
    proxy.pass_on()
    await store.close()
    await proxy.close()


@pytest.mark.parametrize(
    ("passed", "known"), [*((passed, False) for passed in range(REPLIES)), (0, True)]
)
async def test_a_lost_reply_does_not_lose_or_repeat_an_exchange(
    cut: tuple[PostgresStore, Proxy], passed: int, known: bool
) -> None:
    store, proxy = cut
    (run,) = await store.create_runs([new_run("a", "b")])
    assert isinstance(run, Run)
    session = Session(store, "s")
    first, second = (await session.exchange(take=2)).granted
    await session.exchange(done(first))
    # No hint may be under way, or its reply is the one that is lost.
    await store._hints.close()
    if not known:
        store._known.clear()
    request = session.request(done(second, to("c")), take=1)

    proxy.cut_reply(after=passed)
    reply = await store.exchange(request)

    assert proxy.cuts == 1
    assert reply.results == ("applied",)
    assert [grant.node for grant in reply.granted] == ["c"]
    snapshot = await store.read_snapshot("default", run.run)
    assert snapshot is not None
    assert [token.delivery for token in snapshot.tokens] == [1, 1, 1]
    assert snapshot.run.seq == len(snapshot.events) == 4


async def test_a_change_whose_commit_is_in_doubt_says_so(
    cut: tuple[PostgresStore, Proxy],
) -> None:
    store, proxy = cut
    (run,) = await store.create_runs([new_run("a")])
    assert isinstance(run, Run)
    await store._hints.close()
    wanted = store.change_run("default", run.run, Cancel())

    # Creating a run has used the same statements: none is prepared anew.
    proxy.cut_reply(after=REPLIES - 1)
    with pytest.raises(StoreUnavailableError):
        await wanted

    assert proxy.cuts == 1
    changed = await store.read_run("default", run.run)
    assert changed is not None
    assert changed.status == "CANCELLED"


async def test_after_a_crash_of_the_server_everything_answered_is_there() -> None:
    folder = Path(tempfile.mkdtemp(prefix="minuet-"))
    os.chmod(folder, 0o755)
    server = Postgres(folder / "server")
    server.start()
    store = PostgresStore(server.url)
    try:
        await store.open()
        session = Session(store, "s")
        runs = await store.create_runs([new_run("a") for _ in range(20)])
        request = session.request(take=10)
        granted = (await store.exchange(request)).granted
        results = (await session.exchange(*(done(grant) for grant in granted[:5]))).results

        server.kill()
        with pytest.raises(StoreUnavailableError):
            await session.exchange(take=1)
        server.start()

        ended = await store.list_runs("default", statuses=("COMPLETED",))
        assert len(runs) == 20
        assert results == ("applied",) * 5
        assert len(ended) == 5
        left = [t for run in granted[5:] for t in await store.read_tokens("default", run.run)]
        assert {token.state for token in left} == {"leased"}
    finally:
        await store.close()
        server.stop()
        shutil.rmtree(folder)


async def test_a_cancelled_call_leaves_no_transaction_behind(
    opened: Opener, url: str, admin: Any
) -> None:
    store = await opened()
    await store.create_runs([new_run("a")])
    session = Session(store, "s")
    (grant,) = (await session.exchange(take=1)).granted
    request = session.request(done(grant))
    async with admin.transaction():
        await admin.execute(f"SELECT FROM {schema_of(url)}.runs FOR UPDATE")
        calling = asyncio.create_task(store.exchange(request))
        while not await admin.fetchval(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE wait_event_type = 'Lock' AND query LIKE '%\\_rows\\_%'"
        ):
            await admin.execute("SELECT pg_stat_clear_snapshot()")
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

    assert (await store.exchange(request)).results == ("applied",)


async def test_keys_and_names_may_hold_any_character(opened: Opener) -> None:
    store = await opened()
    await store.create_runs([new_run("a", "b", idempotency_key="k\0é")])
    session = Session(store, "s")
    first, second = (await session.exchange(take=2)).granted
    name = (first.run, first.node, first.scope, first.lease)

    assert await store.record_steps("default", [NewStep(*name, "s\0", b"1")]) == [b"1"]
    slot = await session.exchange(Slot(*name, key="x\0", limit=1))
    other = (second.run, second.node, second.scope, second.lease)
    waiting = await session.exchange(Waiting(*other, kind="signal", key="y\0"))

    assert slot.results == ("held",)
    assert waiting.results == ("applied",)
    assert await store.read_steps("default", name[:3]) == {"s\0": b"1"}
    (found,) = await store.list_waiting("default", "signal", key="y\0")
    assert found.wait_key == "y\0"
    tokens = await store.read_tokens("default", first.run)
    assert [token.slot for token in tokens] == ["x\0", ""]


async def test_an_error_of_the_server_comes_with_its_code(opened: Opener) -> None:
    store = await opened()

    with pytest.raises(StoreError, match=r"\(22021\)"):
        await store.create_runs([new_run("a", workflow="w\0")])
