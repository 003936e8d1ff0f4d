"""A canary secret goes through every kind of node, in every way: it is found nowhere after."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

import minuet

from ..models import one_after_another, says, wants
from ..scenario.harness import QUICK_RETRY, node, task, workflow
from ..services import open_service, reply
from .canaries import CANARY, HANDLERS, TRACE, WAYS, everything_in, leaks


class Vault:
    """Gives the canary."""

    def get(self, name: str) -> str:
        return {"KEY": CANARY}[name]


class Config(msgspec.Struct):
    way: str
    key: str = ""


@pytest.fixture
def leaking_types() -> None:
    """Node types, async and sync, that get the canary and let it out in the way that is chosen."""

    @minuet.node_type("leak", output_schema={})
    async def leak(config: Config, ctx: minuet.Context) -> Any:
        return WAYS[config.way][0](config.key or ctx.secret("KEY"))

    @minuet.node_type("blocking-leak", output_schema={"not": {"type": "string"}})
    def blocking_leak(config: Config, ctx: minuet.Context) -> Any:
        return WAYS[config.way][0](config.key or ctx.secret("KEY"))

    @minuet.node_type("number")
    async def number(config: dict[str, int]) -> None: ...

    @minuet.node_type("waiting")
    async def waiting(call: minuet.Call, ctx: minuet.Context) -> Any:
        if call.resumed:
            return ctx.secret("KEY")
        value = ctx.secret("KEY")
        return minuet.Wait("timer", key=f"until {value}", delay_ms=1, data={"why": value})


def leaving(way: str) -> Any:
    """Handlers that let it out in one way, async and sync."""
    leave, _ = WAYS[way]

    async def asynchronous(ctx: minuet.Context) -> Any:
        return leave(ctx.secret("KEY"))

    def blocking(ctx: minuet.Context) -> Any:
        return leave(ctx.secret("KEY"))

    return {"asynchronous": asynchronous, "blocking": blocking}


def documents() -> dict[str, tuple[Any, str]]:
    """Nodes by name, and how each ends."""
    may: dict[str, Any] = {"secrets": ["KEY"]}
    once = {"retry": 1, **may}
    templated = {"key": "Bearer {{ secrets.KEY }}"}
    return {
        "step": (task("n", handler="step", **once), "COMPLETED"),
        "retry": (task("n", handler="retry", retry=QUICK_RETRY, **may), "COMPLETED"),
        "hang": (task("n", handler="hang", timeout_seconds=0.05, **once), "FAILED"),
        "log": (task("n", handler="log", **once), "COMPLETED"),
        "template": (task("n", handler="arguments", config=templated, **once), "COMPLETED"),
        "wrong": (task("n", handler="wrong_argument", config=templated, **once), "FAILED"),
        "schema": (node("n", type="number", config={"x": "{{ secrets.KEY }}"}, **once), "FAILED"),
        "filter": (
            task("n", handler="arguments", config={"key": "{{ secrets.KEY | int }}"}, **once),
            "FAILED",
        ),
        "wait": (node("n", type="waiting", **once), "COMPLETED"),
    }


async def run_all(s: Any, ways: list[str]) -> None:
    for way in ways:
        ending = WAYS[way][1]
        for kind in ("leak", "blocking-leak"):
            config = {"way": way, "key": "{{ secrets.KEY }}" if kind == "leak" else ""}
            result = await s.run(
                workflow(node("n", type=kind, config=config, secrets=["KEY"], retry=1))
            )
            if kind == "leak":
                assert result.nodes["n"].status == ending, (way, result.error)
            assert not leaks(msgspec.json.encode(result.to_json())), way


@pytest.mark.shows("U-17")
async def test_a_canary_is_found_nowhere(
    scene: Any,
    store_url: str,
    tmp_path: Path,
    leaking_types: None,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.handler.addFilter(minuet.RunLogFilter())
    named = {
        f"{kind}_{number}": f for number, way in enumerate(WAYS) for kind, f in leaving(way).items()
    }
    async with scene({**HANDLERS, **named}, secrets=Vault()) as s:
        for number, (_, ending) in enumerate(WAYS.values()):
            for kind in ("asynchronous", "blocking"):
                result = await s.run(
                    workflow(task("n", handler=f"{kind}_{number}", secrets=["KEY"], retry=1))
                )
                assert result.nodes["n"].status == ending
                assert not leaks(msgspec.json.encode(result.to_json())), list(WAYS)[number]
        await run_all(s, list(WAYS))
        for name, (one, ending) in documents().items():
            result = await s.run(workflow(one))
            assert result.nodes["n"].status == ending, (name, result.error)
            assert not leaks(msgspec.json.encode(result.to_json())), name
        for run_id in s.store.runs:
            assert not leaks(msgspec.json.encode(await s.events(run_id)))
        assert not leaks(await everything_in(store_url, tmp_path))
    assert not leaks(await everything_in(store_url, tmp_path))

    assert "as an argument ***" in caplog.text
    assert "a secret, which was replaced by ***" in caplog.text
    assert not leaks(caplog.text.encode())
    assert not leaks("".join(map(repr, (vars(record) for record in caplog.records))).encode())
    assert not leaks("".join(capfd.readouterr()).encode())


@pytest.mark.parametrize("status", [200, 400, 503])
async def test_a_service_that_repeats_what_it_was_sent_does_not_get_it_kept(
    scene: Any, store_url: str, tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.handler.addFilter(minuet.RunLogFilter())
    config = {
        "method": "POST",
        "params": {"key": "{{ secrets.KEY }}"},
        "json": {"pad": "{{ input }}", "key": "{{ secrets.KEY }}"},
    }
    async with open_service() as service, scene(egress_private=True, secrets=Vault()) as s:
        service.answer = lambda asked: reply({"json": asked.json, "url": asked.target}, status)
        # What is kept of an error's body is cut at 1,000 bytes: also in the middle of the value.
        for length in (1, *range(955, 985, 3)):
            call = node(
                "call", type="http", config={"url": service.url, **config}, secrets=["KEY"], retry=1
            )
            result = await s.run(workflow(call), "x" * length)

            assert service.asked[-1].json["key"] == CANARY
            assert result.status == ("COMPLETED" if status == 200 else "FAILED")
            assert "***" in str(result.to_json())
            assert not leaks(msgspec.json.encode(result.to_json())), length
        assert not leaks(await everything_in(store_url, tmp_path))
    assert not leaks(caplog.text.encode())


class Keys:
    """The canary, and the key of a service for language models."""

    def __init__(self, url: str) -> None:
        self._values = {"KEY": CANARY, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": f"{TRACE}-key"}

    def get(self, name: str) -> str:
        return self._values[name]


async def test_a_canary_in_a_tool_reaches_neither_the_model_nor_the_store(
    scene: Any, store_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.handler.addFilter(minuet.RunLogFilter())

    async def fetch(ctx: minuet.Context, way: str) -> Any:
        return WAYS[way][0](ctx.secret("KEY"))

    async with open_service() as service:
        ways = one_after_another(
            wants(*(("fetch", {"way": way}) for way in WAYS)), reply(b"", 503), says("done")
        )
        service.answer = ways
        asked = {"model": "m", "prompt": "p", "available_tools": ["fetch"]}
        agent = node("n", type="agent", agent_config=asked, secrets=["KEY"], retry=QUICK_RETRY)
        options = {"egress_private": True, "secrets": Keys(service.url)}
        async with scene({"fetch": minuet.Task(fetch, name="fetch", retries=0)}, **options) as s:
            result = await s.run(workflow(agent))

            assert result.nodes["n"].output["result"] == "done"
            assert not leaks(msgspec.json.encode(result.to_json()))
            assert not leaks(msgspec.json.encode(await s.events(result.run_id)))
            assert not leaks(await everything_in(store_url, tmp_path))
    assert service.asked[-1].headers["authorization"] == f"Bearer {TRACE}-key"
    assert not leaks(b"".join(one.body for one in service.asked))
    assert b"***" in service.asked[-1].body
    assert not leaks(caplog.text.encode())


async def test_the_search_finds_a_canary_that_is_there(
    scene: Any, store_url: str, tmp_path: Path
) -> None:
    async def work() -> Any:
        return CANARY

    async with scene({"work": work}) as s:
        result = await s.run(workflow(task("work")))

        assert leaks(msgspec.json.encode(result.to_json()))
        if store_url != "memory://":
            assert leaks(await everything_in(store_url, tmp_path))


async def test_an_output_without_secrets_is_left_alone(scene: Any) -> None:
    value = {"a": [1, 2.5, None, True, "***", "c4n"], "b": {"": ""}}

    async def work(ctx: minuet.Context) -> Any:
        ctx.secret("KEY")
        return value

    async with scene({"work": work}, secrets=Vault()) as s:
        result = await s.run(workflow(task("work", secrets=["KEY"])))

    assert result.output == {"work": value}


async def test_what_is_masked_is_what_later_nodes_and_attempts_see(scene: Any) -> None:
    async def work(ctx: minuet.Context) -> Any:
        kept = await ctx.step("kept", lambda: f"token {ctx.secret('KEY')}")
        if ctx.attempt == 1:
            raise ConnectionError("again")
        return [kept, ctx.secret("KEY")]

    document = workflow(
        task("work", secrets=["KEY"], retry=QUICK_RETRY),
        node("after", "work", type="transform", config={"value": "{{ work.output }}"}),
    )
    async with scene({"work": work}, secrets=Vault()) as s:
        result = await s.run(document)

    assert result.output == {"after": ["token ***", "***"]}


async def test_a_value_that_was_rotated_meanwhile_is_masked(scene: Any) -> None:
    class Rotating:
        number = 0

        def get(self, name: str) -> str:
            self.number += 1
            return f"value-number-{self.number}"

    async def work(key: str, ctx: minuet.Context) -> Any:
        return [key, ctx.secret("KEY"), "value"]

    document = workflow(task("work", config={"key": "{{ secrets.KEY }}"}, secrets=["KEY"], retry=1))
    async with scene({"work": work}, secrets=Rotating()) as s:
        result = await s.run(document)

    assert result.output == {"work": ["***", "***", "value"]}


async def test_secrets_of_nodes_that_run_at_once_do_not_mix(scene: Any) -> None:
    class Two:
        def get(self, name: str) -> str:
            return {"A": "value-of-a", "B": "value-of-b"}[name]

    met = asyncio.Barrier(2)

    async def work(name: str, ctx: minuet.Context) -> Any:
        await met.wait()
        return [ctx.secret(name), "value-of-a", "value-of-b"]

    document = workflow(
        task("a", handler="work", config={"name": "A"}, secrets=["A"]),
        task("b", handler="work", config={"name": "B"}, secrets=["B"]),
    )
    async with scene({"work": work}, secrets=Two()) as s:
        result = await s.run(document)

    assert result.output == {"a": ["***", "***", "value-of-b"], "b": ["***", "value-of-a", "***"]}


def test_the_trace_is_a_part_of_the_canary() -> None:
    assert CANARY.startswith(TRACE)
    assert leaks(CANARY.encode())
