"""What a record does costs the same however much it has kept: no statement walks over all of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from tests import servers

from minuet.store.postgres.log import PostgresLog
from minuet.store.postgres.statements import in_schema, statement

#: Enough for the planner to prefer an index, where it can use one.
KEPT = 20_000

HOUR_MS = 3_600_000


class FullRecord:
    """A record that has ended a run every minute, and deleted another, for two weeks."""

    def __init__(self, connection: Any, schema: str) -> None:
        self._connection = connection
        self._schema = schema

    async def fill(self) -> None:
        await self._run(
            "INSERT INTO minuet.record_deleted (run, tenant, deleted_at) "
            "SELECT 'd' || i, 'default', now() - i * interval '1 minute' "
            f"FROM generate_series(1, {KEPT}) AS i"
        )
        await self._run(
            "INSERT INTO minuet.record_runs "
            "(run, tenant, workflow, status, seq, hash, state, input, submitted_ms, ended_ms) "
            "SELECT 'r' || lpad(i::text, 9, '0'), 'default', 'w', 'COMPLETED', 1, sha256(''), '', "
            f"'', 1, floor(extract(epoch FROM now()) * 1000) - ({KEPT} - i) * 60000 "
            f"FROM generate_series(1, {KEPT}) AS i"
        )
        await self._run("ANALYZE minuet.record_runs")
        await self._run("ANALYZE minuet.record_deleted")

    async def _run(self, text: str) -> None:
        await self._connection.execute(in_schema(text, self._schema))

    async def plan(self, name: str, *arguments: Any) -> str:
        """How the server would execute a statement."""
        text = "EXPLAIN " + in_schema(statement(name), self._schema)
        return "\n".join(row[0] for row in await self._connection.fetch(text, *arguments))


@pytest.fixture
async def record() -> AsyncIterator[FullRecord]:
    url = servers.new_postgres_url()
    log = PostgresLog(url)
    await log.open()
    await log.close()
    address, _, schema = url.partition("?schema=")
    connection = await asyncpg.connect(address)
    record = FullRecord(connection, schema)
    await record.fill()
    yield record
    await connection.close()


async def test_deleting_runs_does_not_walk_over_the_names_of_all_deleted_ones(
    record: FullRecord,
) -> None:
    plan = await record.plan("delete_record_runs", "default", ["r000000001"])

    assert "record_deleted_oldest" in plan
    assert "Seq Scan on record_deleted" not in plan


async def test_finding_what_was_deleted_lately_begins_with_the_latest(record: FullRecord) -> None:
    plan = await record.plan("list_record_deleted", HOUR_MS, 100)

    assert "Scan Backward using record_deleted_oldest" in plan


async def test_comparing_with_a_hot_store_does_not_walk_over_all_runs_that_ever_ended(
    record: FullRecord,
) -> None:
    plan = await record.plan("list_logged", "", HOUR_MS, 200)

    assert "record_runs_open" in plan
    assert "record_runs_ended" in plan
    assert "record_runs_pkey" not in plan


async def test_continuing_runs_finds_them_by_their_names(record: FullRecord) -> None:
    run = "r000000001"
    event = ([run], [2], [1], [b"{}"], [b"h"])
    row = ([run], [1], [b"h"], ["w"], ["RUNNING"], [2], [b"h"], [b""], [None])

    plan = await record.plan("continue_record", "on", *event, *row)

    assert "record_runs_pkey" in plan
    assert "Seq Scan on record_runs" not in plan
