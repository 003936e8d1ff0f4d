"""Node types that users register: they run as handlers do, on workers that have them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

import minuet
from minuet.app import shapes
from minuet.nodes.handler import REGISTERED, Handlers
from minuet.worker.worker import Worker

from ..scenario.harness import QUICK_RETRY, node, workflow
from ..waiting import until


class Query(msgspec.Struct):
    text: str
    limit: int = 2


class Hits(msgspec.Struct):
    found: list[str]


class Rules(msgspec.Struct):
    rules: list[str]
    #: Added later.
    strict: bool = False


class Strictness(msgspec.Struct):
    """The rules are gone."""

    strict: bool = False


@pytest.mark.shows("H-21")
async def test_it_gets_its_config_and_its_output_goes_on(scene: Any) -> None:
    @minuet.node_type("search")
    async def search(query: Query, ctx: minuet.Context) -> Hits:
        assert ctx.node_id == "look"
        return Hits([query.text] * query.limit)

    document = workflow(
        node("look", type="search", config={"text": "{{ input.text }}"}),
        node("use", "look", type="transform", config={"value": "{{ look.found[1] }}"}),
    )
    async with scene() as s:
        result = await s.run(document, {"text": "x"})

    assert result.output == {"use": "x"}


async def test_a_class_that_blocks_runs_in_a_thread_and_keeps_steps(scene: Any) -> None:
    @minuet.node_type("count")
    class Count:
        def run(self, config: dict[str, Any], ctx: minuet.Context) -> Any:
            kept = ctx.step("once", lambda: config["n"] + 1)
            if ctx.attempt == 1:
                raise ConnectionError("not yet")
            return {"kept": kept, "attempt": ctx.attempt}

    document = workflow(node("c", type="count", config={"n": 4}, retry=QUICK_RETRY))
    async with scene() as s:
        result = await s.run(document)

    assert result.output == {"c": {"kept": 5, "attempt": 2}}


async def test_a_type_that_waits_is_called_again(scene: Any) -> None:
    calls = []

    @minuet.node_type("poll")
    async def poll(call: minuet.Call) -> dict[str, int] | minuet.Wait:
        calls.append(call.resumed)
        return {"polls": 2} if call.resumed else minuet.Wait("timer", delay_ms=1)

    async with scene() as s:
        result = await s.run(workflow(node("p", type="poll")))

    assert result.output == {"p": {"polls": 2}}
    assert calls == [False, True]


async def test_a_rendered_config_that_does_not_fit_is_final(scene: Any) -> None:
    calls = []

    @minuet.node_type("search")
    async def search(query: Query) -> None:
        calls.append(query)

    document = workflow(
        node("look", type="search", config={"text": "{{ input }}"}, retry=QUICK_RETRY)
    )
    async with scene() as s:
        result = await s.run(document, 7)

    error = result.nodes["look"].error
    assert (result.status, result.nodes["look"].attempts, calls) == ("FAILED", 1, [])
    assert error["code"] == "invalid-input"
    assert "node type 'search': text: 7 is not of type \"string\"" in error["message"]


async def test_a_config_that_is_constant_is_checked_when_it_is_compiled(scene: Any) -> None:
    @minuet.node_type("search")
    async def search(query: Query) -> None: ...

    document = workflow(node("look", type="search", config={"txt": "x"}))
    async with scene() as s:
        with pytest.raises(minuet.DocumentError) as caught:
            s.app.workflows.compile(document)

    assert {d.code for d in caught.value.diagnostics} == {"bad-config"}


@pytest.mark.shows("G-21")
async def test_it_sees_what_kind_of_config_a_blob_has_and_can_refuse_it(scene: Any) -> None:
    @minuet.node_type("validate", version="2")
    async def validate(call: minuet.Call) -> Any:
        if call.parts["type_url"] != "svc.validate/Config@2":
            raise minuet.NonRetryable(f"not a config for this version: {call.parts['type_url']}")
        return call.config["rules"]

    async with scene() as s:
        ref = await s.store.put_blob(b'{"rules": ["not empty"]}')

        async def run(version: int) -> Any:
            reference = {"type_url": f"svc.validate/Config@{version}", "cas_ref": ref}
            return await s.run(workflow(node("v", type="validate", config_ref=reference)))

        old, new = await run(1), await run(2)

    assert (old.status, new.status) == ("FAILED", "COMPLETED")
    assert old.error["message"] == "not a config for this version: svc.validate/Config@1"
    assert new.output == {"v": ["not empty"]}


@pytest.mark.shows("C-14")
async def test_a_config_from_before_an_optional_field_was_added_still_fits(scene: Any) -> None:
    @minuet.node_type("validate")
    async def validate(config: Rules) -> list[Any]:
        return [*config.rules, config.strict]

    async with scene() as s:

        async def run(config: bytes) -> Any:
            ref = await s.store.put_blob(config)
            reference = {"type_url": "svc.validate/Config@1", "cas_ref": ref}
            return await s.run(workflow(node("v", type="validate", config_ref=reference)))

        before = await run(b'{"rules": ["x"]}')
        after = await run(b'{"rules": ["x"], "strict": true}')
        broken = await run(b'{"strict": true}')

    assert before.output == {"v": ["x", False]}
    assert after.output == {"v": ["x", True]}
    assert broken.status == "FAILED"
    assert '"rules" is a required property' in broken.error["message"]


@pytest.mark.shows("C-15")
async def test_a_type_without_a_field_that_was_required_needs_another_version(scene: Any) -> None:
    @minuet.node_type("validate")
    async def validate(config: Strictness) -> list[Any]:
        return [config.strict]

    @minuet.node_type("validate_both")
    async def validate_both(call: minuet.Call) -> list[Any]:
        if call.parts["type_url"].endswith("@1"):
            old = msgspec.convert(call.config, Rules)
            return [old.strict, *old.rules]
        return [msgspec.convert(call.config, Strictness).strict]

    async with scene() as s:

        async def run(type: str, config: bytes, version: int) -> Any:
            ref = await s.store.put_blob(config)
            reference = {"type_url": f"svc.validate/Config@{version}", "cas_ref": ref}
            return await s.run(workflow(node("v", type=type, config_ref=reference)))

        old, new = b'{"rules": ["x"], "strict": true}', b'{"strict": true}'
        changed = await run("validate", old, 1)
        both = [await run("validate_both", old, 1), await run("validate_both", new, 2)]
        claimed = await run("validate_both", new, 1)

    # Configs from before do not fit the changed type, and are never read as if they did.
    assert changed.status == "FAILED"
    assert "'rules' was unexpected" in changed.error["message"]
    assert [one.output for one in both] == [{"v": [True, "x"]}, {"v": [True]}]
    assert claimed.status == "FAILED"


async def test_an_output_that_does_not_fit_is_final(scene: Any) -> None:
    schema = {"type": "object", "required": ["found"]}

    @minuet.node_type("search", output_schema=schema)
    def search(config: dict[str, Any]) -> Any:
        return {"fnd": []}

    async with scene() as s:
        result = await s.run(workflow(node("look", type="search", retry=QUICK_RETRY)))

    error = result.nodes["look"].error
    assert (result.status, result.nodes["look"].attempts) == ("FAILED", 1)
    assert error["code"] == "invalid-output"
    assert '"found" is a required property' in error["message"]


async def test_it_is_cut_off_by_its_timeout(scene: Any) -> None:
    @minuet.node_type("hang")
    async def hang(ctx: minuet.Context) -> None:
        await asyncio.Event().wait()

    document = workflow(
        node("h", type="hang", timeout_seconds=0.01, retry={**QUICK_RETRY, "max_attempts": 1})
    )
    async with scene() as s:
        result = await s.run(document)

    assert result.nodes["h"].error["code"] == "timeout"


@pytest.mark.shows("H-21")
async def test_only_a_worker_that_has_it_takes_it(scene: Any) -> None:
    document = workflow(node("look", type="search", config={"text": "x"}), node("n"))
    async with scene(worker=False) as s:
        compiled = s.app.workflows.compile(document)
        assert [(d.code, d.severity) for d in compiled.warnings] == [
            ("unknown-node-type", "warning")
        ]
        run_id = await s.app.start(document)
        without = Worker(s.store, handlers=Handlers())
        working = asyncio.create_task(without.run())
        await s.until(run_id, lambda run: run.counter == 1)
        explained = await s.app.runs.explain(run_id, "look")
        assert "no worker has node type 'search'" in str(explained)
        assert [(one.node, one.queue) for one in await s.app.runs.unserved(run_id)] == [
            ("look", "type:search")
        ]

        @minuet.node_type("search")
        async def search(query: Query) -> str:
            return query.text

        handlers = Handlers()
        found = REGISTERED.find_type("search")
        assert found is not None
        handlers.add_type(found)
        having = Worker(s.store, handlers=handlers)
        also = asyncio.create_task(having.run())
        result = await s.end(run_id)
        announced = {worker.id: worker.executors for worker in await s.app.workers.list()}
        for one in (without, having):
            one.stop()
        await asyncio.gather(working, also)

        assert result.output == {"look": "x", "n": {}}
        assert "search" in announced[having.id]
        assert "search" not in announced[without.id]


async def test_an_app_with_a_worker_refuses_a_type_that_it_does_not_have(scene: Any) -> None:
    @minuet.node_type("search")
    async def search(config: dict[str, Any]) -> None: ...

    async with scene() as s:
        with pytest.raises(minuet.DocumentError) as caught:
            s.app.workflows.compile(workflow(node("look", type="serch")))
        (found,) = caught.value.diagnostics
        assert (found.code, found.severity) == ("unknown-node-type", "error")
        assert found.hint == 'did you mean "search"?'


@pytest.mark.shows("A-24")
async def test_each_type_has_a_queue_of_its_own_and_others_that_of_their_name(scene: Any) -> None:
    for name in ("classifier", "search", "function"):
        minuet.node_type(name)(lambda config: config)
    types = ("classifier", "search", "function", "http", "other")
    nodes = [
        node(name, type=name, config={"url": "https://x.test"} if name == "http" else {})
        for name in types
    ]

    async with scene(worker=False) as s:
        plan = s.app.workflows.compile(workflow(*nodes)).plan
        await s.app.start(workflow(*nodes))
        waiting = {one.queue: one.ready for one in await s.app.workers.queues()}

    queues = {node.id: node.queue for node in plan.nodes}
    assert queues == {
        "classifier": "type:classifier",
        "search": "type:search",
        "function": "type:function",
        "http": "http",
        "other": "type:other",
    }
    assert waiting == dict.fromkeys(queues.values(), 1)


@pytest.mark.shows("H-19")
async def test_what_a_worker_announces_is_known_where_its_code_is_not(scene: Any) -> None:
    @minuet.node_type(
        "search",
        version="2",
        display_name="Search",
        description="Looks for texts.\n\nLong ones, too.",
        icon="https://x.test/search.svg",
        image="registry.test/search:2",
        capabilities={"languages": ["en"]},
    )
    async def search(query: Query) -> Hits:
        return Hits([query.text])

    having = Handlers()
    having.add_type(REGISTERED._types.pop("search"))
    async with scene(worker=False) as s:

        async def announced() -> bool:
            return bool(await s.store.list_cells("node_types/"))

        seen = []
        for _ in range(2):
            worker = Worker(s.store, handlers=having)
            working = asyncio.create_task(worker.run())
            await until(s.store, announced)
            worker.stop()
            await working
            seen += [one for one in await s.app.workflows.node_types() if one.name == "search"]
        others = await s.app.for_tenant("other").workflows.node_types()

    first, second = map(shapes.node_type, seen)
    assert first == second
    assert {name: value for name, value in first.items() if not name.endswith("_schema")} == {
        "name": "search",
        "version": "2",
        "display_name": "Search",
        "summary": "Looks for texts.",
        "description": "Long ones, too.",
        "icon": "https://x.test/search.svg",
        "image": "registry.test/search:2",
        "queue": "type:search",
        "capabilities": {"supports_retry": True, "takes_secrets": True, "languages": ["en"]},
        "output": "any JSON",
        "example": {},
        "created_at": shapes.moment(seen[0].created_ms),
    }
    assert first["created_at"] is not None
    assert first["config_schema"]["required"] == ["text"]
    assert first["output_schema"]["required"] == ["found"]
    assert first["input_schema"] == {"type": "object"}
    assert "search" not in {one.name for one in others}


@pytest.mark.shows("C-21")
async def test_the_facade_lists_it_among_all_types(scene: Any) -> None:
    @minuet.node_type("search", version="3")
    async def search(config: dict[str, Any]) -> None: ...

    async with scene() as s:
        found = {one.name: one.version for one in await s.app.workflows.node_types()}

    assert (found["search"], found["task"]) == ("3", "1")
    assert {"task", "transform", "noop"} <= found.keys()
    assert "migration" not in found
