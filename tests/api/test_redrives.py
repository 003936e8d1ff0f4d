"""Redrives: a server retries many dead letters at a pace, whoever looks."""

from __future__ import annotations

from typing import Any

from minuet.app.redrives import SILENT_MS, Redrives
from minuet.clock import ManualClock

from ..waiting import until
from .conftest import Serve, Site
from .test_nouns import fail


async def ended(site: Site) -> dict[str, Any]:
    """The newest redrive, once it is over."""
    found: dict[str, Any] = {}

    async def is_over() -> bool:
        found.update((await site.get("/dlq/redrives"))["items"][0])
        return bool(found["state"] != "running")

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


async def test_a_redrive_is_stopped_by_any_server_and_interrupted_by_its_end(serve: Serve) -> None:
    async with serve() as site:
        runs = await fail(site, 2)
        ids = [f"{run}.1" for run in runs]
        # The second is due in a minute and a half.
        await site.post("/dlq/redrives", {"ids": ids, "per_second": 0.011}, 201)
        (going,) = (await site.get("/dlq/redrives"))["items"]

        async def is_begun() -> bool:
            return bool((await site.get(f"/runs/{runs[0]}"))["generation"] == 2)

        await until(site.app.store, is_begun)
        other = Redrives(lambda: site.app.store)
        stopping = await other.stop(site.app.tenant, going["id"])
        unknown = await site.post("/dlq/redrives/nothing/stop", {}, 404)
        later = ManualClock(2 * SILENT_MS + 10**15)
        (silent,) = await Redrives(lambda: site.app.store, later).list(site.app.tenant)
        await site.api.shared.redrives.close()
        (left,) = (await site.get("/dlq/redrives"))["items"]
        pending = [one["id"] for one in (await site.get("/dlq"))["items"]]

    assert stopping is not None
    assert stopping.is_unwanted
    assert unknown["code"] == "not-found"
    assert (silent.state, left["state"], left["retried"]) == ("interrupted", "interrupted", 1)
    assert ids[1] in pending
