"""Agents on every store: what was paid for is kept, whatever happens to the worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from minuet.clock import ManualClock
from minuet.worker import loop as worker_loop

from ..models import chooses, says, wants
from ..services import Asked, Script, Service, open_service, reply, silence
from .harness import PATIENCE, node, workflow

LEASE_MS = 30_000

BRANCH = {"type": "agent_driven", "available_next_nodes": ["b", "c"], "default": ["c"]}


class Vault:
    """The worker's secrets."""

    def __init__(self, url: str) -> None:
        self._values = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "sk-worker"}

    def get(self, name: str) -> str:
        return self._values[name]


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with open_service() as made:
        yield made


def document(**fields: Any) -> dict[str, Any]:
    config = {"model": "m", "prompt": "p", "available_tools": ["look", "book"]}
    agent = node("ag", type="agent", agent_config=config, branch=BRANCH, **fields)
    return workflow(agent, node("b"), node("c"))


#: What the model says, one after the other.
ANSWERS = (
    wants(("look", {"query": "q"}), ("book", {"seat": 1})),
    wants(("look", {"query": "r"})),
    says("done"),
    chooses("b"),
)


class Model:
    """Says what it is to say; the call of this number has no answer, once."""

    def __init__(self, silent: int | None) -> None:
        self.silent = silent
        self.asked_then = asyncio.Event()
        #: Which answer was asked for, in the order of the calls.
        self.calls: list[int] = []

    def answer(self, asked: Asked) -> Script:
        # Where the conversation is: by what the model is shown of it.
        messages = asked.json["messages"]
        number = sum(one["role"] == "assistant" for one in messages)
        if "You decide" in messages[0]["content"]:
            number = len(ANSWERS) - 1
        self.calls.append(number)
        if number == self.silent:
            self.silent = None
            self.asked_then.set()
            return silence
        return ANSWERS[number]


@pytest.mark.parametrize("silent", [0, 1, 2, 3])
async def test_a_worker_that_is_lost_repeats_only_the_call_that_was_under_way(
    scene: Any, service: Service, monkeypatch: pytest.MonkeyPatch, silent: int
) -> None:
    monkeypatch.setattr(worker_loop, "IDLE_MS", 5)
    clock, model = ManualClock(), Model(silent)
    ran: list[Any] = []
    service.answer = model.answer

    async def look(query: str) -> str:
        ran.append(query)
        return f"found {query}"

    def book(seat: int) -> int:
        ran.append(seat)
        return seat

    # The store's clock jumps past the lease while the model thinks: the worker that asked counts
    # as dead, and the token is taken again.
    options = {"egress_private": True, "secrets": Vault(service.url), "clock": clock}
    tools = {"look": look, "book": book}
    async with scene(tools, lease_seconds=LEASE_MS / 1000, **options) as s:
        run_id = await s.app.start(document())
        async with asyncio.timeout(PATIENCE):
            await model.asked_then.wait()
        clock.advance(LEASE_MS)
        assert (await s.store.sweep()).expired == 1
        result = await s.end(run_id)

    assert result.status == "COMPLETED"
    assert model.calls == sorted([0, 1, 2, 3, silent])
    assert sorted(map(str, ran)) == ["1", "q", "r"]
    assert (result.nodes["b"].status, result.nodes["c"].status) == ("COMPLETED", "SKIPPED")


async def test_a_worker_that_is_lost_in_a_tool_repeats_only_this_tool(
    scene: Any, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_loop, "IDLE_MS", 5)
    clock, model, ran = ManualClock(), Model(None), []
    service.answer = model.answer
    stuck, booked = asyncio.Event(), asyncio.Event()

    async def look(query: str) -> str:
        ran.append(query)
        if ran.count("r") == 1 and query == "r":
            stuck.set()
            await asyncio.Event().wait()
        return f"found {query}"

    async def book(seat: int) -> int:
        ran.append("booked")
        booked.set()
        return seat

    options = {"egress_private": True, "secrets": Vault(service.url), "clock": clock}
    async with scene({"look": look, "book": book}, lease_seconds=LEASE_MS / 1000, **options) as s:
        run_id = await s.app.start(document())
        async with asyncio.timeout(PATIENCE):
            await stuck.wait()
        clock.advance(LEASE_MS)
        assert (await s.store.sweep()).expired == 1
        result = await s.end(run_id)

    assert result.status == "COMPLETED"
    assert model.calls == [0, 1, 2, 3]
    assert sorted(ran) == ["booked", "q", "r", "r"]


async def test_a_retry_of_the_run_goes_on_where_the_agent_was(scene: Any, service: Service) -> None:
    calls: list[int] = []

    def answer(asked: Asked) -> Script:
        calls.append(len(asked.json["messages"]))
        return (
            wants(("look", {"query": "q"})),
            reply({"error": {"message": "wrong key"}}, 401),
            says("done"),
            chooses("b"),
        )[len(calls) - 1]

    service.answer = answer

    async def look(query: str) -> str:
        return query

    async def book(seat: int) -> int:
        return seat

    options = {"egress_private": True, "secrets": Vault(service.url)}
    async with scene({"look": look, "book": book}, **options) as s:
        first = await s.run(document())
        await s.app.runs.retry(first.run_id)
        result = await s.end(first.run_id)

    assert (first.status, first.error["code"]) == ("FAILED", "http-401")
    assert (result.status, result.nodes["ag"].output["result"]) == ("COMPLETED", "done")
    assert calls == [2, 4, 4, 2]
