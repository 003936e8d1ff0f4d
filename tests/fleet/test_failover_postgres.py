"""A standby takes over from a PostgreSQL server that is killed under load.

With a synchronous standby nothing is lost that anybody could have seen. With an asynchronous one
the last transactions are: what is left is a beginning of every history, sound, and it goes on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fault import workload
from tests.fault.outcome import final_state, undisturbed
from tests.proxy import Proxy
from tests.standby import FAST, Standby, ask
from tools.services import HOST, Postgres

from minuet.app.app import App
from minuet.errors import RunNotFoundError, StoreUnavailableError, StoreUnusableError
from minuet.store.postgres import PostgresStore

RUNS = int(os.environ.get("MINUET_TEST_BLOWS", "8"))
LEASE_MS = 1_000

#: Long enough for a server to take over, on a busy machine.
SECONDS_MAX = 120

#: Everything that happened, by run and number.
History = dict[tuple[str, int], bytes]

_log = logging.getLogger(__name__)


@pytest.fixture
def pair() -> Iterator[Callable[..., tuple[Postgres, Standby]]]:
    """Start a server with these settings, and a standby that follows it."""
    folder = Path(tempfile.mkdtemp(prefix="minuet-"))
    os.chmod(folder, 0o755)
    started: list[Postgres] = []

    def start(**settings: str) -> tuple[Postgres, Standby]:
        primary = Postgres(folder / "primary", **FAST, **settings)
        standby = Standby(folder / "standby", primary, **FAST)
        for server in (primary, standby):
            started.append(server)
            server.start()
        return primary, standby

    yield start
    for server in started:
        server.kill()
    shutil.rmtree(folder)


def both(*servers: Postgres) -> str:
    """A URL that names several servers."""
    places = ",".join(f"{HOST}:{server.port}" for server in servers)
    return f"postgresql://postgres@{places}/postgres"


async def history(server: Postgres) -> History:
    rows = await ask(
        server,
        "SELECT r.run, e.seq, e.data FROM minuet.events AS e JOIN minuet.runs AS r"
        " ON r.id = e.run_id",
    )
    return {(run, seq): data for run, seq, data in rows}


def app_on(url: str) -> App:
    return App(
        url, handlers=[workload], lease_seconds=LEASE_MS / 1000, crashes_max=1000, concurrency=8
    )


async def completed(app: App, count: int) -> None:
    """Wait until the App's worker has completed so many nodes."""
    async with asyncio.timeout(SECONDS_MAX):
        while app.worker is None or app.worker.counts.completed < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def check_all_sound(app: App) -> None:
    async for run_id, findings in app.doctor.examine():
        assert not findings, run_id


@pytest.mark.slow
async def test_with_a_synchronous_standby_nothing_that_was_seen_is_lost(pair: Any) -> None:
    expected = final_state(await asyncio.to_thread(undisturbed, workload.small()))
    primary, standby = await asyncio.to_thread(lambda: pair(synchronous_standby_names="*"))
    async with app_on(both(primary, standby)) as app:
        runs = await app.start_many(workload.small(), [{"seed": 1}] * RUNS)
        await completed(app, 3 * RUNS)
        seen = await history(primary)
        await asyncio.to_thread(primary.kill)
        kept = await history(standby)
        await standby.promote()

        # The same App goes on: nobody had to start anything again.
        for run in runs:
            await app.wait(run, timeout=SECONDS_MAX)
            assert final_state(await app.runs.show(run)) == expected
        await check_all_sound(app)
    assert seen.items() <= kept.items()
    assert len(seen) > len(runs)


@pytest.mark.slow
async def test_what_an_asynchronous_standby_has_is_a_beginning_and_goes_on(pair: Any) -> None:
    expected = final_state(await asyncio.to_thread(undisturbed, workload.small()))
    primary, standby = await asyncio.to_thread(pair)
    async with app_on(both(primary, standby)) as app:
        runs = await app.start_many(workload.small(), [{"seed": 1}] * RUNS)
        await completed(app, 2 * RUNS)
        await standby.catch_up()
        await standby.stop_following()
        lost = await app.start(workload.small(), {"seed": 1})
        await completed(app, 4 * RUNS)
        before = await history(primary)
        await asyncio.to_thread(primary.kill)
        kept = await history(standby)
        await standby.promote()

        for run in runs:
            await app.wait(run, timeout=SECONDS_MAX)
            assert final_state(await app.runs.show(run)) == expected
        with pytest.raises(RunNotFoundError):
            await app.runs.show(lost)
        await check_all_sound(app)
    assert kept.items() < before.items()
    by_run: dict[str, list[int]] = {}
    for name, seq in sorted(kept):
        by_run.setdefault(name, []).append(seq)
    assert set(by_run) == set(runs)
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in by_run.values())
    _log.info("%d of %d events were lost", len(before) - len(kept), len(before))


async def test_a_standby_is_refused_at_the_start_and_waited_for_later(pair: Any) -> None:
    primary, standby = await asyncio.to_thread(pair)
    only = f"postgresql://{HOST}:{standby.port}/postgres: none of these"
    with pytest.raises(StoreUnusableError, match="is a replica: name the primary server"):
        await PostgresStore(standby.url).open()
    with pytest.raises(StoreUnavailableError, match="none of these servers is a primary") as none:
        await PostgresStore(both(standby, standby)).open()
    assert only.partition("/postgres")[0] in str(none.value)

    # A name that follows the primary, and comes to the other one first.
    name = await Proxy.to(primary.port)
    store = PostgresStore(primary.url.replace(str(primary.port), str(name.port)))
    await store.open()
    await store.put_blob(b"before")
    name.move(standby.port)
    with pytest.raises(StoreUnavailableError, match="is a replica"):
        await store.put_blob(b"meanwhile")
    name.move(primary.port)
    await store.put_blob(b"after")
    # In whichever order they are named, the primary is found.
    either = PostgresStore(both(standby, primary))
    await either.open()
    await either.put_blob(b"found")
    await either.close()
    await store.close()
    await name.close()
