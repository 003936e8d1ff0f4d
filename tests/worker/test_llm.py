"""`llm` nodes against a real server that speaks the protocol."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from minuet.errors import ConfigError, ServiceRefusedError, ServiceUnavailableError
from minuet.nodes.io import chat
from minuet.nodes.io.client import Client
from minuet.nodes.io.egress import Egress
from minuet.nodes.io.llm import request
from minuet.nodes.io.prices import read_prices
from minuet.nodes.services import LlmDefaults

from ..models import USAGE, chunk, one_after_another, says, slowly, stream
from ..scenario.harness import PATIENCE, QUICK_RETRY, node, workflow
from ..services import Service, open_service, reply

PRICES = '{"m*": {"input": 10, "output": 50, "cached_input": 1}, "mini": {"input": 1, "output": 2}}'
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Vault:
    """The worker's secrets."""

    def __init__(self, **values: str) -> None:
        self._values = values

    def get(self, name: str) -> str:
        return self._values[name]


class Asking:
    """What `request` needs of a context."""

    max_output_bytes: int | None = None

    def __init__(self, client: Client, base_url: str, key: str | None = "worker-key") -> None:
        self.client = client
        self.llm = LlmDefaults(base_url, key, read_prices(PRICES))
        self.revealed: tuple[str, ...] = ()


Ask = Callable[..., Awaitable[Any]]


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with open_service() as made:
        yield made


@pytest.fixture
async def ask(service: Service) -> AsyncIterator[Ask]:
    """Ask the service: `await ask(prompt="…")`."""
    client = Client(Egress(private=True))

    async def made(**config: Any) -> Any:
        context = Asking(client, f"{service.url}/v1")
        if "messages" not in config:
            config.setdefault("prompt", "hello")
        return await request({"model": "m1", **config}, context)  # type: ignore[arg-type]

    yield made
    await client.close()


@pytest.mark.shows("H-03")
async def test_an_llm_node_and_its_handler_ask_a_model(scene: Any, service: Service) -> None:
    service.answer = one_after_another(says("blue"), says('{"n": 3}'))
    document = workflow(
        node("ask", type="llm", config={"model": "m1", "prompt": "Which colour, {{ input.who }}?"}),
        node(
            "again",
            "ask",
            handler="llm_service",
            config={
                "model": "mini",
                "messages": [{"role": "user", "content": "{{ ask.text }}"}],
                "response_schema": SCHEMA,
                "temperature": 0,
                "max_tokens": 10,
            },
        ),
    )
    secrets = Vault(OPENAI_BASE_URL=f"{service.url}/v1/", OPENAI_API_KEY="sk-worker")
    options = {"egress_private": True, "secrets": secrets, "llm_prices": PRICES}
    async with scene(**options) as s:
        result = await s.run(document, {"who": "Ada"})
        recorded = repr(await s.events(result.run_id))

    first, second = service.asked
    assert result.nodes["ask"].output == {
        "text": "blue",
        "json": None,
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "total_tokens": 120,
            "cached_tokens": 40,
        },
        "cost": (60 * 10 + 40 * 1 + 20 * 50) / 1_000_000,
        "finish_reason": "stop",
    }
    assert result.nodes["again"].output["json"] == {"n": 3}
    assert result.nodes["again"].output["cost"] == (100 * 1 + 20 * 2) / 1_000_000
    assert first.target == "/v1/chat/completions"
    assert first.headers["authorization"] == "Bearer sk-worker"
    assert first.json["messages"] == [{"role": "user", "content": "Which colour, Ada?"}]
    assert (second.json["temperature"], second.json["max_tokens"]) == (0, 10)
    assert second.json["messages"] == [{"role": "user", "content": "blue"}]
    assert second.json["response_format"]["json_schema"]["schema"] == SCHEMA
    assert "sk-worker" not in recorded


async def test_a_busy_service_is_asked_again(scene: Any, service: Service) -> None:
    busy = reply({"error": {"message": "slow down"}}, 429, {"Retry-After": "0"})
    service.answer = one_after_another(busy, busy, says("done"))
    config = {"model": "m", "prompt": "x", "base_url": service.url}
    async with scene(egress_private=True) as s:
        result = await s.run(workflow(node("ask", type="llm", config=config, retry=QUICK_RETRY)))

        assert (result.nodes["ask"].output["text"], len(service.asked)) == ("done", 3)


async def test_a_long_answer_is_cancelled_with_its_run(scene: Any, service: Service) -> None:
    service.answer = lambda asked: slowly(chunk("once upon"), gate=asyncio.Event())
    config = {"model": "m", "prompt": "x", "base_url": service.url}
    async with scene(egress_private=True) as s:
        run_id = await s.app.start(workflow(node("ask", type="llm", config=config)))
        await asyncio.wait_for(service.called.wait(), PATIENCE)
        await s.app.cancel(run_id)
        await asyncio.wait_for(service.left.wait(), PATIENCE)
        await s.idle()

        assert (await s.end(run_id)).status == "CANCELLED"


# ── answers ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "script",
    [
        says("hello world"),
        stream(chunk("hello world"), chunk(finish_reason="stop"), end=b""),
        stream(chunk("hello "), chunk("world", finish_reason="stop")),
        reply({"choices": [{"message": {"content": "hello world"}, "finish_reason": "stop"}]}),
    ],
    ids=["streamed", "without an end mark", "without usage", "in one piece"],
)
async def test_an_answer_is_assembled(service: Service, ask: Ask, script: bytes) -> None:
    service.answer = lambda asked: script

    assert (await ask())["text"] == "hello world"


async def test_what_is_not_known_is_null(service: Service, ask: Ask) -> None:
    service.answer = one_after_another(says("x", usage=None), says("x"))

    without_usage = await ask()
    without_price = await ask(model="other")

    assert (without_usage["usage"], without_usage["cost"]) == (None, None)
    assert (without_price["usage"]["total_tokens"], without_price["cost"]) == (120, None)


async def test_tokens_that_come_slowly_are_waited_for(service: Service, ask: Ask) -> None:
    gate = asyncio.Event()
    parts = (chunk("a"), chunk("b"), chunk(finish_reason="stop"))
    service.answer = lambda asked: slowly(*parts, gate=gate)

    asking = asyncio.ensure_future(ask())
    await service.called.wait()
    gate.set()

    assert (await asking)["text"] == "ab"


async def test_a_model_that_falls_silent_is_given_up(
    service: Service, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "SILENCE_S", 0.05)
    service.answer = lambda asked: slowly(chunk("a"), gate=asyncio.Event())

    with pytest.raises(ServiceUnavailableError) as caught:
        await ask()
    assert caught.value.code == "service-timeout"


async def test_a_model_that_takes_too_long_in_all_is_given_up(service: Service, ask: Ask) -> None:
    service.answer = lambda asked: slowly(chunk("a"), gate=asyncio.Event())

    with pytest.raises(ServiceUnavailableError, match=r"longer than 0\.05 s"):
        await ask(timeout_seconds=0.05)


@pytest.mark.parametrize(
    ("script", "kind", "code"),
    [
        (stream(chunk("half"), end=b""), ServiceUnavailableError, "answer-cut"),
        (stream(chunk("half"), end=b'data: {"choi'), ServiceUnavailableError, "invalid-answer"),
        (
            stream(chunk("half"), end=b"data: nonsense\n\n"),
            ServiceUnavailableError,
            "invalid-answer",
        ),
        (stream({"choices": 3}), ServiceUnavailableError, "invalid-answer"),
        (stream({"choices": ["x"]}), ServiceUnavailableError, "invalid-answer"),
        (reply([1]), ServiceUnavailableError, "invalid-answer"),
        (reply(b"<html>", kind="text/html"), ServiceUnavailableError, "invalid-answer"),
        (
            stream(chunk("a"), {"error": {"message": "overloaded"}}),
            ServiceUnavailableError,
            "service-failed",
        ),
        (
            stream(chunk(delta={"refusal": "I cannot"}), chunk(finish_reason="stop")),
            ServiceRefusedError,
            "llm-refused",
        ),
        (says("x", reason="content_filter"), ServiceRefusedError, "llm-content-filter"),
        (reply({"error": {"message": "bad key"}}, 401), ServiceRefusedError, "http-401"),
        (reply({"error": {"message": "no such model"}}, 404), ServiceRefusedError, "http-404"),
        (reply({"error": "plain"}, 500), ServiceUnavailableError, "http-500"),
        (reply(b"gateway", 502), ServiceUnavailableError, "http-502"),
        (
            reply({"error": {"message": "pay", "code": "insufficient_quota"}}, 429),
            ServiceRefusedError,
            "http-429",
        ),
    ],
)
async def test_what_goes_wrong_is_final_or_may_pass(
    service: Service, ask: Ask, script: bytes, kind: type[Exception], code: str
) -> None:
    service.answer = lambda asked: script

    with pytest.raises(kind) as caught:
        await ask()
    assert caught.value.code == code  # type: ignore[attr-defined]


async def test_an_error_says_what_the_service_says_and_when_to_come_again(
    service: Service, ask: Ask
) -> None:
    service.answer = lambda asked: reply(
        {"error": {"message": "slow down"}}, 429, {"Retry-After": "9"}
    )

    with pytest.raises(ServiceUnavailableError, match="429 Too Many Requests: slow down") as caught:
        await ask()
    assert caught.value.after == 9


# ── answers that must fit ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ['{"n": 1}', ' {"n": 1}\n', '```json\n{"n": 1}\n```'])
async def test_an_answer_that_fits_is_json(service: Service, ask: Ask, text: str) -> None:
    service.answer = lambda asked: says(text)

    assert (await ask(response_schema=SCHEMA))["json"] == {"n": 1}
    assert len(service.asked) == 1


@pytest.mark.parametrize("first", ['{"n": "one"}', "{}", "certainly! {", '[{"n": 1}]'])
async def test_an_answer_that_does_not_fit_is_asked_for_once_more(
    service: Service, ask: Ask, first: str
) -> None:
    service.answer = one_after_another(says(first), says('{"n": 1}'))

    found = await ask(response_schema=SCHEMA)

    repair = service.asked[1].json["messages"]
    assert (found["json"], found["usage"]["total_tokens"]) == ({"n": 1}, 240)
    assert repair[1] == {"role": "assistant", "content": first}
    assert "does not fit the JSON Schema" in repair[2]["content"]


async def test_an_answer_that_never_fits_is_an_error_with_what_it_cost(
    service: Service, ask: Ask
) -> None:
    service.answer = lambda asked: says('{"n": "x"}')

    with pytest.raises(ServiceUnavailableError, match="is not of type") as caught:
        await ask(response_schema=SCHEMA)
    assert (caught.value.code, len(service.asked)) == ("llm-misfit", 2)
    assert caught.value.details["usage"]["total_tokens"] == 2 * USAGE["total_tokens"]  # type: ignore[operator]


async def test_an_answer_that_was_cut_short_is_final(service: Service, ask: Ask) -> None:
    service.answer = lambda asked: says('{"n": ', reason="length")

    with pytest.raises(ServiceRefusedError, match="raise `max_tokens`"):
        await ask(response_schema=SCHEMA)


@pytest.mark.parametrize(
    "config",
    [
        {"prompt": "a", "messages": [{"role": "user", "content": "a"}]},
        {"messages": []},
        {"messages": [{"role": "robot", "content": "a"}]},
        {"temperature": 3},
        {"max_tokens": 0},
        {"response_schema": {"type": "nonsense"}},
        {"response_schema": {"$ref": "http://127.0.0.1/x"}},
        {"model": ""},
    ],
)
async def test_a_config_that_is_wrong_asks_nobody(service: Service, ask: Ask, config: Any) -> None:
    with pytest.raises(ServiceRefusedError) as caught:
        await ask(**config)
    assert (caught.value.code, service.connections) == ("invalid-config", 0)


# ── keys ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("config", "sent"),
    [
        ({}, "Bearer worker-key"),
        ({"api_key": "mine"}, "Bearer mine"),
        ({"base_url": "{url}/other"}, None),
        ({"base_url": "{url}/other", "api_key": "mine"}, "Bearer mine"),
    ],
)
async def test_the_workers_key_goes_to_the_workers_service_only(
    service: Service, ask: Ask, config: dict[str, str], sent: str | None
) -> None:
    service.answer = lambda asked: says("x")

    await ask(**{name: value.replace("{url}", service.url) for name, value in config.items()})

    assert service.asked[0].headers.get("authorization") == sent


# ── prices ──────────────────────────────────────────────────────────────────────────────────


def test_prices_come_from_json_or_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text(PRICES)

    assert read_prices(str(file)) == read_prices(PRICES)
    assert read_prices(None).by_model == {}


@pytest.mark.parametrize("text", ["{", '{"m": {"input": 1}}', "no-such-file", json.dumps({"m": 1})])
def test_prices_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="MINUET_LLM_PRICES"):
        read_prices(text)


@pytest.mark.shows("U-17")
@pytest.mark.parametrize("status", [200, 401, 500])
async def test_the_key_is_recorded_nowhere(
    scene: Any, service: Service, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    caplog.set_level(logging.DEBUG)
    key = "sk-canary-51c2"
    # Some services repeat the key that they refuse.
    wrong = reply({"error": {"message": f"wrong key: {key}"}}, status)
    service.answer = lambda asked: says("fine") if status == 200 else wrong
    secrets = Vault(OPENAI_BASE_URL=service.url, OPENAI_API_KEY=key)
    asking = node("ask", type="llm", config={"model": "m", "prompt": "x"}, retry=QUICK_RETRY)
    async with scene(egress_private=True, secrets=secrets) as s:
        result = await s.run(workflow(asking))
        recorded = repr((await s.events(result.run_id), result))

    assert service.asked[0].headers["authorization"] == f"Bearer {key}"
    assert (result.status == "COMPLETED") == (status == 200)
    assert key not in recorded
    assert key not in caplog.text
