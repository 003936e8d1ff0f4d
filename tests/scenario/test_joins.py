"""Branches above and below joins, and the joins that do not wait for all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import minuet

from .harness import node, task, workflow


def branch(*rules: tuple[str, list[str]], default: list[str] | None = None) -> dict[str, Any]:
    return {
        "rules": [{"when": when, "next_nodes": to} for when, to in rules],
        "default": default or [],
    }


def statuses(result: Any) -> dict[str, str]:
    return {name: node.status for name, node in result.nodes.items()}


@pytest.mark.shows("E-02", "E-01")
async def test_a_rule_may_choose_several_nodes(scene: Any) -> None:
    document = workflow(
        node("choose", branch=branch(("true", ["x", "y"]), default=["z"])),
        *(node(name) for name in "xyz"),
    )
    async with scene() as s:
        result = await s.run(document)

        assert set(result.output) == {"x", "y"}
        history = await s.app.runs.history(result.run_id)
        assert history[2][2].counter == 3  # x and y, and the skip that ends z


@pytest.mark.shows("E-04")
async def test_a_branch_replaces_the_static_dependents(scene: Any) -> None:
    document = workflow(
        node("choose", branch=branch(("false", ["x"]))), node("x"), node("static", "choose")
    )
    async with scene() as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert statuses(result) == {"choose": "COMPLETED", "x": "SKIPPED", "static": "SKIPPED"}


@pytest.mark.shows("E-07")
async def test_a_branch_that_is_not_enabled_leaves_the_static_dependents(scene: Any) -> None:
    rules = [{"condition": "true", "next_nodes": ["x"]}]
    document = workflow(
        node("choose", branch={"enabled": False, "rules": rules}), node("x", "choose")
    )
    async with scene() as s:
        result = await s.run(document)

        assert statuses(result) == {"choose": "COMPLETED", "x": "COMPLETED"}


@pytest.mark.shows("E-08")
async def test_a_rule_that_cannot_be_evaluated_does_not_match_and_is_noted(scene: Any) -> None:
    document = workflow(
        node("choose", branch=branch(("output.no.such > 1", ["x"]), ("true", ["y"]))),
        node("x"),
        node("y"),
    )
    async with scene() as s:
        result = await s.run(document)

        assert set(result.output) == {"y"}
        (done,) = [e for e in await s.events(result.run_id) if e.get("node") == "choose"]
        assert done["notes"][0]["rule"] == 0
        assert "no" in done["notes"][0]["error"]
        assert done["notes"][1] == {"rule": 1, "to": ["y"]}


@pytest.mark.shows("D-41", "D-54")
async def test_a_branch_that_chooses_nothing_ends_its_run(scene: Any) -> None:
    document = workflow(node("choose", branch=branch(("false", ["x"]))), node("x"), node("y", "x"))
    async with scene() as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert result.output == {}
        assert statuses(result) == {"choose": "COMPLETED", "x": "SKIPPED", "y": "SKIPPED"}


@pytest.mark.shows("D-54")
@pytest.mark.parametrize("way", ["x", "y", "both", "none"])
async def test_a_join_below_a_branch_never_hangs(scene: Any, way: str) -> None:
    document = workflow(
        node(
            "choose",
            branch=branch(
                ("input.way == 'x'", ["x"]),
                ("input.way == 'y'", ["y"]),
                ("input.way == 'both'", ["x", "y"]),
            ),
        ),
        node("x"),
        node("y"),
        node("after_x", "x"),
        task("join", "after_x", "y", handler="names"),
        node("end", "join"),
    )

    async def names(ctx: minuet.Context) -> list[str]:
        return sorted(ctx.inputs)

    expected = {"x": ["after_x"], "y": ["y"], "both": ["after_x", "y"], "none": None}[way]
    async with scene({"names": names}) as s:
        result = await s.run(document, {"way": way})

        assert result.status == "COMPLETED"
        assert result.nodes["join"].output == expected
        assert result.nodes["end"].status == ("COMPLETED" if expected else "SKIPPED")


async def test_a_branch_below_a_join_decides_with_all_its_inputs(scene: Any) -> None:
    document = workflow(
        node("a", type="transform", config={"value": 1}),
        node("b", type="transform", config={"value": 2}),
        node("join", "a", "b", branch=branch(("ctx.a.output + ctx.b.output == 3", ["yes"]))),
        node("yes"),
        node("end", "yes"),
    )
    async with scene() as s:
        result = await s.run(document)

        assert set(result.output) == {"end"}


class Race:
    """Handlers of a race: `fast` returns at once, `slow` waits to be let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.started = asyncio.Event()
        self.told = asyncio.Event()
        self.joined: list[list[str]] = []

    def handlers(self) -> dict[str, Any]:
        return {"fast": self.fast, "slow": self.slow, "join": self.join, "free": self.free}

    async def fast(self) -> str:
        await self.started.wait()
        return "fast"

    async def slow(self) -> str:
        self.started.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.told.set()
            raise
        return "slow"

    async def join(self, ctx: minuet.Context) -> list[str]:
        self.joined.append(sorted(ctx.inputs))
        return sorted(ctx.inputs)

    async def free(self) -> None:
        self.go.set()


@pytest.mark.parametrize("spelling", [{"join": "any"}, {"wait_for_all": False}, {"join": 1}])
async def test_an_any_join_fires_at_the_first_arrival_and_absorbs_the_rest(
    scene: Any, spelling: dict[str, Any]
) -> None:
    race = Race()
    document = workflow(
        task("fast"), task("slow"), task("join", "fast", "slow", **spelling), task("free", "join")
    )
    async with scene(race.handlers()) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert race.joined == [["fast"]]
        assert result.nodes["slow"].output == "slow"


async def test_an_n_join_fires_at_the_nth_arrival(scene: Any) -> None:
    race = Race()
    document = workflow(
        task("fast"),
        task("other", handler="fast"),
        task("slow"),
        task("join", "fast", "other", "slow", join=2),
        task("free", "join"),
    )
    async with scene(race.handlers()) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert race.joined == [["fast", "other"]]


async def test_an_n_join_with_too_few_live_arrivals_runs_with_what_came(scene: Any) -> None:
    race = Race()
    race.started.set()
    document = workflow(
        node("choose", branch=branch(("true", ["a"]))),
        task("a", handler="fast"),
        node("b"),
        node("c"),
        task("join", "a", "b", "c", join=2),
    )
    async with scene(race.handlers()) as s:
        result = await s.run({**document, "edges": [{"from": "choose", "to": n} for n in "bc"]})

        assert result.status == "COMPLETED"
        assert race.joined == [["a"]]


async def test_a_join_that_cancels_the_rest_tells_the_handler_and_drops_its_result(
    scene: Any,
) -> None:
    race = Race()
    document = workflow(
        task("fast"),
        task("slow"),
        node("below", "slow"),
        task("join", "fast", "below", join="any", join_rest="cancel"),
    )
    async with scene(race.handlers(), lease_seconds=0.03) as s:
        run_id = await s.app.start(document)
        result = await s.end(run_id)

        assert result.status == "COMPLETED"
        assert race.joined == [["fast"]]
        assert result.nodes["slow"].status == "CANCELLED"
        assert result.nodes["slow"].reason == "withdrawn_by_join"
        async with asyncio.timeout(60):
            await race.told.wait()
        assert "slow" not in await s.order(run_id)


async def test_an_each_join_runs_for_every_arrival_with_all_below_it(scene: Any) -> None:
    seen: list[tuple[Any, ...]] = []

    async def one(ctx: minuet.Context) -> str:
        (name,) = ctx.inputs
        seen.append((name, ctx.scope, ctx.idempotency_key))
        return f"one {name}"

    async def below(what: str) -> str:
        return f"below {what}"

    document = workflow(
        *(node(name) for name in "abc"),
        task("one", "a", "b", "c", join="each"),
        task("below", "one", config={"what": "{{ one.output }}"}),
    )
    async with scene({"one": one, "below": below}) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert {(name, len(scope)) for name, scope, _ in seen} == {("a", 1), ("b", 1), ("c", 1)}
        assert len({key for *_, key in seen}) == 3
        assert result.nodes["below"].instances == 3
        outputs = [e["output"] for e in await s.events(result.run_id) if e.get("node") == "below"]
        assert sorted(outputs) == ["below one a", "below one b", "below one c"]


@pytest.mark.shows("D-52")
async def test_a_join_says_whom_it_waits_for(scene: Any) -> None:
    race = Race()
    document = workflow(task("fast"), task("slow"), task("join", "fast", "slow"))
    async with scene(race.handlers()) as s:
        run_id = await s.app.start(document)
        await s.until(run_id, lambda run: run.counter == 1)
        why = await s.app.runs.explain(run_id, "join")
        race.go.set()
        await s.end(run_id)

        assert [(m.node, m.status) for m in why.missing] == [("slow", "RUNNING")]
