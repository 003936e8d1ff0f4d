"""A node type with I/O runs as handlers do: it talks to a real server on the loopback interface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import minuet
from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.context import Context
from minuet.nodes.handler import Handlers
from minuet.nodes.spec import Call, NodeType, Wait
from minuet.store.changes import Cancel
from minuet.store.records import DEFAULT_TENANT
from minuet.worker.worker import Worker

from ..scenario.harness import PATIENCE, QUICK_RETRY, node, open_scene, workflow

SECRET = "s3cr3t-of-the-service"


class Service:
    """A server that answers each line; `answer` says with what, and None: never."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.asked = asyncio.Event()
        self.left = asyncio.Event()
        self.answer: Callable[[str], str | None] = lambda line: line.upper()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readline()).decode().strip()
        self.lines.append(line)
        self.asked.set()
        answer = self.answer(line)
        if answer is None:
            # Until the client hangs up.
            await reader.read()
            self.left.set()
        else:
            writer.write(f"{answer}\n".encode())
        writer.close()


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made


async def ask(port: int, text: str) -> str:
    """Send a line and read the answer; a refusal is raised."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"{text}\n".encode())
        answer = (await reader.readline()).decode().strip()
    finally:
        writer.close()
    if answer.startswith("busy"):
        raise ConnectionError(answer)
    if answer.startswith("bad"):
        raise ValueError(answer)
    return answer


@pytest.fixture
def ask_type(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Call, Context]]:
    """The node type `ask`, and what it is called with."""
    calls: list[tuple[Call, Context]] = []

    async def run(call: Call, ctx: Context) -> Any:
        calls.append((call, ctx))
        text = call.config["text"]
        for name in call.secrets:
            text += f" {ctx.secret(name)}"
        if call.config.get("step"):
            return await ctx.step("ask", ask, call.config["port"], text)
        if call.config.get("wait") and not call.resumed:
            return Wait("timer", delay_ms=1)
        return await ask(call.config["port"], text)

    made = NodeType(name="ask", summary="Asks a service.", kind="io", queue="ask", run_async=run)
    monkeypatch.setitem(NODE_TYPES, "ask", made)
    return calls


def asking(service: Service, text: str = "hello", **fields: Any) -> dict[str, Any]:
    config = {"port": service.port, "text": text, **fields.pop("config", {})}
    return node("ask", *fields.pop("after", ()), type="ask", config=config, **fields)


async def test_it_gets_its_call_and_the_context_of_handlers(
    scene: Any, service: Service, ask_type: list[tuple[Call, Context]]
) -> None:
    agent = {"model": "m", "prompt": "{{ not rendered }}"}
    document = workflow(
        node("a", type="transform", config={"value": "world"}),
        asking(service, "{{ a.output }}", after=["a"], timeout_seconds=20, agent_config=agent),
    )
    async with scene() as s:
        result = await s.run(document, {"x": 1})

        ((call, ctx),) = ask_type
        assert result.output == {"ask": "WORLD"}
        assert call.config == {"port": service.port, "text": "world"}
        assert (call.inputs, call.input, call.timeout_ms) == ({"a": "world"}, {"x": 1}, 20_000)
        assert call.parts["agent_config"]["prompt"] == "{{ not rendered }}"
        assert (ctx.run_id, ctx.node_id, ctx.scope, ctx.attempt) == (result.run_id, "ask", (), 1)
        assert (ctx.inputs, ctx.input, ctx.cancelled) == ({"a": "world"}, {"x": 1}, False)
        assert len(ctx.idempotency_key) == 32


async def test_a_worker_that_started_no_run_serves_it(
    store_url: str, service: Service, ask_type: list[Any]
) -> None:
    async with open_scene(store_url, worker=False) as s:
        run_id = await s.app.start(workflow(asking(service)))
        worker = Worker(s.store, handlers=Handlers())
        working = asyncio.create_task(worker.run())
        result = await s.end(run_id)
        worker.stop()
        await working

        assert result.output == {"ask": "HELLO"}


async def test_it_is_cut_off_when_its_time_is_over(
    scene: Any, service: Service, ask_type: list[Any]
) -> None:
    service.answer = lambda line: None
    async with scene() as s:
        result = await s.run(
            workflow(asking(service, timeout_seconds=0.05, retry={"max_attempts": 1}))
        )
        await asyncio.wait_for(service.left.wait(), PATIENCE)

        assert (result.status, result.error["code"]) == ("FAILED", "timeout")


async def test_it_is_retried_with_the_same_idempotency_key(
    scene: Any, service: Service, ask_type: list[tuple[Call, Context]]
) -> None:
    service.answer = lambda line: "busy" if len(service.lines) < 3 else "done"
    async with scene() as s:
        result = await s.run(workflow(asking(service, retry=QUICK_RETRY)))

        assert result.output == {"ask": "done"}
        assert [ctx.attempt for _, ctx in ask_type] == [1, 2, 3]
        assert len({ctx.idempotency_key for _, ctx in ask_type}) == 1


@pytest.mark.parametrize(
    ("answer", "retry", "attempts"),
    [
        ("busy", {"retry_on": ["ConnectionError"]}, 3),
        ("bad", {"retry_on": ["ConnectionError"]}, 1),
        ("busy", {"no_retry_on": ["OSError"]}, 1),
    ],
)
async def test_its_errors_are_classified_by_the_policy(
    scene: Any, service: Service, ask_type: list[Any], answer: str, retry: Any, attempts: int
) -> None:
    service.answer = lambda line: answer
    async with scene() as s:
        result = await s.run(workflow(asking(service, retry={**QUICK_RETRY, **retry})))

        assert result.status == "FAILED"
        assert len(service.lines) == attempts


async def test_an_error_that_would_come_again_is_not_retried_without_a_policy(
    scene: Any, service: Service, ask_type: list[Any]
) -> None:
    service.answer = lambda line: "bad"
    async with scene() as s:
        result = await s.run(workflow(asking(service)))

        assert (result.error["type"], len(service.lines)) == ("ValueError", 1)


async def test_it_is_cancelled_with_its_run(
    scene: Any, service: Service, ask_type: list[tuple[Call, Context]]
) -> None:
    service.answer = lambda line: None
    async with scene() as s:
        run_id = await s.app.start(workflow(asking(service)))
        await asyncio.wait_for(service.asked.wait(), PATIENCE)
        await s.app.cancel(run_id)
        await asyncio.wait_for(service.left.wait(), PATIENCE)
        await s.idle()

        assert (await s.end(run_id)).status == "CANCELLED"
        assert ask_type[0][1].cancelled


async def test_it_is_cancelled_when_its_lease_is_lost(
    scene: Any, service: Service, ask_type: list[tuple[Call, Context]]
) -> None:
    service.answer = lambda line: None
    # Leases are renewed every 100 ms, and the next renewal is refused.
    async with scene(lease_seconds=0.3) as s:
        run_id = await s.app.start(workflow(asking(service)))
        await asyncio.wait_for(service.asked.wait(), PATIENCE)
        # Behind the worker's back, as another process would.
        await s.app.store.change_run(DEFAULT_TENANT, run_id, Cancel())
        await asyncio.wait_for(service.left.wait(), PATIENCE)
        await s.idle()

        assert ask_type[0][1].cancelled
        assert await s.count(run_id, "node.completed") == 0


async def test_its_lease_is_renewed_while_it_runs(
    scene: Any, service: Service, ask_type: list[Any]
) -> None:
    renewals = 0
    renewed = asyncio.Event()

    class Watched:
        """The store of a worker; it sees renewals."""

        def __init__(self, store: Any) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        async def exchange(self, request: Any) -> Any:
            nonlocal renewals
            reply = await self._store.exchange(request)
            renewals += len(request.renew)
            if renewals >= 5:
                renewed.set()
            return reply

    async def answer_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await renewed.wait()
        writer.write(b"late\n")
        writer.close()

    server = await asyncio.start_server(answer_late, "127.0.0.1", 0)
    service.port = server.sockets[0].getsockname()[1]
    async with server, scene(around=Watched, lease_seconds=0.3) as s:
        result = await s.run(workflow(asking(service)))

        # Five renewals are longer than a lease.
        assert result.output == {"ask": "late"}
        assert len(ask_type) == 1


async def test_a_draining_worker_gives_it_back(
    scene: Any, service: Service, ask_type: list[tuple[Call, Context]]
) -> None:
    service.answer = lambda line: None
    async with scene(drain_seconds=0) as s:
        run_id = await s.app.start(workflow(asking(service)))
        await asyncio.wait_for(service.asked.wait(), PATIENCE)
        s.app.worker.stop()
        await s.app.working
        (token,) = await s.store.read_tokens(DEFAULT_TENANT, run_id)

        assert (token.state, token.attempt) == ("ready", 1)
        assert ask_type[0][1].cancelled


async def test_a_step_is_recorded_once_across_attempts(
    scene: Any, service: Service, ask_type: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_type = NODE_TYPES["ask"]

    async def fail_first(call: Call, ctx: Context) -> Any:
        assert asked_type.run_async is not None
        answer = await asked_type.run_async(call, ctx)
        if ctx.attempt == 1:
            raise minuet.Retryable("after the step")
        return answer

    changed = NodeType(name="ask", summary="", kind="io", queue="ask", run_async=fail_first)
    monkeypatch.setitem(NODE_TYPES, "ask", changed)
    async with scene() as s:
        result = await s.run(workflow(asking(service, config={"step": True}, retry=QUICK_RETRY)))

        assert result.output == {"ask": "HELLO"}
        assert service.lines == ["hello"]
        assert await s.count(result.run_id, "step.recorded") == 1


async def test_it_may_wait_and_is_called_again(
    scene: Any, service: Service, ask_type: list[Any]
) -> None:
    async with scene() as s:
        result = await s.run(workflow(asking(service, config={"wait": True})))

        assert result.output == {"ask": "HELLO"}
        assert len(ask_type) == 2


class Vault:
    """A provider of secrets that knows one."""

    def get(self, name: str) -> str:
        return {"TOKEN": SECRET}[name]


async def test_it_reads_its_secrets_from_the_workers_provider(
    scene: Any, service: Service, ask_type: list[Any]
) -> None:
    service.answer = lambda line: "fine"
    async with scene(secrets=Vault()) as s:
        result = await s.run(workflow(asking(service, secrets=["TOKEN"])))

        assert service.lines == [f"hello {SECRET}"]
        assert result.output == {"ask": "fine"}
        assert SECRET not in repr(await s.events(result.run_id))


async def test_a_secret_that_a_provider_gave_is_masked_in_errors(
    scene: Any, service: Service, ask_type: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    class Once(Vault):
        """It gives each secret once, as one that has been rotated since does."""

        given = False

        def get(self, name: str) -> str:
            if self.given:
                raise OSError("the vault is away")
            self.given = True
            return super().get(name)

    service.answer = lambda line: f"bad request: {line}"
    async with scene(secrets=Once()) as s:
        result = await s.run(workflow(asking(service, secrets=["TOKEN"])))

        assert result.error["message"] == "bad request: hello ***"
        assert SECRET not in repr(await s.events(result.run_id))
        assert SECRET not in caplog.text


@pytest.mark.parametrize("provider", [Vault(), {}, {"OTHER": None}])
async def test_a_secret_that_is_missing_is_a_clear_error(
    scene: Any, service: Service, ask_type: list[Any], provider: Any
) -> None:
    async with scene(secrets=provider) as s:
        result = await s.run(workflow(asking(service, secrets=["OTHER"], retry=QUICK_RETRY)))

        whose = f"{type(provider).__name__} does not have it"
        assert result.error["message"] == f"the secret 'OTHER' is not here: {whose}"
        assert (result.error["code"], service.lines) == ("secret-error", [])
        assert result.nodes["ask"].attempts == 1


def test_something_that_gives_no_secrets_is_refused() -> None:
    with pytest.raises(minuet.ConfigError, match=r"secrets.*get\(name\)"):
        minuet.App("memory://", secrets="TOKEN")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields", [{"kind": "io", "queue": "x"}, {"kind": "inline"}, {"run": len, "kind": "io"}]
)
def test_a_node_type_must_have_what_its_kind_runs(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="kind"):
        NodeType(name="x", summary="", **fields)
