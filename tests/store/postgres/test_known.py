"""Handing in what was just taken is one call, and is right also when the run has moved."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.clock import ManualClock
from minuet.errors import SessionError
from minuet.store.changes import Cancel, NewPlan
from minuet.store.exchange import Delivery, Held, Released
from minuet.store.postgres import PostgresStore
from minuet.store.records import Run

from .conftest import Opener, Session, done, new_run, schema_of, to


@pytest.fixture
async def queries(opened: Opener) -> tuple[PostgresStore, list[str]]:
    """A store with one connection, and what is said on it."""
    store = await opened()
    # The first time, the driver asks what the arguments' types are made of.
    await store.create_runs([new_run("a")])
    session = Session(store, "first")
    await session.exchange(*map(done, (await session.exchange(take=1)).granted))
    heard: list[str] = []
    (link,) = store._database._idle
    link.connection.add_query_logger(lambda record: heard.append(record.query))
    return store, heard


async def said(store: PostgresStore, heard: list[str]) -> list[str]:
    """What was said since the last time; a question makes sure that all of it was heard."""
    for _ in range(2):
        await store.read_run("default", "none")
    since = [query for query in heard if "tenant = $2" not in query]
    heard.clear()
    return since


async def test_the_result_of_what_was_just_taken_is_one_statement(
    queries: tuple[PostgresStore, list[str]],
) -> None:
    store, heard = queries
    (run,) = await store.create_runs([new_run("a", "b")])
    assert isinstance(run, Run)
    session = Session(store, "s")
    first, second = (await session.exchange(take=2)).granted
    await said(store, heard)

    reply = await session.exchange(done(first, to("c")), done(second, to("d")), take=2)

    assert reply.results == ("applied", "applied")
    assert [grant.node for grant in reply.granted] == ["c", "d"]
    assert [grant.inputs[0].node for grant in reply.granted] == ["a", "b"]
    assert reply.runs[run.run].input == b"null"
    (statement,) = await said(store, heard)
    assert "settle_rows" in statement


async def test_the_database_decides_about_the_time_of_what_is_handed_in_so(
    queries: tuple[PostgresStore, list[str]],
) -> None:
    store, heard = queries
    (run,) = await store.create_runs([new_run("a")])
    assert isinstance(run, Run)
    session = Session(store, "s")
    (first,) = (await session.exchange(take=1)).granted
    await said(store, heard)

    reply = await session.exchange(done(first, to("b")), take=1)
    await session.exchange(done(reply.granted[0]))

    assert len(await said(store, heard)) == 2
    snapshot = await store.read_snapshot("default", run.run)
    assert snapshot is not None
    times = [event.at_ms for event in snapshot.events]
    assert times == sorted(times)
    assert times[0] >= run.created_ms
    assert snapshot.run.ended_ms == times[-1]
    assert reply.granted[0].taken_ms == reply.now_ms == times[2]


async def test_a_run_that_another_worker_moved_is_loaded_again(opened: Opener) -> None:
    here, elsewhere = await opened(), await opened()
    (run,) = await here.create_runs([new_run("a", "b")])
    assert isinstance(run, Run)
    one, two = Session(here, "one"), Session(elsewhere, "two")
    (first,) = (await one.exchange(take=1)).granted
    (second,) = (await two.exchange(take=1)).granted
    await two.exchange(done(second))

    assert (await one.exchange(done(first))).results == ("applied",)

    snapshot = await here.read_snapshot("default", run.run)
    assert snapshot is not None
    assert snapshot.run.status == "COMPLETED"
    assert [event.seq for event in snapshot.events] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("change", "result"), [(Cancel(), "closed"), (NewPlan("other"), "replan")])
async def test_a_run_that_was_changed_from_outside_is_judged_as_it_is_now(
    opened: Opener, change: Any, result: str
) -> None:
    here, elsewhere = await opened(), await opened()
    (run,) = await here.create_runs([new_run("a")])
    assert isinstance(run, Run)
    session = Session(here, "s")
    (grant,) = (await session.exchange(take=1)).granted
    await elsewhere.change_run("default", run.run, change)

    assert (await session.exchange(done(grant))).results == (result,)


async def test_a_lease_that_ran_out_does_not_come_back(opened: Opener) -> None:
    clock = ManualClock()
    here, elsewhere = await opened(clock), await opened(clock)
    await here.create_runs([new_run("a")])
    one, two = Session(here, "one"), Session(elsewhere, "two")
    (old,) = (await one.exchange(take=1)).granted
    clock.advance(60_000)
    await elsewhere.sweep()
    (new,) = (await two.exchange(take=1)).granted

    assert (await one.exchange(done(old))).results == ("stale",)
    assert (await two.exchange(done(new))).results == ("applied",)


async def test_a_token_that_is_there_already_is_not_made_again(opened: Opener) -> None:
    store = await opened()
    (run,) = await store.create_runs([new_run("a", "b")])
    assert isinstance(run, Run)
    session = Session(store, "s")
    first, second = (await session.exchange(take=2)).granted
    (third,) = (await session.exchange(done(first, to("c")), take=1)).granted

    reply = await session.exchange(done(second, to("c")), take=1)

    assert (reply.results, reply.granted) == (("applied",), ())
    assert (await session.exchange(done(third))).results == ("applied",)
    ended = await store.read_run("default", run.run)
    assert ended is not None
    assert ended.status == "COMPLETED"


async def test_a_session_that_was_forgotten_elsewhere_is_refused(
    opened: Opener, admin: Any, url: str
) -> None:
    store = await opened()
    await store.create_runs([new_run("a")])
    session = Session(store, "s")
    (grant,) = (await session.exchange(take=1)).granted
    await admin.execute(f"DELETE FROM {schema_of(url)}.sessions")

    with pytest.raises(SessionError, match="session s: call 2 after 0"):
        await session.exchange(done(grant))


async def test_a_token_that_changed_hands_without_an_event_is_judged_as_it_is_now(
    opened: Opener,
) -> None:
    store = await opened()
    await store.create_runs([new_run("a")])
    one, two = Session(store, "one"), Session(store, "two")
    (old,) = (await one.exchange(take=1)).granted
    name = (old.run, old.node, old.scope, old.lease)
    assert (await two.exchange(Released(*name))).results == ("applied",)
    (new,) = (await two.exchange(take=1)).granted

    assert (await one.exchange(done(old, plan="other"))).results == ("stale",)
    assert (await one.exchange(done(new))).results == ("applied",)


async def test_a_token_whose_row_has_moved_is_found_again(
    queries: tuple[PostgresStore, list[str]],
) -> None:
    store, heard = queries
    await store.create_runs([new_run("a"), new_run("b")])
    session = Session(store, "s")
    first, second = (await session.exchange(take=2)).granted
    held = Held(first.run, first.node, first.scope, first.lease)
    assert (await session.exchange(renew=(held,))).revoked == ()
    await said(store, heard)

    assert (await session.exchange(done(first))).results == ("applied",)
    assert not any("settle_rows" in query for query in await said(store, heard))
    assert (await session.exchange(done(second))).results == ("applied",)
    assert len(await said(store, heard)) == 1


def to_join(total: int, **fields: Any) -> Delivery:
    """A delivery to the node `join`, which so many arrive at."""
    return to("join", need=total, total=total, **fields)


async def joins_of(store: PostgresStore, run: str) -> list[tuple[int, bool]]:
    """How many have arrived at the joins of a run, and whether they have fired."""
    snapshot = await store.read_snapshot("default", run)
    assert snapshot is not None
    return [(join.live, join.fired) for join in snapshot.joins]


async def test_an_arrival_at_a_join_that_is_known_is_one_statement(
    queries: tuple[PostgresStore, list[str]],
) -> None:
    store, heard = queries
    (run,) = await store.create_runs([new_run(*"abcd")])
    assert isinstance(run, Run)
    session = Session(store, "s")
    first, second, third, fourth = (await session.exchange(take=4)).granted
    # The join is loaded for this one. Something is granted, so that the run stays known.
    reply = await session.exchange(done(first, to_join(4), to("e")), take=1)
    await said(store, heard)

    await session.exchange(done(second, to_join(4)), done(third, to_join(4)))
    assert await joins_of(store, run.run) == [(3, False)]
    reply = await session.exchange(done(reply.granted[0]), done(fourth, to_join(4)), take=1)

    assert [grant.node for grant in reply.granted] == ["join"]
    statements = [query for query in await said(store, heard) if "settle_rows" in query]
    assert len(statements) == 2
    assert await joins_of(store, run.run) == [(4, True)]
    snapshot = await store.read_snapshot("default", run.run)
    assert snapshot is not None
    assert sorted(arrival.source for arrival in snapshot.arrivals) == [*"abcd"]


async def test_items_that_are_counted_at_a_join_are_one_statement(
    queries: tuple[PostgresStore, list[str]],
) -> None:
    store, heard = queries
    await store.create_runs([new_run("item")])
    session = Session(store, "s")
    # The list, which arrives first, and two of four items.
    begun = [to("item", ",0"), to("item", ",1"), to("gather", need=5, total=5)]
    (first,) = (await session.exchange(take=1)).granted
    granted = (await session.exchange(done(first, *begun), take=2)).granted
    counted = to("gather", need=5, total=5, window=2)
    await said(store, heard)

    granted = (await session.exchange(*(done(one, counted) for one in granted), take=2)).granted
    assert [one.node for one in granted] == ["item", "item"]
    granted = (await session.exchange(*(done(one, counted) for one in granted), take=2)).granted

    assert [one.node for one in granted] == ["gather"]
    assert ["settle_rows" in query for query in await said(store, heard)] == [True, True]


async def test_a_join_that_another_worker_also_changes_counts_every_arrival(
    opened: Opener,
) -> None:
    here, elsewhere = await opened(), await opened()
    (run,) = await here.create_runs([new_run(*"abcdef")])
    assert isinstance(run, Run)
    one, two = Session(here, "one"), Session(elsewhere, "two")
    first, second, third = (await one.exchange(take=3)).granted
    others = (await two.exchange(take=3)).granted
    (more,) = (await one.exchange(done(first, to_join(6), to("g")), take=1)).granted
    await two.exchange(done(others[0], to_join(6), to("h")), done(others[1], to_join(6)))

    # What the first one knows of the run is new then, and what it knows of the join is old.
    (again,) = (await one.exchange(take=1)).granted
    await one.exchange(done(second, to_join(6)), done(more), done(again))
    await two.exchange(done(others[2], to_join(6)))
    await one.exchange(done(third, to_join(6)))

    assert await joins_of(here, run.run) == [(6, True)]
