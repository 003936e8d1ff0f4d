"""A run is read as it was at one moment, in one statement."""

from __future__ import annotations

from minuet.store.records import Run

from .conftest import Opener, Session, done, new_run, to


async def test_the_first_thing_that_a_connection_reads_is_a_snapshot(opened: Opener) -> None:
    writer = await opened()
    (run,) = await writer.create_runs([new_run("a", "b")])
    assert isinstance(run, Run)
    session = Session(writer, "s")
    (grant,) = (await session.exchange(take=1)).granted
    await session.exchange(done(grant, to("c")))
    reader = await opened()
    (link,) = reader._database._idle
    heard: list[str] = []
    link.connection.add_query_logger(lambda record: heard.append(record.query))

    found = await reader.read_snapshot("default", run.run)

    assert found is not None
    assert found == await writer.read_snapshot("default", run.run)
    assert found.run.status == "RUNNING"
    assert {token.node: token.state for token in found.tokens} == {
        "a": "done",
        "b": "ready",
        "c": "ready",
    }
    assert await reader.read_snapshot("other", run.run) is None
    # No question about types, and no transaction around it. The second one is the last that is
    # heard for sure.
    assert "UNION ALL" in heard[0]
    assert set(heard) == {heard[0]}
