"""Through a real PgBouncer. What the store means there is in the conformance suite; these tests are
about many clients at once, and about URLs that do not say that there is a pooler."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest
from tests import pooler, servers
from tests.fault import workload
from tests.fault.outcome import final_state, undisturbed

from minuet.app.app import App
from minuet.errors import StoreUnusableError
from minuet.store.postgres import PostgresStore

#: Only where PgBouncer is to be had.
POOLERS = ["pgbouncer"] if pooler.program() is not None else []

APPS = 3
RUNS = 3


@pytest.fixture(params=POOLERS)
def transaction_mode(request: pytest.FixtureRequest) -> pooler.PgBouncer:
    return servers.pooler()


@pytest.fixture(params=POOLERS)
def start(request: pytest.FixtureRequest) -> Iterator[Callable[..., pooler.PgBouncer]]:
    """Start a pooler with these settings."""
    started = []

    def start_pooler(**settings: str) -> pooler.PgBouncer:
        folder = Path(tempfile.mkdtemp(prefix="minuet-"))
        os.chmod(folder, 0o755)
        server = pooler.PgBouncer(folder, servers.postgres(), **settings)
        started.append(server)
        server.start()
        return server

    yield start_pooler
    for server in started:
        server.kill()
        shutil.rmtree(server.folder)


async def test_workers_that_share_few_connections_finish_every_run(
    transaction_mode: pooler.PgBouncer,
) -> None:
    url = servers.pooled_url()
    document = workload.small()
    expected = final_state(await asyncio.to_thread(undisturbed, document))
    apps = [App(url, handlers=[workload], concurrency=8) for _ in range(APPS)]
    async with apps[0], apps[1], apps[2]:
        # All of them together have more connections than the pooler.
        started = await asyncio.gather(
            *(app.start_many(document, [{"seed": 1}] * RUNS) for app in apps)
        )
        runs = [run for of_app in started for run in of_app]
        for app in apps:
            await app.runs.prepare(await app.runs.list_open())
        await asyncio.gather(*(apps[0].wait(run, timeout=120) for run in runs))
        for run in runs:
            assert final_state(await apps[0].runs.show(run)) == expected
        async for run_id, findings in apps[0].doctor.examine():
            assert not findings, run_id


async def test_a_pooler_that_nobody_mentioned_is_refused_in_one_sentence(
    transaction_mode: pooler.PgBouncer,
) -> None:
    store = PostgresStore(transaction_mode.url("unmentioned", pooler=""))

    with pytest.raises(StoreUnusableError) as refused:
        await store.open()

    assert str(refused.value) == (
        f"postgresql://127.0.0.1:{transaction_mode.port}/postgres: there is a pooler in between "
        "that gives each transaction another connection: add pooler=transaction to the URL, or "
        "set the pooler to session mode"
    )
    assert not store._database._links


async def test_a_statement_that_was_prepared_elsewhere_is_the_same_sentence(
    start: Callable[..., pooler.PgBouncer],
) -> None:
    taking_turns = start(server_round_robin="1")
    url = taking_turns.url("unmentioned", pooler="")
    both = [await asyncpg.connect(url.partition("?")[0]) for _ in range(2)]
    for one in both:
        await one.execute("BEGIN")
    # Now the pooler has two connections, and the next statements go to one after the other.
    for one in both:
        await one.execute("COMMIT")
        await one.close()

    with pytest.raises(StoreUnusableError, match="add pooler=transaction to the URL"):
        await PostgresStore(url).open()


async def test_a_pooler_in_session_mode_needs_no_mention(
    start: Callable[..., pooler.PgBouncer],
) -> None:
    url = start(pool_mode="session").url("session_mode", pooler="")
    async with App(f"{url}&connections=2", handlers=[workload]) as app:
        (run,) = await app.start_many(workload.small(), [{"seed": 1}])
        assert (await app.wait(run, timeout=60)).status == "COMPLETED"
