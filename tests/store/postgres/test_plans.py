"""A large join costs the same for each arrival, also while the server knows no statistics."""

from __future__ import annotations

from typing import Any

from .conftest import Opener, Session, done, new_run, schema_of, to

WIDTH = 1000


async def test_a_join_reads_each_row_a_few_times_whatever_the_server_knows(
    opened: Opener, admin: Any, url: str
) -> None:
    store = await opened()
    await store.create_runs([new_run(*(f"n{number:04d}" for number in range(WIDTH)))])
    session = Session(store, "s")
    granted = (await session.exchange(take=WIDTH)).granted
    join = to("join", need=WIDTH, total=WIDTH)
    await session.exchange(*(done(grant, join) for grant in granted))

    (grant,) = (await session.exchange(take=1)).granted

    assert len(grant.inputs) == WIDTH
    await store.close()
    # The processes that served the store tell what they have read when they end.
    read = 0
    while read < WIDTH:
        read = await admin.fetchval(
            "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint"
            " FROM pg_stat_user_tables WHERE schemaname = $1",
            schema_of(url),
        )
    assert read < 50 * WIDTH
