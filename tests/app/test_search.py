"""Runs are found by filters and counted over time, on a store in memory."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.app import search
from minuet.app.app import App
from minuet.clock import ManualClock
from minuet.errors import InputError
from minuet.ids import SeededIds

ECHO = {
    "name": "echo",
    "output": "{{ only.output }}",
    "nodes": [{"id": "only", "type": "transform", "config": {"value": "{{ input }}"}}],
}
WAITING = {
    "name": "waiting",
    "nodes": [{"id": "gate", "type": "wait", "config": {"signal": "go"}}],
}


async def completed(app: App, *inputs: Any) -> list[str]:
    started = await app.start_many(ECHO, inputs)
    for run in started:
        await run.wait()
    return [str(run) for run in started]


async def test_runs_are_found_by_what_they_have() -> None:
    async with App("memory://", ids=SeededIds()) as app:
        first, second = await completed(app, {"a": "acme"}, {"a": "other"})
        waiting = await app.start(WAITING, tags={"team": "blue"})

        async def found(query: str) -> list[str]:
            return [run.run for run in (await app.runs.search(query)).runs]

        assert await found("") == [waiting, second, first]
        assert await found("acme") == [first]
        assert await found("status:running") == [waiting]
        assert await found("tag:team:blue") == [waiting]
        assert await found("workflow:echo -acme") == [second]
        assert await found("output:acme") == [first]
        assert await found("-output:acme workflow:echo") == [second]
        assert await found("status:failed") == []
        assert await found("until:2020-01-01") == []


async def test_a_search_says_how_far_it_looked_and_goes_on_from_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "SEARCHED_MAX", 3)
    async with App("memory://", ids=SeededIds()) as app:
        runs = await completed(app, *({"n": f"n{number}"} for number in range(5)))

        first = await app.runs.search("input:n0")
        second = await app.runs.search("input:n0", before=first.next)

    assert (first.runs, first.searched, first.next) == ((), 3, runs[2])
    assert first.back_to_ms is not None
    assert [run.run for run in second.runs] == [runs[0]]
    assert (second.next, second.back_to_ms) == (None, None)


async def test_reading_outputs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "EVENTS_MAX", 5)
    async with App("memory://") as app:
        await completed(app, 1, 2, 3, 4)
        found = await app.runs.search("nowhere")

    assert 0 < found.outputs < 4
    assert found.next is not None


async def test_a_page_that_holds_all_has_no_next_one() -> None:
    async with App("memory://") as app:
        await completed(app, 1, 2)

        assert (await app.runs.search(limit=2)).next is None
        assert (await app.runs.search(limit=1)).next is not None


async def test_children_are_found_by_their_parent() -> None:
    document = {
        "name": "parent",
        "nodes": [
            {"id": "one", "type": "workflow", "config": {"workflow": "echo", "input": 1}},
            {"id": "two", "type": "workflow", "config": {"workflow": "echo", "input": 2}},
        ],
    }
    async with App("memory://") as app:
        await app.workflows.deploy(ECHO)
        await completed(app, "older")
        parent = await app.start(document)
        await parent.wait()
        await completed(app, "newer")
        found = await app.runs.search(f"parent:{parent}")

    assert {run.parent for run in found.runs} == {str(parent)}
    assert len(found.runs) == 2
    # Ids of a family begin alike: other runs are hardly looked at.
    assert found.searched <= 4


async def test_runs_are_counted_over_time() -> None:
    async with App("memory://") as app:
        await completed(app, 1, 2, 3)
        await app.start(WAITING)
        now = await app.runs.histogram("age<1h", buckets=6)
        before = await app.runs.histogram("since:2h until:1h", buckets=6)
        waiting = await app.runs.histogram("workflow:waiting")

    assert now.counts == {"COMPLETED": 3, "RUNNING": 1}
    assert [bool(one.counts) for one in now.buckets] == [False] * 5 + [True]
    assert (now.bucket_ms, now.counted, now.back_to_ms) == (600_000, 4, None)
    assert before.counts == {}
    assert waiting.counts == {"RUNNING": 1}
    assert len(waiting.buckets) == 60


async def test_a_histogram_that_is_cut_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "COUNTED_MAX", 2)
    async with App("memory://") as app:
        await completed(app, 1, 2, 3)
        found = await app.runs.histogram()

    assert found.counted == 2
    assert found.back_to_ms is not None


async def test_a_histogram_of_no_time_or_of_outputs_is_refused() -> None:
    async with App("memory://", worker=False) as app:
        for query in ("age>1h age<30m", "output:x"):
            with pytest.raises(InputError):
                await app.runs.histogram(query)


async def test_times_are_those_of_the_store_even_if_ids_have_others() -> None:
    clock = ManualClock(1_000_000_000_000)
    async with App("memory://", worker=False, clock=clock) as app:
        old = await app.start(WAITING)
        clock.advance(3 * 3_600_000)
        new = await app.start(WAITING)

        assert [run.run for run in (await app.runs.search("age<1h")).runs] == [new]
        assert [run.run for run in (await app.runs.search("age>1h")).runs] == [old]


async def test_every_store_finds_and_counts(
    store_url: str,
) -> None:
    async with App(store_url) as app:
        (run,) = await completed(app, {"who": "acme"})

        assert [one.run for one in (await app.runs.search("acme age<1h")).runs] == [run]
        assert (await app.runs.histogram("status:completed")).counts == {"COMPLETED": 1}
