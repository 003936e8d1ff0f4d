"""Every public name, as a user uses it: in a script, in a program that embeds Minuet, in a handler
and where errors are caught."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any, Literal, NoReturn, assert_type

import minuet

Status = Literal["PENDING", "RUNNING", "PAUSED", "COMPENSATING", "COMPLETED", "FAILED", "CANCELLED"]

assert_type(minuet.__version__, str)

logs = logging.StreamHandler()
logs.addFilter(minuet.RunLogFilter())


# ── handlers ────────────────────────────────────────────────────────────────────────────────


class CardDeclined(minuet.NonRetryable):
    """Retrying does not help."""


@minuet.task(retries=3, timeout=30)
async def fetch(url: str, ctx: minuet.Context) -> dict[str, Any]:
    assert_type(ctx.run_id, str)
    assert_type(ctx.node_id, str)
    assert_type(ctx.workflow, str)
    assert_type(ctx.lease_id, str)
    assert_type(ctx.scope, tuple[int, ...])
    assert_type(ctx.attempt, int)
    assert_type(ctx.idempotency_key, str)
    assert_type(ctx.secret("TOKEN"), str)
    assert_type(ctx.cancelled, bool)
    ctx.log.info("fetching %s for %s, after %s", url, ctx.input, list(ctx.inputs))
    page: dict[str, Any] = await ctx.step("page", json.loads, "{}")
    if not page:
        raise minuet.Retryable("not there yet", after=1.5)
    return page


@minuet.task
def charge(amount: float, ctx: minuet.Context) -> None:
    try:
        ctx.heartbeat()
    except minuet.LeaseLost:
        return
    if amount > 1000:
        raise CardDeclined("too much")


@minuet.task
async def ship(order_id: int, country: str = "DE") -> str:
    return f"{country}-{order_id}"


@minuet.task
def weigh(order_id: int) -> float:
    return 1.5


@minuet.workflow
async def order(ctx: minuet.Flow, order_id: int, express: bool = False) -> dict[str, float]:
    parcel, _ = await asyncio.gather(ship(order_id), ship(order_id, "FR"))
    assert_type(parcel, str)
    weight = await weigh.step(order_id)
    assert_type(weight, float)
    assert_type(await ship.step(order_id, country="FR"), str)
    await ctx.sleep(days=1)
    paid: dict[str, Any] = await ctx.signal("paid", timeout=60)
    ctx.log.info("%s %s %s", ctx.now(), ctx.uuid(), paid)
    if ctx.version("weigh-again"):
        weight = await weigh.step(order_id)
    return {parcel: weight * ctx.random()}


@minuet.workflow(name="orders", deadline=3600)
async def orders(ctx: minuet.Flow, numbers: list[int]) -> int:
    children = await asyncio.gather(*(ctx.start(order, number) for number in numbers))
    assert_type(children, list[dict[str, float]])
    return len(children)


function: minuet.Function[..., int] = orders


@minuet.node_type("search", version="2", display_name="Search", effects="none")
async def search(config: dict[str, Any], ctx: minuet.Context) -> list[str]:
    return [str(config["text"]), ctx.node_id]


@minuet.node_type("poll", config_schema={"type": "object"}, output_schema={})
class Poll:
    def run(self, call: minuet.Call) -> dict[str, Any] | minuet.Wait:
        assert_type(call.resumed, bool)
        return {"inputs": call.inputs} if call.resumed else minuet.Wait("timer", delay_ms=1000)


assert_type(Poll(), Poll)


tasks: list[minuet.Task[..., Any]] = [fetch, charge]


# ── a durable function ──────────────────────────────────────────────────────────────────────


@minuet.workflow(name="durable", deadline=60)
async def durable(ctx: minuet.Flow, url: str, times: int = 1) -> list[str]:
    assert_type(ctx.random(), float)
    assert_type(ctx.version("second"), bool)
    await ctx.sleep(days=1)
    return [url] * times


functions: list[minuet.Function[..., Any]] = [durable]


# ── a script ────────────────────────────────────────────────────────────────────────────────


def script() -> int:
    result = minuet.run(
        "order.yaml", {"order_id": 7}, store="memory://", handlers=[sys.modules[__name__]]
    )
    assert_type(result, minuet.RunResult)
    assert_type(result.run_id, str)
    assert_type(result.status, Status)
    assert_type(result.nodes["fetch"], minuet.NodeResult)
    assert_type(result.nodes["fetch"].status, str)
    assert_type(result.nodes["fetch"].attempts, int)
    assert_type(result.nodes["fetch"].error, dict[str, Any] | None)
    assert_type(result.error, dict[str, Any] | None)
    assert_type(result.duration_ms, int | None)
    assert_type(result.seq, int)
    total: int = result.output["total"]
    parcel: str = result.nodes["ship"].output
    print(json.dumps(result.to_json()), total, parcel)
    return 0 if result.status == "COMPLETED" else 1


# ── a workflow ──────────────────────────────────────────────────────────────────────────────


def workflow() -> minuet.Workflow:
    with minuet.Workflow("order", input={"type": "object"}, defaults={"queue": "q"}) as order:
        assert_type(order, minuet.Workflow)
        page = fetch.named()(url=order.input.url)
        assert_type(page, minuet.Node)
        paid = charge.named("pay")(page.output.lines[0].price * 2)
        each = charge.map(amount=page.output.prices, max_parallel=3)
        asked = minuet.human("ask", title="Pay?", approvers=["ann"]).rejected(each)
        other = minuet.child("other", workflow="shipping@main", input={"id": order.run.id})
        ends = [
            minuet.noop("end"),
            minuet.transform("sum", {"total": page.output.total}),
            minuet.transform("product", expression="input.a * 2"),
            minuet.decision("decision"),
            minuet.wait("wait", seconds=3),
            minuet.http("http", url="https://x.example", json={"a": order.input.a}),
            minuet.llm("llm", model="m", prompt=order.input.question),
            minuet.agent("agent", model="m", available_tools=["search"]),
            minuet.node("own", type="my_type", config={"a": 1}),
        ]
        page.branch((page.output.total > 1000, asked), ("output.ok", ends), default=paid)
        paid.loop(while_=~paid.output.ok & (order.iteration < 3), max_iterations=5, back_to=page)
        assert_type(asked.then(paid), minuet.Node)
        paid.retry(3, retry_on=[TimeoutError]).timeout(5).on_error("continue")
        paid.compensate(charge, amount=paid.output.amount).set(join="any")
        # A plain call is typed as the function's: a checker cannot know where it stands.
        charge(amount=page.output.total, ctx=page.output)
        order.set(output=other.output)
    assert_type(order.to_dict(), dict[str, Any])
    assert_type(order.to_yaml(), str)
    assert_type(order["pay"], minuet.Node)
    assert_type(minuet.run(order, {"url": "x"}), minuet.RunResult)
    return minuet.Workflow.load("order.yaml")


# ── a program that embeds it ────────────────────────────────────────────────────────────────


class Vault:
    """Gives the values of secrets."""

    def get(self, name: str) -> str:
        return {"TOKEN": "t"}[name]


vault: minuet.SecretProvider = Vault()


async def program() -> None:
    assert_type(await minuet.arun({"nodes": []}, timeout=5), minuet.RunResult)
    async with minuet.App(
        "sqlite:///orders.db",
        handlers=["orders"],
        concurrency=8,
        lease_seconds=10,
        retry=minuet.Retry(max_attempts=5, backoff_ms=100, retry_on=("TimeoutError",)),
        queues=["orders"],
        name="first",
        capabilities={"gpu": 1},
        tenant="default",
        secrets=vault,
    ) as app:
        assert_type(app, minuet.App)
        run = await app.start("order.yaml", {"order_id": 7}, idempotency_key="7", tags={"a": 1})
        assert_type(run, minuet.RunHandle)
        assert_type(
            await app.start_many("order.yaml", ({"n": n} for n in range(9))), list[minuet.RunHandle]
        )
        assert_type(await app.run("order.yaml", timeout=1.5), minuet.RunResult)
        assert_type(await app.wait(run, timeout=5), minuet.RunResult)
        assert_type(await app.runs.create("order.yaml"), minuet.RunHandle)
        for changed in (
            await app.runs.trigger(run, {"order_id": 7}),
            await app.runs.pause(run),
            await app.runs.resume(run),
            await app.cancel(run, reason="not wanted"),
            await app.runs.retry(run),
        ):
            assert_type(changed.status, Status)
        async for seq, at_ms, event in app.follow(run, after=3):
            assert_type((seq, at_ms), tuple[int, int])
            print(event)
        print((await app.runs.explain(run, "fetch")).summary)
        assert_type(await app.runs.show(run), minuet.RunResult)
        assert_type(await app.runs.replay(run, at=3), minuet.RunResult)
        assert_type(await app.runs.events(run), list[dict[str, Any]])
        assert_type(await app.runs.find("01"), str)
        for one in await app.runs.list(statuses=("FAILED",), workflow="order", limit=10):
            assert_type(one.run, str)
        for letter in await app.dead_letters.list(run_id=run):
            print(letter.node_id, letter.error)
        async for retried in app.dead_letters.retry(await app.dead_letters.ids(), per_second=5):
            assert_type(retried.is_retried, bool)
        for worker in await app.workers.list():
            print(worker.name, worker.status)
    await app.open()
    await app.close()


async def by_a_server() -> None:
    async with minuet.AsyncClient("https://one.test,https://two.test", api_key="mnt_1") as client:
        assert_type(client, minuet.AsyncClient)
        run = await client.start("order", {"order_id": 7}, idempotency_key="7")
        assert_type(run, minuet.RunHandle)
        assert_type(await run.wait(timeout=5), minuet.RunResult)
        assert_type(client.age_s, float | None)
    with minuet.Client("https://one.test") as sync_client:
        assert_type(sync_client.start("order", {"order_id": 7}), minuet.SyncRunHandle)
        assert_type(sync_client.runs.show("01"), minuet.RunResult)


def threaded() -> None:
    with minuet.SyncApp("sqlite:///orders.db", handlers=["orders"], concurrency=8) as app:
        assert_type(app, minuet.SyncApp)
        run = app.start("order.yaml", {"order_id": 7}, idempotency_key="7", tags={"a": 1})
        assert_type(run, minuet.SyncRunHandle)
        assert_type(run.wait(timeout=5), minuet.RunResult)
        assert_type(app.start_many("order.yaml", [{"n": 1}]), list[minuet.SyncRunHandle])
        assert_type(app.run("order.yaml"), minuet.RunResult)
        limits: minuet.RunLimits = {"max_hops": 10, "deadline_s": 2.5}
        assert_type(app.start("order.yaml", limits=limits), minuet.SyncRunHandle)
        assert_type(app.runs.create("order.yaml"), minuet.SyncRunHandle)
        assert_type(app.runs.handle("01"), minuet.SyncRunHandle)
        assert_type(app.cancel(run, reason="not wanted").status, Status)
        assert_type(app.runs.events(run), list[dict[str, Any]])
        for one in app.runs.list(statuses=("FAILED",), workflow="order", limit=10):
            assert_type(one.run, str)
        for seq, at_ms, _ in run.follow(after=3):
            assert_type((seq, at_ms), tuple[int, int])
        assert_type(app.for_tenant("acme").run("order.yaml"), minuet.RunResult)
    app.open()
    app.close()


def receive(headers: dict[str, str], body: bytes) -> str:
    content = minuet.verify_webhook(headers, body, ["old", "new"], tolerance=60)
    assert_type(content, dict[str, Any])
    return str(content["type"])


# ── errors ──────────────────────────────────────────────────────────────────────────────────


def explain(error: minuet.MinuetError) -> str:
    assert_type(error.code, str)
    match error:
        case minuet.DocumentError():
            return "\n".join(problem.message for problem in error.diagnostics)
        case minuet.InputError():
            assert_type(error.problems, tuple[str, ...])
            assert_type(error.argument, str | None)
        case minuet.RunFailed():
            assert_type(error.node, str | None)
            return f"{error.run_id} is {error.status}: {error.error}"
        case minuet.RunTimeoutError():
            assert_type(error.seconds, float)
        case minuet.PlayError():
            assert_type(error.waits, tuple[str, ...])
        case minuet.RunConflictError():
            assert_type((error.run_id, error.status, error.seq), tuple[str, str, int])
        case minuet.NodeNotFoundError():
            return "a node"
        case minuet.RunNotFoundError():
            return error.run_id
        case minuet.AmbiguousRunError():
            assert_type(error.matches, tuple[str, ...])
        case minuet.DamagedRowError():
            return error.what
        case minuet.StartError():
            assert_type(error.answers, tuple[str | minuet.RunConflictError, ...])
        case minuet.ChildFailedError() | minuet.ChildDepthError():
            return "a child run"
        case minuet.RunError():
            return "about a run"
        case minuet.WorkflowNotFoundError():
            assert_type(error.close, tuple[str, ...])
            assert_type((error.name, error.newest), tuple[str, int])
        case minuet.AgentError():
            pass
        case minuet.EgressError():
            assert_type((error.host, error.port), tuple[str, int])
        case minuet.ServiceUnavailableError():
            assert_type(error.after, float | None)
        case minuet.ServiceRefusedError() | minuet.ServiceError():
            assert_type(error.details, dict[str, Any])
        case minuet.ConditionError() | minuet.TemplateError():
            return error.source
        case minuet.ExpressionError():
            return error.source
        case minuet.SignalTimeoutError():
            assert_type((error.name, error.seconds), tuple[str, float])
        case minuet.InputLimitError():
            assert_type((error.size, error.limit), tuple[int, int])
        case minuet.BlobError():
            assert_type((error.ref, error.problem), tuple[str, str])
        case minuet.ServerUnavailableError():
            assert_type(error.is_sent, bool)
        case minuet.PositionError():
            return error.position
        case minuet.StoreUnavailableError() | minuet.StoreUnusableError() | minuet.SessionError():
            return "the store"
        case minuet.StoreError() | minuet.NotOpenError() | minuet.InvariantError():
            return "not the document"
        case minuet.ReplayError():
            assert_type((error.recorded, error.wanted), tuple[str, list[str]])
        case (
            minuet.DeadLetterNotFoundError()
            | minuet.RedriveNotFoundError()
            | minuet.ApprovalNotFoundError()
            | minuet.KeyNotFoundError()
        ):
            return error.id
        case minuet.AlreadyDecidedError() | minuet.NotAnApproverError():
            return "a decision"
        case minuet.ApprovalTimeoutError():
            return "a decision"
        case minuet.StepFailed():
            assert_type((error.step, error.error), tuple[str, dict[str, Any]])
        case minuet.FunctionError():
            return "a durable function"
        case minuet.SecretError() | minuet.WebhookError():
            print(error.code)
        case minuet.CannotWaitError() | minuet.OutputError():
            return "a handler"
        case minuet.HandlerError() | minuet.ConfigError():
            return "the program"
        case _:
            return str(error)
    return str(error)


def main() -> NoReturn:
    try:
        code = script()
        asyncio.run(program())
    except minuet.MinuetError as error:
        sys.exit(explain(error))
    sys.exit(code)
