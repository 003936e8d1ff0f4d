"""Redrives: a server retries many dead letters at a pace, whoever looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from minuet.app.app import App
from minuet.app.redrives import (
    CHUNK,
    KEPT_MAX,
    SILENT_MS,
    Redrive,
    RedriveState,
    put_redrive,
    read_ids,
)
from minuet.app.redriving import Redriver
from minuet.clock import ManualClock
from minuet.errors import RedriveNotFoundError

from ..waiting import until
from .conftest import Serve, Site
from .test_nouns import fail


async def ended(site: Site) -> dict[str, Any]:
    """The newest redrive, once it is over."""
    found: dict[str, Any] = {}

    async def is_over() -> bool:
        found.update((await site.get("/dlq/redrives"))["items"][0])
        return found["state"] in ("done", "stopped")

    await until(site.app.store, is_over)
    return found


async def test_dead_letters_are_retried_by_the_server(serve: Serve) -> None:
    async with serve() as site:
        runs = await fail(site, 3)
        (group,) = (await site.get("/dlq/groups"))["items"]
        await site.post(f"/dlq/{runs[0]}.1/discard", {})
        ids = [f"{run}.1" for run in runs]
        begun = await site.post("/dlq/redrives", {"ids": [*ids, "gone.1"], "by": "ada"}, 201)
        first = await ended(site)
        asked = {"fingerprint": group["fingerprint"], "per_second": 500}
        await site.post("/dlq/redrives", asked, 201)
        second = await ended(site)
        nothing = await site.post("/dlq/redrives", {}, 422)
        for run in runs:
            await site.app.wait(run)

    assert (begun["state"], begun["total"], begun["by"]) == ("running", 4, "ada")
    assert (first["id"], first["state"], first["retried"]) == (begun["id"], "done", 2)
    assert [one["id"] for one in first["refusals"]] == [ids[0], "gone.1"]
    assert "discarded" in first["refusals"][0]["why"]
    assert (second["what"], second["per_second"]) == (group["fingerprint"], 500)
    assert "what to retry" in nothing["detail"]


#: The second is due in a minute and a half.
SLOW = {"per_second": 0.011}


async def begin(site: Site, count: int = 2) -> list[str]:
    """Have a server redrive dead letters until the first is retried; their runs."""
    runs = await fail(site, count)
    await site.post("/dlq/redrives", {"ids": [f"{run}.1" for run in runs], **SLOW}, 201)

    async def is_begun() -> bool:
        return bool((await site.get(f"/runs/{runs[0]}"))["generation"] == 2)

    await until(site.app.store, is_begun)
    return runs


async def test_a_redrive_is_stopped_by_any_process(serve: Serve, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    async with serve(store) as site:
        runs = await begin(site)
        (going,) = (await site.get("/dlq/redrives"))["items"]
        async with App(store, worker=False) as other:
            stopping = await other.dead_letters.stop_redrive(going["id"])
            again = await other.dead_letters.stop_redrive(going["id"])
            with pytest.raises(RedriveNotFoundError):
                await other.dead_letters.stop_redrive("nothing")
        unknown = await site.post("/dlq/redrives/nothing/stop", {}, 404)
        stopped = await ended(site)
        pending = [one["id"] for one in (await site.get("/dlq"))["items"]]
        left = await site.app.store.list_cells("redrive-ids/")

    assert (stopping.state, stopping.is_unwanted) == ("running", True)
    assert again == stopping
    assert unknown["code"] == "redrive-not-found"
    assert (stopped["state"], stopped["retried"]) == ("stopped", 1)
    assert f"{runs[1]}.1" in pending
    assert left == []


async def test_the_next_server_goes_on_at_once_with_what_a_stopped_one_has_left(
    serve: Serve, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    async with serve(store) as site:
        runs = await begin(site)
    async with App(store, worker=False) as app:
        (left,) = await app.dead_letters.redrives()
    async with serve(store) as site:
        done = await ended(site)
        generations = [(await site.get(f"/runs/{run}"))["generation"] for run in runs]

    assert (left.state, left.retried, left.owner) == ("interrupted", 1, "")
    assert (done["retried"], done["refused"]) == (2, 0)
    assert generations == [2, 2]


async def test_a_server_that_was_silent_leaves_the_redrive_to_the_one_that_has_gone_on(
    serve: Serve,
) -> None:
    clock = ManualClock()
    async with serve() as site:
        runs = await begin(site)
        other = Redriver(site.app, clock)
        (first,) = (second,) = await site.app.dead_letters.redrives()
        while second.owner == first.owner:
            # Unless it says something between two looks, it is silent to this clock.
            await other.look()
            clock.advance(SILENT_MS)
            (second,) = await site.app.dead_letters.redrives()
        done = await ended(site)
        # The first server sees at its next note that it is not its own any more.
        working = site.api.shared.redriver._working
        while working:
            await next(iter(working.values()))
        generations = [(await site.get(f"/runs/{run}"))["generation"] for run in runs]
        await other.close()

    assert (done["retried"], done["refused"]) == (2, 0)
    assert generations == [2, 2]


async def test_a_redrive_that_nobody_works_on_is_stopped_at_once(serve: Serve) -> None:
    async with serve() as site:
        await begin(site)
        await site.api.shared.redriver.close()
        (left,) = (await site.get("/dlq/redrives"))["items"]
        stopped = await site.post(f"/dlq/redrives/{left['id']}/stop")
        cells = await site.app.store.list_cells("redrive-ids/")
        other = Redriver(site.app)
        await other.look()
        await other.close()
        (after,) = (await site.get("/dlq/redrives"))["items"]

    assert (left["state"], stopped["state"], after["state"]) == (
        *("interrupted", "stopped", "stopped"),
    )
    assert cells == []


def made(number: int = 0, state: RedriveState = "running", total: int = 0) -> Redrive:
    """A redrive of a server that has ended."""
    return Redrive(
        id=f"r{number:03d}",
        what="some",
        by="",
        per_second=None,
        total=total,
        started_ms=0,
        noted_ms=0,
        state=state,
        owner="gone",
    )


async def test_a_redrive_is_taken_over_when_its_server_was_silent_for_long() -> None:
    clock = ManualClock()
    async with App("memory://", worker=False) as app:
        await put_redrive(app.store, "default", made(total=1), ["gone.1"])
        redriver = Redriver(app, clock)
        owners = []
        for wait_ms in (SILENT_MS - 1, 1, 0):
            await redriver.look()
            owners += [one.owner for one in await app.dead_letters.redrives()]
            clock.advance(wait_ms)
        await redriver.close()

    assert owners[:2] == ["gone", "gone"]
    assert owners[2] != "gone"


async def test_a_redrive_keeps_its_ids_and_the_oldest_that_are_over_are_forgotten() -> None:
    ids = [f"run-{number}.1" for number in range(2 * CHUNK + 1)]
    async with App("memory://", worker=False, tenant="a/b") as app:
        await put_redrive(app.store, "a/b", made(), ids)
        for number in range(1, KEPT_MAX + 3):
            await put_redrive(app.store, "a/b", made(number, "done"), [])

        assert await read_ids(app.store, "redrives/a%2Fb/r000") == ids
        listed = [one.id for one in await app.dead_letters.redrives()]
        assert listed == [*(f"r{number:03d}" for number in range(KEPT_MAX + 2, 2, -1)), "r000"]


async def test_a_redrive_whose_ids_are_lost_is_stopped() -> None:
    async with App("memory://", worker=False) as app:
        left = msgspec.structs.replace(made(total=2), owner="")
        await put_redrive(app.store, "default", left, ["gone.1"])
        redriver = Redriver(app)
        await redriver.look()

        async def is_over() -> bool:
            return [one.state for one in await app.dead_letters.redrives()] == ["stopped"]

        await until(app.store, is_over)
        await redriver.close()
        (found,) = await app.dead_letters.redrives()

    assert (found.retried, found.refused) == (0, 0)
