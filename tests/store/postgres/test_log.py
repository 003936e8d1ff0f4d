"""Events that continue what one process has recorded go another way than others: it leads to the
same, also when somebody else was faster."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests import servers

from minuet.errors import MinuetError
from minuet.events import RunCreated, decode_event, encode_event
from minuet.store.changes import NewRun
from minuet.store.logged.base import Unlogged
from minuet.store.postgres import PostgresStore
from minuet.store.postgres.log import PostgresLog
from minuet.store.records import DEFAULT_TENANT, EventRecord, Run

Logs = tuple[PostgresLog, PostgresLog]


@pytest.fixture
async def logs() -> AsyncIterator[Logs]:
    """Two processes that record the same runs."""
    url = servers.postgres_url()
    pair = (PostgresLog(url), PostgresLog(url))
    for log in pair:
        await log.open()
    yield pair
    for log in pair:
        await log.close()


def found(*events: str, after: int = 0, ended: bool = False) -> Unlogged:
    """A run with these events (told by a name) that are not known to be recorded."""
    records = tuple(
        EventRecord("r", seq, seq, encode_event(RunCreated(name, "p")))
        for seq, name in enumerate(events, after + 1)
    )
    run = Run("r", DEFAULT_TENANT, "w", "p", seq=after + len(events), status="RUNNING")
    if ended:
        run.status, run.ended_ms = "COMPLETED", 1
    return Unlogged(run, after, records)


async def recorded(log: PostgresLog) -> list[str]:
    assert await log.find_break(DEFAULT_TENANT, "r") is None
    events = await log.read_events(DEFAULT_TENANT, "r")
    return [getattr(decode_event(event.data), "workflow", "") for event in events]


async def test_events_that_continue_are_recorded_in_one_statement(logs: Logs) -> None:
    here, elsewhere = logs
    assert await here.append([found("a", "b")]) == ["logged"]
    assert here._last["r"][0] == 2

    assert await here._continue([found("c", after=2)]) == {"r"}
    assert await here.append([found("d", "e", after=3)]) == ["logged"]

    assert here._last["r"][0] == 5
    assert await recorded(elsewhere) == ["a", "b", "c", "d", "e"]
    row = await elsewhere.read_run(DEFAULT_TENANT, "r")
    assert row is not None
    assert row.seq == 5


async def test_what_somebody_else_has_recorded_is_not_recorded_again(logs: Logs) -> None:
    here, elsewhere = logs
    await here.append([found("a", "b")])
    await elsewhere.append([found("c", after=2)])

    assert await here.append([found("c", "d", after=2)]) == ["logged"]

    assert await recorded(here) == ["a", "b", "c", "d"]


async def test_what_does_not_continue_is_refused(logs: Logs) -> None:
    here, elsewhere = logs
    await here.append([found("a", "b")])
    await elsewhere.append([found("c", after=2)])

    assert await here.append([found("another", after=2)]) == ["forked"]

    assert await recorded(here) == ["a", "b", "c"]


async def test_a_run_that_was_deleted_elsewhere_is_not_continued(logs: Logs) -> None:
    here, elsewhere = logs
    await here.append([found("a", "b")])
    await elsewhere.append([found("c", after=2, ended=True)])
    assert await elsewhere.delete_runs(DEFAULT_TENANT, ["r"]) == 1

    assert await here.append([found("c", after=2)]) == ["deleted"]

    assert await recorded(here) == []


async def test_a_log_that_is_closed_says_so(logs: Logs) -> None:
    here, _ = logs
    await here.append([found("a", "b")])
    await here.close()

    with pytest.raises(MinuetError, match="closed"):
        await here.append([found("c", after=2)])
    await here.open()


async def test_a_store_and_a_record_in_one_schema_keep_each_others_plans() -> None:
    url = servers.postgres_url()
    store, log = PostgresStore(url), PostgresLog(url)
    for half in (store, log):
        await half.open()
    await log.append([found("a")])
    await log.submit([NewRun("submitted", "w", "p2")])
    await store.create_runs([NewRun("own", "w", "p3", entries=None)])

    for half in (store, log):
        plans: set[str] = set()
        after = ""
        while True:
            page, after = await half.list_plans(DEFAULT_TENANT, after=after, limit=1)
            plans.update(page)
            if not after:
                break
        assert plans == {"p", "p2", "p3"}
        await half.close()
