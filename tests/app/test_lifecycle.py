"""An App that is not open says so, at once and in words."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import minuet
from minuet.app.app import App
from minuet.errors import NotOpenError, StoreUnavailableError

DOCUMENT = {"name": "plain", "nodes": [{"id": "only", "type": "noop"}]}

CALLS: dict[str, Any] = {
    "start": lambda app: app.start(DOCUMENT),
    "start_many": lambda app: app.start_many(DOCUMENT, [1]),
    "create": lambda app: app.runs.create(DOCUMENT),
    "trigger": lambda app: app.runs.trigger("x"),
    "run": lambda app: app.run(DOCUMENT),
    "wait": lambda app: app.wait("x"),
    "wait_ended": lambda app: app.runs.wait_ended("x"),
    "follow": lambda app: anext(app.follow("x")),
    "cancel": lambda app: app.cancel("x"),
    "pause": lambda app: app.runs.pause("x"),
    "resume": lambda app: app.runs.resume("x"),
    "retry": lambda app: app.runs.retry("x"),
    "why": lambda app: app.runs.explain("x", "only"),
    "open_runs": lambda app: app.runs.list_open(),
    "moved_store": lambda app: app.runs.moved_store(),
    "prepare": lambda app: app.runs.prepare([]),
    "runs": lambda app: app.runs.get("x"),
    "fleet": lambda app: app.workers.list(),
    "doctor": lambda app: app.doctor.sweep(),
}


@pytest.mark.parametrize("name", CALLS)
async def test_an_app_that_was_not_opened_says_how_to_open_it(store_url: str, name: str) -> None:
    with pytest.raises(NotOpenError, match=r"was not opened: use it inside `async with"):
        await CALLS[name](App(store_url))


@pytest.mark.parametrize("name", CALLS)
async def test_an_app_that_was_closed_says_so(name: str) -> None:
    async with App("memory://") as app:
        pass

    with pytest.raises(NotOpenError, match=r"is closed: use it inside"):
        await CALLS[name](app)


async def test_a_part_that_was_kept_says_that_the_store_is_closed(tmp_path: Any) -> None:
    async with App(f"sqlite:///{tmp_path}/runs.db") as app:
        runs = app.runs

    with pytest.raises(StoreUnavailableError, match="the store is closed"):
        await runs.list()


async def test_closing_ends_the_waiting_of_others(store_url: str) -> None:
    app = App(store_url, worker=False)
    await app.open()
    run_id = await app.start(DOCUMENT)
    waiting = asyncio.create_task(app.wait(run_id))
    following = asyncio.create_task(_last(app, run_id))
    await asyncio.sleep(0)
    await app.close()

    for task in (waiting, following):
        with pytest.raises((NotOpenError, StoreUnavailableError)):
            await task


async def _last(app: App, run_id: str) -> None:
    async for _ in app.follow(run_id):
        pass


async def test_opening_twice_is_refused_and_closing_twice_is_not(store_url: str) -> None:
    async with App(store_url) as app:
        with pytest.raises(NotOpenError, match="open already"):
            await app.open()
        assert (await app.run(DOCUMENT, timeout=60)).status == "COMPLETED"
        await app.close()
        await app.close()
    await App(store_url).close()


async def test_an_app_can_be_opened_again(store_url: str) -> None:
    app = App(store_url)
    for _ in range(2):
        async with app:
            assert (await app.run(DOCUMENT, timeout=60)).status == "COMPLETED"


async def test_an_app_that_could_not_be_opened_can_be_tried_again(tmp_path: Any) -> None:
    app = App(f"sqlite:///{tmp_path}/later/runs.db")
    with pytest.raises(minuet.MinuetError):
        await app.open()
    (tmp_path / "later").mkdir()

    async with app:
        assert (await app.run(DOCUMENT, timeout=60)).status == "COMPLETED"


def test_an_app_belongs_to_the_loop_that_opened_it() -> None:
    app = App("memory://", worker=False)
    asyncio.run(app.open())

    with pytest.raises(NotOpenError, match="another event loop"):
        asyncio.run(app.start(DOCUMENT))


async def test_run_says_what_to_use_inside_an_event_loop() -> None:
    with pytest.raises(RuntimeError, match=r"await minuet\.arun\(…\)"):
        minuet.run(DOCUMENT)
