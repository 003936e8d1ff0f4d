"""What an operator sees of a run that does not get on, and how its tokens are handed out again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from minuet.app.app import App
from minuet.store.exchange import Exchange, Take

from ..servers import postgres_url, redis_url
from .test_worker import HANDLERS

DOUBLE = "name: one\nnodes:\n  - {id: twice, handler: double, config: {number: 21}}\n"


async def take(url: str, run: str, lease_ms: int) -> None:
    """Be a worker that takes what there is of a run and is never heard of again."""
    async with App(url, worker=False) as app:
        asked = Take(("task:double",), 10)
        request = Exchange("gone", 1, "lease", lease_ms, take=(asked,), runs=(run,))
        assert len((await app.store.exchange(request)).granted) == 1


@pytest.mark.shows("R-05")
@pytest.mark.parametrize("make_url", [redis_url, postgres_url])
def test_who_holds_a_token_of_a_run_and_until_when_is_told(
    folder: Any, minuet: Any, make_url: Callable[[], str]
) -> None:
    store = ("--store", make_url())
    folder.write("double.yaml", DOUBLE)
    run_id, other = (minuet("start", "double.yaml", "--json", *store).json["run_id"] for _ in "12")
    asyncio.run(take(store[1], run_id, 60_000))

    held = minuet("runs", "why", run_id, "twice", *store).out
    waiting = minuet("runs", "why", other, "twice", *store).out
    (queue,) = minuet("queues", "--json", *store).json

    assert held.startswith("'twice' is running, attempt 1 in session gone, leased until ")
    assert waiting.startswith("'twice' is queued")
    assert (queue["queue"], queue["ready"], queue["running"]) == ("task:double", 1, 1)


@pytest.mark.shows("R-07")
def test_a_token_that_nobody_finishes_is_handed_out_again_by_a_repair(
    folder: Any, minuet: Any
) -> None:
    store = ("--store", redis_url())
    folder.write("double.yaml", DOUBLE)
    run_id = minuet("start", "double.yaml", "--json", *store).json["run_id"]
    asyncio.run(take(store[1], run_id, 1))

    stuck = minuet("doctor", "--json", *store).json
    (before,) = minuet("queues", "--json", *store).json
    repaired = minuet("doctor", "--repair", "--json", *store).json
    (after,) = minuet("queues", "--json", *store).json
    resumed = minuet("resume", *HANDLERS, "--json", *store).json

    assert (stuck["overdue"], before["ready"], before["running"]) == (1, 0, 1)
    assert repaired["swept"]["leases"] == 1
    assert (after["ready"], after["running"]) == (1, 0)
    assert resumed["output"] == {"twice": 42}
