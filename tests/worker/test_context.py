"""What a handler gets: its arguments and its context."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import functools
import logging
from typing import Any

import msgspec
import pytest

import minuet
from minuet.app.compiling import compile_source
from minuet.errors import DocumentError, InputError, RunConflictError
from minuet.nodes.handler import Handlers, Task
from minuet.store.changes import Cancel
from minuet.store.records import DEFAULT_TENANT
from minuet.worker.worker import Worker

from ..scenario.harness import QUICK_RETRY, module_of, node, open_scene, task, workflow


@pytest.mark.shows("H-39")
async def test_a_handler_sees_its_run_node_and_inputs(scene: Any) -> None:
    seen: dict[str, Any] = {}

    async def look(ctx: minuet.Context) -> None:
        seen.update(
            run_id=ctx.run_id,
            workflow=ctx.workflow,
            node_id=ctx.node_id,
            scope=ctx.scope,
            attempt=ctx.attempt,
            inputs=dict(ctx.inputs),
            input=ctx.input,
            cancelled=ctx.cancelled,
        )

    document = workflow(
        node("a", type="transform", config={"value": [1]}),
        node("not_a_parent", type="transform", config={"value": 2}),
        task("look", "a"),
    )
    async with scene({"look": look}) as s:
        result = await s.run(document, {"x": 1})

        assert seen == {
            "run_id": result.run_id,
            "workflow": "example",
            "node_id": "look",
            "scope": (),
            "attempt": 1,
            "inputs": {"a": [1]},
            "input": {"x": 1},
            "cancelled": False,
        }


@pytest.mark.shows("E-16")
async def test_an_idempotency_key_is_of_the_instance_and_not_of_the_attempt(scene: Any) -> None:
    keys: list[tuple[str, Any, int, str]] = []

    async def work(ctx: minuet.Context) -> None:
        keys.append((ctx.node_id, ctx.scope, ctx.attempt, ctx.idempotency_key))
        if ctx.attempt < 3:
            raise minuet.Retryable("again")

    loop = {"condition": "iteration < 1", "max_iterations": 2}
    document = workflow(
        task("a", handler="work", retry=QUICK_RETRY),
        task("b", handler="work", retry=QUICK_RETRY, loop=loop),
    )
    async with scene({"work": work}) as s:
        await s.run(document)
        await s.run(document)

        by_instance: dict[Any, set[str]] = {}
        for number, (name, scope, _, key) in enumerate(keys):
            by_instance.setdefault((number >= 9, name, scope), set()).add(key)
        assert len(keys) == 18
        assert len(by_instance) == 6
        assert all(len(found) == 1 for found in by_instance.values())
        assert len(set.union(*by_instance.values())) == 6


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_step_is_done_once_and_kept_across_attempts(scene: Any, kind: str) -> None:
    done: list[str] = []

    def charge(amount: int, *, currency: str) -> dict[str, Any]:
        done.append("charge")
        return {"charged": amount, "in": currency}

    async def notify() -> None:
        done.append("notify")

    async def work(ctx: minuet.Context) -> Any:
        receipt = await ctx.step("charge", charge, 5, currency="EUR")
        assert await ctx.step("notify", notify) is None
        if ctx.attempt < 3:
            raise minuet.Retryable("again")
        return receipt

    def work_in_thread(ctx: minuet.Context) -> Any:
        receipt = ctx.step("charge", charge, 5, currency="EUR")
        assert ctx.step("notify", lambda: done.append("notify")) is None
        if ctx.attempt < 3:
            raise minuet.Retryable("again")
        return receipt

    handlers = {"work": work if kind == "async" else work_in_thread}
    async with scene(handlers) as s:
        result = await s.run(workflow(task("work", retry=QUICK_RETRY)))

        assert result.output == {"work": {"charged": 5, "in": "EUR"}}
        assert done == ["charge", "notify"]
        assert [e["name"] for e in await s.events(result.run_id, "step.recorded")] == [
            *("charge", "notify")
        ]


@dataclasses.dataclass
class Receipt:
    amount: decimal.Decimal
    at: datetime.datetime


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_the_result_of_a_step_has_its_type_the_first_time_and_later(
    scene: Any, kind: str
) -> None:
    seen: list[Any] = []

    def charge(amount: str) -> Receipt:
        return Receipt(decimal.Decimal(amount), datetime.datetime(2026, 5, 1))

    async def charge_all(amounts: list[str]) -> list[Receipt]:
        return [charge(amount) for amount in amounts]

    async def work(ctx: minuet.Context) -> None:
        seen.append(await ctx.step("one", charge, "1.50"))
        seen.append(await ctx.step("all", charge_all, ["2.50"]))
        if ctx.attempt == 1:
            raise minuet.Retryable("again", after=0)

    def work_in_a_thread(ctx: minuet.Context) -> None:
        seen.append(ctx.step("one", functools.partial(charge, "1.50")))
        seen.append(ctx.step("all", lambda: [charge("2.50")]))
        if ctx.attempt == 1:
            raise minuet.Retryable("again", after=0)

    async with scene({"work": work if kind == "async" else work_in_a_thread}) as s:
        result = await s.run(workflow(task("work", retry=QUICK_RETRY)))

    assert result.status == "COMPLETED", result.error
    assert seen[0] == seen[2] == charge("1.50")
    # A lambda says nothing of its type: JSON both times.
    plain = [{"amount": "2.50", "at": "2026-05-01T00:00:00"}]
    assert seen[1] == seen[3] == ([charge("2.50")] if kind == "async" else plain)


async def test_a_step_whose_result_is_not_what_it_says_fails_its_node(scene: Any) -> None:
    def charge() -> Receipt:
        return {"amount": "many"}  # type: ignore[return-value]

    async def work(ctx: minuet.Context) -> None:
        await ctx.step("charge", charge)

    async with scene({"work": work}) as s:
        result = await s.run(workflow(task("work")))

    assert result.error is not None
    assert result.error["message"] == (
        "step 'charge', the result at amount: Invalid decimal string"
    )


async def test_a_step_that_is_no_json_fails_its_node(scene: Any) -> None:
    async def work(ctx: minuet.Context) -> None:
        await ctx.step("odd", lambda: [b"raw"])

    async with scene({"work": work}) as s:
        result = await s.run(workflow(task("work", retry=QUICK_RETRY)))

        assert result.status == "FAILED"
        assert result.error is not None
        assert result.error["code"] == "invalid-output"
        assert result.nodes["work"].attempts == 1


async def test_a_step_under_a_lost_lease_stops_the_handler(scene: Any) -> None:
    ended: list[Any] = []

    async def work(ctx: minuet.Context) -> None:
        # Behind the worker's back, as another process would.
        await s.app.store.change_run(DEFAULT_TENANT, ctx.run_id, Cancel())
        try:
            await ctx.step("charge", lambda: 1)
        except Exception:  # A LeaseLost is none of these.
            ended.append("swallowed")
        except BaseException as error:
            ended.append((type(error), ctx.cancelled))
            raise

    async with scene({"work": work}) as s:
        run_id = await s.app.start(workflow(task("work")))
        await s.end(run_id)
        await s.idle()

        assert ended == [(minuet.LeaseLost, True)]
        assert await s.count(run_id, "step.recorded") == 0


async def test_a_secret_is_read_only_by_nodes_that_declare_it(
    scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "s3cr3t-value")
    monkeypatch.delenv("ABSENT", raising=False)

    async def work(name: str, ctx: minuet.Context) -> int:
        return len(ctx.secret(name))

    def document(name: str, *declared: str) -> Any:
        return workflow(task("work", config={"name": name}, secrets=list(declared)))

    async with scene({"work": work}) as s:
        good = await s.run(document("API_KEY", "API_KEY"))
        undeclared = await s.run(document("API_KEY"))
        absent = await s.run(document("ABSENT", "ABSENT"))

        assert good.output == {"work": 12}
        assert undeclared.status == absent.status == "FAILED"
        assert "declare" in undeclared.error["message"]
        assert absent.error["message"] == (
            "the secret 'ABSENT' is not here: the worker has no environment variable of this name"
        )
        assert undeclared.error["code"] == absent.error["code"] == "secret-error"
        for run_id in s.store.runs:
            assert "s3cr3t" not in repr(await s.events(run_id))


async def test_a_handlers_log_names_its_run_and_node(
    scene: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(ctx: minuet.Context) -> None:
        ctx.log.warning("look here")

    async with scene({"work": work}) as s:
        with caplog.at_level(logging.WARNING, "minuet.handler"):
            result = await s.run(workflow(task("work")))

        (record,) = [r for r in caplog.records if r.name == "minuet.handler"]
        assert (record.run_id, record.node_id, record.attempt) == (  # type: ignore[attr-defined]
            *(result.run_id, "work", 1),
        )


async def test_what_a_handler_does_to_its_inputs_stays_with_it(scene: Any) -> None:
    async def spoil(price: dict[str, Any], constant: dict[str, Any], ctx: minuet.Context) -> None:
        price["amount"] = constant["amount"] = 0
        for value in (*ctx.inputs.values(), ctx.input):
            if isinstance(value, dict):
                value["amount"] = 0

    branch = {
        "rules": [
            {
                "condition": "ctx.a.output.amount == 5 && input.amount == 5",
                "next_nodes": ["unspoilt"],
            }
        ]
    }
    document = workflow(
        node("a", type="transform", config={"value": {"amount": 5}}),
        task(
            "spoil",
            "a",
            config={"price": "{{ a.output }}", "constant": {"amount": 5}},
            branch=branch,
            loop={"condition": "iteration < 1", "max_iterations": 2},
        ),
        node("unspoilt"),
    )
    async with scene({"spoil": spoil}) as s:
        result = await s.run(document, {"amount": 5})

        assert result.nodes["unspoilt"].status == "COMPLETED"
        assert result.nodes["a"].output == {"amount": 5}


# ── arguments ───────────────────────────────────────────────────────────────────────────────


class Point(msgspec.Struct):
    x: int
    y: int = 0


@dataclasses.dataclass
class Answer:
    total: int
    points: list[Point]


async def test_arguments_are_made_by_their_type_hints_and_results_by_their_fields(
    scene: Any,
) -> None:
    async def work(point: Point, factor: float = 2, *, names: list[str]) -> Answer:
        assert isinstance(point, Point)
        return Answer(int(point.x * factor), [point])

    document = workflow(task("work", config={"point": {"x": 3}, "names": ["a"]}))
    async with scene({"work": work}) as s:
        result = await s.run(document)

        assert result.output == {"work": {"total": 6, "points": [{"x": 3, "y": 0}]}}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "needs the argument 'amount'"),
        ({"amount": 1, "amuont": 2}, "has no argument 'amuont' (did you mean 'amount'?)"),
        ({"amount": "many"}, "argument 'amount': Expected `int`, got `str`"),
        ({"amount": 1, "ctx": 2}, "has no argument 'ctx'"),
    ],
)
async def test_arguments_that_do_not_fit_fail_the_node_and_say_how(
    scene: Any, config: dict[str, Any], message: str
) -> None:
    ran = []

    async def work(amount: int, ctx: minuet.Context) -> None:
        ran.append(1)

    document = workflow(task("work", config=config, retry=QUICK_RETRY))
    async with scene({"work": work}) as s:
        # As another process compiles it, which does not have the handler.
        result = await s.run(compile_source(document))
        letters = await s.store.list_dead_letters("default", run=result.run_id)

        assert result.status == "FAILED"
        assert result.error is not None
        assert message in result.error["message"]
        assert result.error["code"] == "handler-error"
        assert ran == []
        assert len(letters) == 1


async def test_arguments_that_do_not_fit_are_reported_where_they_stand(scene: Any) -> None:
    async def work(amount: int, ctx: minuet.Context, note: str = "") -> None: ...

    document = workflow(
        task("a", handler="work", config={"amuont": 1}),
        task("b", handler="work"),
        task("c", "a", handler="work", config={"amount": "{{ a.output }}", "note": ""}),
        task("d", handler="work", config_ref="cas://sha256:abc", config={"notes": ""}),
    )
    async with scene({"work": work}) as s:
        with pytest.raises(DocumentError) as refused:
            await s.app.start(document)

        assert [(found.code, found.path) for found in refused.value.diagnostics] == [
            ("unknown-argument", "nodes[0].config.amuont"),
            ("missing-argument", "nodes[1].config"),
            ("unknown-argument", "nodes[3].config.notes"),
        ]
        assert "did you mean 'amount'?" in refused.value.diagnostics[0].message
        assert not s.store.runs


# ── finding handlers ────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("H-03")
async def test_the_handlers_input_and_output_are_there_without_asking(scene: Any) -> None:
    document = workflow(task("in", handler="input"), task("out", "in", handler="output", config={}))
    async with scene() as s:
        result = await s.run(document, {"x": 1})

        assert result.output == {"out": {"in": {"x": 1}}}


async def test_a_handler_that_does_not_exist_is_reported_where_it_is_named(scene: Any) -> None:
    async def total() -> None: ...

    async with scene({"total": total}) as s:
        with pytest.raises(DocumentError) as refused:
            await s.app.start(workflow(task("a", handler="totla"), task("b", handler="nothing")))

        first, second = refused.value.diagnostics
        assert (first.code, first.path) == ("unknown-handler", "nodes[0].handler")
        assert "did you mean 'total'" in first.message
        assert second.path == "nodes[1].handler"
        assert not s.store.runs


@pytest.mark.shows("H-05", "J-19")
async def test_a_handler_that_the_worker_lacks_makes_a_dead_letter(scene: Any) -> None:
    async with scene(worker=False) as s:  # Nobody to check the names at the start.
        document = workflow(task("a", handler="elsewhere"), defaults={"queue": "shared"})
        run_id = await s.app.start(document)
        worker = Worker(s.store, queues=("shared",))
        working = asyncio.create_task(worker.run())
        result = await s.end(run_id)
        worker.stop()
        await working
        (letter,) = await s.store.list_dead_letters("default", run=run_id)

        assert result.status == "FAILED"
        assert result.error is not None
        assert result.error["code"] == "handler-error"
        assert "elsewhere" in result.error["message"]
        assert letter.reason == "no_handler"


async def test_a_token_waits_for_a_worker_that_has_its_handler(scene: Any) -> None:
    async def here() -> str:
        return "here"

    handlers = Handlers()
    handlers.add(Task(here, name="here"))
    document = workflow(task("a", handler="here"), task("b", handler="elsewhere"))
    async with scene(worker=False) as s:
        run_id = await s.app.start(document)
        first = Worker(s.store, handlers=handlers)
        working = [asyncio.create_task(first.run())]
        await s.until(run_id, lambda run: run.seq == 3)
        waiting = (await s.app.runs.show(run_id)).nodes["b"].status
        other = Handlers()
        other.add(Task(here, name="elsewhere"))
        second = Worker(s.store, handlers=other)
        working.append(asyncio.create_task(second.run()))
        result = await s.end(run_id)
        first.stop()
        second.stop()
        await asyncio.gather(*working)

        assert waiting == "QUEUED"
        assert result.output == {"a": "here", "b": "here"}


@pytest.mark.parametrize("name", ["os:system", "subprocess:run", "minuet.app:App", "builtins:eval"])
async def test_a_function_of_a_module_that_was_not_given_is_refused(scene: Any, name: str) -> None:
    async with scene({}) as s:
        with pytest.raises(DocumentError) as refused:
            await s.app.start(workflow(task("a", handler=name, config={"command": "true"})))

        assert refused.value.diagnostics[0].code == "unknown-handler"


async def test_a_function_of_a_module_that_was_given_runs_by_its_full_name(store_url: str) -> None:
    module = module_of({})
    exec("def greet(name):\n    return f'hello {name}'\n", module.__dict__)
    module.secret_number = 7  # type: ignore[attr-defined]
    document = workflow(task("a", handler=f"{module.__name__}:greet", config={"name": "you"}))
    async with minuet.App(store_url, handlers=[module]) as app:
        result = await app.run(document)
        with pytest.raises(DocumentError, match="no function 'secret_number'"):
            await app.run(workflow(task("a", handler=f"{module.__name__}:secret_number")))

        assert result.output == {"a": "hello you"}


# ── configs and inputs ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", ["text", "object"])
async def test_a_config_may_be_a_blob(scene: Any, form: str) -> None:
    async def work(greeting: str, name: str) -> str:
        return f"{greeting} {name}"

    async with scene({"work": work}) as s:
        blob = b'{"greeting": "hello", "name": "{{ input.name }}"}'
        ref = await s.store.put_blob(blob)
        written = ref if form == "text" else {"type_url": "example/v1", "cas_ref": ref}
        result = await s.run(workflow(task("work", config_ref=written)), {"name": "you"})

        assert result.output == {"work": "hello you"}


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"[1]", "not a JSON object"), (b"{", "not a JSON object"), (None, "not in")],
)
async def test_a_config_blob_that_is_no_config_fails_its_node(
    scene: Any, data: bytes | None, message: str
) -> None:
    async def work() -> None: ...

    async with scene({"work": work}) as s:
        ref = "cas://sha256:" + "0" * 64 if data is None else await s.store.put_blob(data)
        result = await s.run(workflow(task("work", config_ref=ref, retry=QUICK_RETRY)))

        assert result.status == "FAILED"
        assert result.error is not None
        assert result.error["code"] == "handler-error"
        assert message in result.error["message"]


async def test_an_input_is_checked_against_the_workflows_schema(scene: Any) -> None:
    schema = {
        "type": "object",
        "required": ["id"],
        "properties": {"id": {"type": "integer"}, "tags": {"items": {"type": "string"}}},
    }
    async with scene() as s:
        with pytest.raises(InputError) as refused:
            await s.app.start(workflow(node("a"), input=schema), {"id": "x", "tags": [1]})
        result = await s.run(workflow(node("a"), input=schema), {"id": 1})

        assert len(refused.value.problems) == 2
        assert any(p.startswith("tags[0]") for p in refused.value.problems)
        assert result.status == "COMPLETED"
        assert list(s.store.runs) == [result.run_id]


async def test_starting_twice_under_one_key_starts_one_run(scene: Any) -> None:
    document = workflow(node("a"))
    async with scene() as s:
        first = await s.app.start(document, 1, idempotency_key="k")
        again = await s.app.start(document, 1, idempotency_key="k")
        with pytest.raises(RunConflictError):
            await s.app.start(document, 2, idempotency_key="k")
        other = await s.app.start(document, 2, idempotency_key="l")

        assert first == again != other
        assert set(s.store.runs) == {first, other}


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_whatever_is_logged_inside_a_handler_carries_its_run_and_node(kind: str) -> None:
    records: list[logging.LogRecord] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    library = logging.getLogger("a.library")
    kept = Kept()
    kept.addFilter(minuet.RunLogFilter())
    library.addHandler(kept)

    def work() -> None:
        library.warning("here")

    async def work_async() -> None:
        library.warning("here")
        await asyncio.to_thread(library.warning, "in a thread")
        await asyncio.create_task(in_a_task())

    async def in_a_task() -> None:
        library.warning("in a task")

    try:
        async with open_scene("memory://", {"work": work if kind == "sync" else work_async}) as s:
            document = workflow(task("a", handler="work"), task("b", handler="work"))
            result = await s.run(document)
            library.warning("outside")
    finally:
        library.removeHandler(kept)

    *inside, outside = records
    found = {(r.getMessage(), r.run_id, r.node_id, r.attempt) for r in inside}  # type: ignore[attr-defined]
    texts = ("here",) if kind == "sync" else ("here", "in a thread", "in a task")
    assert found == {(text, result.run_id, name, 1) for text in texts for name in ("a", "b")}
    assert outside.run_id is None  # type: ignore[attr-defined]
