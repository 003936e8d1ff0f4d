"""What handlers log is kept with their nodes, apart from the history."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import minuet
from minuet import testing
from minuet.app import logs
from minuet.bridge.logs import LogReader, remove_old_logs
from minuet.errors import StoreUnavailableError
from minuet.ids import SystemIds
from minuet.nodes.kept_output import KeptStream
from minuet.store.records import CellChange
from minuet.worker import log_keeping

from ..scenario.harness import QUICK_RETRY, node, task, workflow
from ..waiting import until

DAY_MS = 86_400_000


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    """One kind of store: the lines are cells, and tests/store has those of every kind."""
    return f"sqlite:///{tmp_path}/runs.db"


@pytest.fixture(autouse=True)
def written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_keeping, "COLLECT_S", 0.001)
    monkeypatch.setattr(logs, "LATE_S", 0.1)


async def kept(scene: Any, run_id: str, count: int, node: str | None = None) -> list[Any]:
    """The lines of a run, once there are so many."""

    async def are_there() -> bool:
        return len(await scene.app.runs.logs(run_id, node)) >= count

    await until(scene.store, are_there)
    return list(await scene.app.runs.logs(run_id, node))


async def test_lines_are_kept_by_node_instance_and_attempt(scene: Any) -> None:
    def work(ctx: minuet.Context, item: int) -> int:
        ctx.log.debug("not kept")
        ctx.log.info("item %d", item)
        if item == 2 and ctx.attempt == 1:
            raise ConnectionError("again")
        return item

    async def end(ctx: minuet.Context) -> None:
        try:
            raise ValueError("odd")
        except ValueError:
            ctx.log.exception("it went wrong")

    document = workflow(
        task("work", config={"item": "{{ item }}"}, foreach={"items": [1, 2]}, retry=QUICK_RETRY),
        task("end", "work"),
    )
    async with scene({"work": work, "end": end}) as s:
        run = await s.app.start(document)
        await s.end(run)
        lines = await kept(s, run, 4)
        second = await s.app.runs.logs(run, "work[1]")
        with pytest.raises(minuet.RunError, match="no node 'wrok'"):
            await s.app.runs.logs(run, "wrok")

    told = sorted((one.node, one.scope, one.attempt, one.level, one.text) for one in lines[:-1])
    assert told == [
        ("work", "a0", 1, "info", "item 1"),
        ("work", "a1", 1, "info", "item 2"),
        ("work", "a1", 2, "info", "item 2"),
    ]
    assert [(one.attempt, one.text) for one in second] == [(1, "item 2"), (2, "item 2")]
    assert (lines[-1].node, lines[-1].level) == ("end", "error")
    assert lines[-1].text.startswith("it went wrong\nTraceback")
    assert lines[-1].text.endswith("ValueError: odd")


async def test_what_is_printed_is_kept_line_by_line_without_secrets(
    scene: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOKEN", "canary-value")

    async def work(ctx: minuet.Context) -> None:
        value = ctx.secret("TOKEN")
        print("one", end=" ")  # noqa: T201
        await asyncio.sleep(0)
        print("two\nthree", value)  # noqa: T201
        ctx.log.warning("said %s", value)
        print("and", end=" ")  # noqa: T201
        print("four", end="")  # noqa: T201

    async with scene({"work": work}) as s:
        monkeypatch.setattr(sys, "stdout", KeptStream(sys.stdout, "stdout"))
        print("outside")  # noqa: T201
        run = await s.app.start(workflow(task("work", secrets=["TOKEN"])))
        await s.end(run)
        lines = await kept(s, run, 4)

    assert [(one.level, one.text) for one in lines] == [
        ("stdout", "one two"),
        ("stdout", "three ***"),
        ("warning", "said ***"),
        ("stdout", "and four"),
    ]
    assert capsys.readouterr().out == "outside\none two\nthree canary-value\nand four"


async def test_an_attempt_keeps_a_bounded_amount_and_says_so(scene: Any) -> None:
    def work(ctx: minuet.Context) -> None:
        for _ in range(10):
            ctx.log.info("x" * 300)
        ctx.log.info("more")

    async with scene({"work": work}, log_bytes=1000) as s:
        run = await s.app.start(workflow(task("work")))
        await s.end(run)
        lines = await kept(s, run, 4)

    assert [len(one.text) for one in lines[:3]] == [300] * 3
    assert [(one.level, one.text) for one in lines[3:]] == [
        ("warning", "what follows is not kept: over 1000 bytes")
    ]


async def test_nothing_is_kept_if_nothing_may_be(scene: Any) -> None:
    def work(ctx: minuet.Context) -> None:
        ctx.log.info("x")

    async with scene({"work": work}, log_bytes=0) as s:
        run = await s.app.start(workflow(task("work")))
        await s.end(run)
        assert s.app.worker is not None
        assert await s.store.list_cells("logs/") == []


async def test_a_durable_function_says_each_thing_once_and_names_its_steps(scene: Any) -> None:
    @minuet.task(name="logs_step")
    async def step(number: int, ctx: minuet.Context | None = None) -> int:
        assert ctx is not None
        ctx.log.info("number %d", number)
        return number

    @minuet.workflow(name="logs_function")
    async def function(ctx: minuet.Flow) -> int:
        ctx.log.info("begins")
        found = await step(1)
        await ctx.sleep(0.01)
        ctx.log.info("goes on")
        return found

    async with scene() as s:
        run = await s.app.start(function)
        await s.end(run)
        lines = await kept(s, run, 3)

    assert [(one.step, one.text) for one in lines] == [
        ("", "begins"),
        ("logs_step", "number 1"),
        ("", "goes on"),
    ]


async def test_following_gives_all_lines_and_ends_with_the_run(scene: Any) -> None:
    async def work(ctx: minuet.Context) -> None:
        ctx.log.info("first")
        await go.wait()
        ctx.log.info("last")

    go = asyncio.Event()
    seen = []
    async with scene({"work": work}) as s:
        run = await s.app.start(workflow(task("work")))
        async for line in s.app.runs.follow_logs(run):
            seen.append(line.text)
            go.set()

    assert seen == ["first", "last"]


async def test_lines_are_deleted_with_their_run_and_when_they_are_old(scene: Any) -> None:
    def work(ctx: minuet.Context) -> None:
        ctx.log.info("x")

    async with scene({"work": work}) as s:
        runs = [await s.app.start(workflow(task("work"))) for _ in range(2)]
        for run in runs:
            await s.end(run)
            await kept(s, run, 1)
        await s.app.runs.delete([runs[0]])
        del s.store.runs[runs[0]]
        (left,) = await s.store.list_cells("logs/")
        (line,) = await s.app.runs.logs(runs[1])
        kept_then = await remove_old_logs(s.store, line.at_ms - DAY_MS)
        removed = await remove_old_logs(s.store, line.at_ms + DAY_MS)
        rest = await s.store.list_cells("logs/")

    assert runs[1] in left.name
    assert (kept_then, removed, rest) == (0, 1, [])


async def test_an_outage_repeats_nothing_and_loses_nothing(
    scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first write is made, and its answer is lost."""
    monkeypatch.setattr(log_keeping, "RETRY_S", 0.001)

    def work(ctx: minuet.Context) -> None:
        ctx.log.info("once")

    async with scene({"work": work}) as s:
        assert s.app.worker is not None
        store = s.app.worker._log_keeper._store
        answers = []
        write = store.write_cells

        async def lose_first(changes: Sequence[CellChange]) -> bool:
            answers.append(await write(changes))
            if len(answers) == 1:
                raise StoreUnavailableError("the answer was lost")
            return True

        monkeypatch.setattr(store, "write_cells", lose_first)
        run = await s.app.start(workflow(task("work")))
        await s.end(run)

        async def is_repeated() -> bool:
            return len(answers) >= 2

        await until(s.store, is_repeated)
        lines = await s.app.runs.logs(run)

    assert [one.text for one in lines] == ["once"]


async def test_lines_of_another_days_worker_are_found(scene: Any) -> None:
    """A run may take days; its lines lie in folders by day."""
    async with scene(worker=False) as s:
        run = await s.app.start(workflow(node("n")))
        row = await s.app.runs.get(run)
        later_ms = [row.created_ms]
        keeper = log_keeping.LogKeeper(
            s.store, row.tenant, SystemIds(), lambda: later_ms[0], 1000, 90 * DAY_MS
        )
        keeper.begin()
        for day in range(3):
            later_ms[0] = row.created_ms + day * DAY_MS
            keeper.add(testing.context(run_id=run), "info", f"day {day}")
        await keeper.finish()
        reader = LogReader(s.store, row.tenant, run, row.created_ms)
        lines = await reader.read(later_ms[0])
        again = await reader.read(later_ms[0])

    assert [one.text for _, one in lines] == ["day 0", "day 1", "day 2"]
    assert again == []
