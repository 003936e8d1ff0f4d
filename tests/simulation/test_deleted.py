"""A run that is deleted while a worker still has something to say about it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from minuet.app.app import App
from minuet.app.compiling import CompiledWorkflow, compile_source
from minuet.errors import StoreUnavailableError
from minuet.nodes.context import Context
from minuet.nodes.handler import Handlers, Task
from minuet.plan.digest import digest_plan, encode_plan
from minuet.store.changes import Cancel, NewPlan
from minuet.store.exchange import Exchange, Reply
from minuet.store.memory import MemoryStore
from minuet.store.records import DEFAULT_TENANT
from minuet.worker.worker import Worker


class LosesAnAnswer(MemoryStore):
    """The first answer that asks for another routing is lost, and the run is deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted = ""
        self.struck = asyncio.Event()

    async def exchange(self, request: Exchange) -> Reply:
        reply = await super().exchange(request)
        if "replan" in reply.results and not self.deleted:
            self.deleted = request.hand_in[reply.results.index("replan")].run
            await self.change_run(DEFAULT_TENANT, self.deleted, Cancel())
            assert await self.delete_runs(DEFAULT_TENANT, [self.deleted]) == 1
            self.struck.set()
            raise StoreUnavailableError("the answer is lost")
        return reply


def revised(workflow: CompiledWorkflow) -> tuple[str, bytes]:
    data = encode_plan(msgspec.structs.replace(workflow.plan, description="revised"))
    return digest_plan(data), data


async def test_a_worker_that_should_route_again_for_a_deleted_run_goes_on_with_others() -> None:
    store = LosesAnAnswer()
    workflow = compile_source({"name": "patched", "nodes": [{"id": "a", "handler": "patching"}]})
    other = compile_source({"name": "other", "nodes": [{"id": "a", "type": "noop"}]})

    async def patching(ctx: Context) -> Any:
        digest, data = revised(workflow)
        await store.put_blob(data)
        await store.change_run(DEFAULT_TENANT, ctx.run_id, NewPlan(digest))

    handlers = Handlers()
    handlers.add(Task(patching, name="patching"))
    worker = Worker(store, handlers=handlers)
    async with App(store, worker=False) as app:
        working = asyncio.create_task(worker.run())
        patched = await app.start(workflow)
        await store.struck.wait()
        waiting = asyncio.create_task(app.wait(await app.start(other)))
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
        worker.stop()
        await working

    assert store.deleted == patched
    assert waiting.result().status == "COMPLETED"
