"""The steps of durable functions can be seen on every store."""

from __future__ import annotations

from typing import Any

import minuet


@minuet.task(name="fs-double")
async def double(n: int) -> int:
    return 2 * n


@minuet.task(name="fs-fail", retries=0)
async def fail() -> None:
    raise ValueError("not today")


@minuet.workflow(name="fs-order")
async def order(ctx: minuet.Flow) -> Any:
    found = [await double(2)]
    try:
        await fail()
    except ValueError:
        found.append(await double(3))
    return [*found, await ctx.signal("go")]


async def test_a_run_shows_the_steps_of_its_function(scene: Any) -> None:
    async with scene() as s:
        run = await s.app.start(order)
        await s.until(run, lambda row: row.seq >= 6)
        node = (await s.app.runs.show(run)).nodes["fs-order"]
        assert [(step.name, step.status) for step in node.steps] == [
            ("fs-double", "COMPLETED"),
            ("fs-fail", "FAILED"),
            ("fs-double #2", "COMPLETED"),
        ]
        assert [step.input for step in node.steps] == [{"n": 2}, {}, {"n": 3}]
        assert [step.output for step in node.steps] == [4, None, 6]
        assert node.steps[1].error["message"] == "not today"
        (wait,) = node.waiting_for.data["waits"]
        assert (wait["for"], wait["name"]) == ("signal", "go")
        assert wait["place"].startswith(f"{__file__}:")
        why = await s.app.runs.explain(run, "fs-order")
        assert why.summary.startswith("'fs-order' waits for the signal 'go' (")
        assert len(why.details["steps"]) == 3

        await s.app.signal(run, "go", "now")
        await s.end(run)
        (instance,) = (await s.app.runs.instances(run)).values()
        assert [step.name for step in instance.steps][3:] == ["signal go"]
        before = (await s.app.runs.replay(run, at=4)).nodes["fs-order"]
        assert [step.name for step in before.steps] == ["fs-double", "fs-fail"]


async def test_the_steps_of_the_items_of_a_foreach_are_apart(scene: Any) -> None:
    @minuet.workflow(name="fs-item")
    async def doubled(ctx: minuet.Flow, n: int) -> int:
        return await double(n)

    node = {
        "id": "each",
        "type": "flow",
        "handler": "fs-item",
        "config": {"n": "{{ item }}"},
        "foreach": {"items": "{{ input.numbers }}"},
    }
    async with scene() as s:
        result = await s.run({"name": "fs-each", "nodes": [node]}, {"numbers": [1, 2]})
        assert result.status == "COMPLETED", result.error
        instances = await s.app.runs.instances(result.run_id, "each")
        assert [[step.input for step in one.steps] for one in instances.values()] == [
            [{"n": 1}],
            [{"n": 2}],
        ]


async def test_steps_of_handlers_are_not_taken_for_those_of_functions(scene: Any) -> None:
    async def keep(ctx: minuet.Context) -> int:
        value = await ctx.step("n", lambda: {"n": 1, "kind": "step", "at_ms": 3})
        return int(value["n"])

    document = {"name": "kept", "nodes": [{"id": "a", "type": "task", "handler": "keep"}]}
    async with scene({"keep": keep}) as s:
        result = await s.run(document)
        assert result.output == {"a": 1}
        assert (await s.app.runs.show(result.run_id)).nodes["a"].steps == ()


async def test_a_large_result_is_shown_as_its_blob(scene: Any) -> None:
    @minuet.workflow(name="fs-large")
    async def large(ctx: minuet.Flow) -> int:
        return len(await ctx.step("make", lambda: 200_000 * "x"))

    async with scene() as s:
        result = await s.run(large)
        (step,) = (await s.app.runs.show(result.run_id)).nodes["fs-large"].steps
        assert step.output is None
        assert step.blob.startswith("cas://sha256:")


class Vault:
    """Has one secret."""

    def get(self, name: str) -> str:
        return "hush-hush-12345"


class Refused(Exception):
    """Says too much."""

    def __init__(self, key: str) -> None:
        super().__init__(f"refused with {key}", key)
        self.key = key


@minuet.task(name="fs-secret", retries=0)
async def refuse(ctx: minuet.Context) -> None:
    raise Refused(ctx.secret("KEY"))


async def test_an_exception_of_a_step_is_kept_and_arrives_without_secrets(scene: Any) -> None:
    @minuet.workflow(name="fs-secretive", secrets=["KEY"])
    async def secretive(ctx: minuet.Flow) -> list[Any]:
        try:
            await refuse()  # type: ignore[call-arg]
        except Refused as error:
            await ctx.sleep(0.01)
            return [error.key, list(error.args)]
        return []

    async with scene(secrets=Vault()) as s:
        result = await s.run(secretive)
        assert result.output == ["***", ["refused with ***", "***"]]
        assert "hush-hush" not in str(await s.events(result.run_id))
