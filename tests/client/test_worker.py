"""`minuet worker --url`: handlers far from the store, by the code of every worker."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

import minuet
from minuet.app.handlers import make_handlers
from minuet.client import worker as http_worker
from minuet.client.client import make_transport
from minuet.client.worker import HttpWorker
from minuet.nodes.handler import REGISTERED, Task

from ..api.conftest import Site, open_site
from ..scenario.harness import module_of, task, workflow
from .lossy import lossy

#: A server that runs no handlers itself.
SERVER: dict[str, Any] = {"worker": False}


@contextlib.asynccontextmanager
async def working(
    url: str, handlers: dict[str, Any], *, concurrency: int = 4, **options: Any
) -> AsyncIterator[HttpWorker]:
    """A worker for the server at this address."""
    transport = make_transport(url)
    transport.open()
    made = HttpWorker(
        transport,
        make_handlers([module_of(handlers)]),
        name="far",
        concurrency=concurrency,
        **options,
    )
    running = asyncio.ensure_future(made.run())
    try:
        yield made
    finally:
        made.stop()
        await asyncio.wait_for(running, 60)
        await transport.close()


async def finish(site: Site, document: Any, input: Any = None, **more: Any) -> Any:
    run = await site.app.start(document, input, **more)
    return await site.app.wait(run, timeout=60)


async def test_sync_and_async_handlers_run_and_their_context_is_complete() -> None:
    seen: dict[str, Any] = {}

    async def first(number: int, ctx: minuet.Context) -> dict[str, Any]:
        seen["first"] = (ctx.node_id, ctx.attempt, ctx.input, bool(ctx.idempotency_key))
        return {"n": number * 2}

    def second(ctx: minuet.Context) -> int:
        seen["second"] = (ctx.inputs, threading.current_thread().name)
        return int(ctx.inputs["first"]["n"]) + 1

    document = workflow(
        task("first", config={"number": "{{ input.n }}"}), task("second", "first"), name="two"
    )
    async with (
        open_site(**SERVER) as site,
        working(site.url, {"first": first, "second": second}) as worker,
    ):
        result = await finish(site, document, {"n": 20})
        (listed,) = await site.app.workers.list()

    assert result.output == {"second": 41}
    assert seen["first"] == ("first", 1, {"n": 20}, True)
    assert seen["second"][0] == {"first": {"n": 40}}
    assert seen["second"][1].startswith("minuet-handler")
    assert (listed.name, listed.concurrency) == ("far", 4)
    assert worker.counts.completed == 2


async def test_errors_and_retries_are_as_in_every_worker() -> None:
    def flaky(ctx: minuet.Context) -> int:
        if ctx.attempt < 2:
            raise LookupError(f"not yet at {ctx.attempt}")
        return ctx.attempt

    def wrong() -> None:
        raise ValueError("never")

    def final() -> None:
        raise minuet.NonRetryable("no use")

    handlers = {"flaky": Task(flaky, retries=5), "wrong": wrong, "final": final}
    quick = {"max_attempts": 4, "backoff_ms": 1, "jitter": False}
    async with open_site(**SERVER) as site, working(site.url, handlers):
        # The handler's author says how often.
        flaked = await finish(site, workflow(task("flaky"), name="flaky"))
        # ValueError is not retried, unless the document says so.
        once = await finish(site, workflow(task("wrong"), name="once"))
        named = await finish(site, workflow(task("wrong", retry=quick), name="named"))
        ended = await finish(site, workflow(task("final", retry=quick), name="final"))

    assert flaked.nodes["flaky"].output == 2
    assert (once.status, once.nodes["wrong"].attempts) == ("FAILED", 1)
    assert (named.nodes["wrong"].attempts, ended.nodes["final"].attempts) == (4, 1)
    assert once.error["type"] == "ValueError"
    assert once.error["traceback"][-1]["function"] == "wrong"


@pytest.mark.shows("H-18")
async def test_steps_and_blobs_are_kept_by_the_server() -> None:
    calls: list[str] = []

    async def charge() -> int:
        calls.append("charge")
        return 7

    async def pay(ctx: minuet.Context) -> dict[str, Any]:
        paid = await ctx.step("charge", charge)
        if ctx.attempt == 1:
            raise minuet.Retryable("once more", after=0)
        kept = await ctx.blob(b"x" * 100_000)
        return {"paid": paid, "kept": kept}

    async def read(kept: dict[str, Any], ctx: minuet.Context) -> int:
        return len(await ctx.open(kept).read())

    document = workflow(
        task("pay"), task("read", "pay", config={"kept": "{{ pay.kept }}"}), name="steps"
    )
    async with open_site(**SERVER) as site, working(site.url, {"pay": pay, "read": read}):
        result = await finish(site, document)

    assert result.output == {"read": 100_000}, result
    assert calls == ["charge"]


async def test_a_cancelled_run_stops_its_handler_and_results_come_while_others_run() -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def quick() -> int:
        return 1

    async with (
        open_site(**SERVER, lease_seconds=1) as site,
        working(site.url, {"hang": hang, "quick": quick}),
    ):
        run = await site.app.start(workflow(task("hang"), name="hanging"))
        await asyncio.wait_for(begun.wait(), 60)
        for _ in range(3):
            assert (await finish(site, workflow(task("quick"), name="quick"))).output == {
                "quick": 1
            }
        await run.cancel()
        await asyncio.wait_for(stopped.wait(), 60)


async def test_a_worker_that_stops_finishes_what_it_has_and_gives_back_the_rest() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow() -> int:
        begun.set()
        await go.wait()
        return 1

    async def hang() -> None:
        await asyncio.Event().wait()

    async with open_site(**SERVER) as site:
        async with working(site.url, {"slow": slow, "hang": hang}, drain_s=0.5) as worker:
            run = await site.app.start(workflow(task("slow"), name="slow"))
            left = await site.app.start(workflow(task("hang"), name="left"))
            await asyncio.wait_for(begun.wait(), 60)
            asyncio.get_running_loop().call_later(0.1, go.set)
        assert (await site.app.wait(run, timeout=60)).status == "COMPLETED"
        assert worker.counts.completed == 1

        async def other() -> int:
            return 2

        async with working(site.url, {"hang": other}):
            assert (await site.app.wait(left, timeout=60)).output == {"hang": 2}
        assert await site.app.workers.list() == []


async def test_a_worker_survives_lost_answers_and_a_server_that_forgot_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_worker, "PAUSE_S", 0.01)
    calls: list[int] = []

    async def count(number: int) -> int:
        calls.append(number)
        return number

    document = workflow(task("count", config={"number": "{{ input }}"}), name="count")
    async with (
        open_site(**SERVER, lease_seconds=1) as site,
        lossy(site.url) as network,
        working(network.url, {"count": count}) as worker,
    ):
        for number in range(6):
            network.lose = 1
            assert (await finish(site, document, number)).output == {"count": number}
        # An answer that was lost is repeated: no task runs twice.
        assert calls == [*range(6)]
        # As after a restart of the server.
        before = worker.id
        site.api.shared.remote._workers.clear()
        assert (await finish(site, document, 7)).output == {"count": 7}
        assert (await finish(site, document, 8)).output == {"count": 8}
        assert worker.id not in ("", before)


async def test_what_a_worker_over_http_cannot_do_says_so() -> None:
    async def secret(ctx: minuet.Context) -> str:
        return ctx.secret("KEY")

    document = workflow(task("secret", secrets=["KEY"]), name="secret")
    async with open_site(**SERVER) as site, working(site.url, {"secret": secret}):
        result = await finish(site, document)

    assert result.status == "FAILED"
    assert "KEY" in result.error["message"]


@pytest.mark.shows("W-16")
async def test_a_worker_far_away_needs_a_server_and_no_store() -> None:
    """Each way takes longer than a node, as between two continents."""

    async def double(number: int) -> int:
        return number * 2

    first = task("first", handler="double", config={"number": "{{ input.n }}"})
    second = task("second", "first", handler="double", config={"number": "{{ first.output }}"})
    async with open_site(**SERVER) as site, lossy(site.url) as network:
        network.delay_s = 0.1
        async with working(network.url, {"double": double}):
            results = await asyncio.gather(
                *(finish(site, workflow(first, second), {"n": n}) for n in range(5))
            )
            counts = [
                len(
                    [
                        one
                        for one in await site.app.events(found.run_id)
                        if "completed" in one["type"]
                    ]
                )
                for found in results
            ]

    assert [found.output for found in results] == [{"second": 4 * n} for n in range(5)]
    assert counts == [3] * 5


async def test_a_node_type_that_waits_fails_and_says_where_to_run_it() -> None:
    @minuet.node_type("remote_poll")
    async def poll(call: minuet.Call) -> minuet.Wait:
        return minuet.Wait("timer", delay_ms=1)

    try:
        async with open_site(**SERVER) as site, working(site.url, {}):
            result = await finish(site, workflow({"id": "p", "type": "remote_poll"}))
    finally:
        REGISTERED._types.pop("remote_poll")

    assert result.status == "FAILED"
    assert (result.error or {})["code"] == "cannot-wait"
    assert "minuet worker --store" in (result.error or {})["message"]
