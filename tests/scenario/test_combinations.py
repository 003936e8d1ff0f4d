"""Constructs inside each other: lists, child runs, signals, loops, services, secrets, large values.

Each has a file of its own. Here each works inside another, and is cancelled and retried there.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import minuet
from minuet.app.app import App
from minuet.app.move.mover import Mover
from minuet.app.stores import make_store
from minuet.clock import SystemClock
from minuet.kernel.scope import decode
from minuet.store.base import Store
from minuet.store.records import Run

from ..services import Asked, Service, open_service, reply
from ..waiting import until_waiting
from .harness import PATIENCE, Scene, module_of, node, open_scene, task, workflow
from .test_children import child, children_of, doubling, quiet

#: What is stored as a blob: more than an event holds.
LARGE = "x" * 200_000


def transform(name: str, value: Any, *dependencies: str) -> dict[str, Any]:
    """A node that gives a value."""
    return node(name, *dependencies, type="transform", config={"value": value})


def wait(name: str, signal: str, **fields: Any) -> dict[str, Any]:
    """A node that waits for a signal."""
    return node(name, type="wait", config={"signal": signal}, **fields)


async def waiting(s: Scene, kind: str, count: int) -> None:
    """Wait until this many tokens wait for something of this kind."""
    await until_waiting(s.store, kind, count)


async def items_of(s: Scene, run: str) -> list[Run]:
    """The child runs of a list, in its order."""
    return sorted(await children_of(s, run), key=lambda row: decode(row.parent_scope))


class Once:
    """A handler that fails the first time for some of its values."""

    def __init__(self, *failing: int) -> None:
        self.failing = set(failing)
        self.calls: list[int] = []

    async def __call__(self, value: int) -> int:
        self.calls.append(value)
        if value in self.failing:
            self.failing.discard(value)
            raise minuet.NonRetryable(f"{value} is not there yet")
        return 2 * value


def handlers(once: Once) -> dict[str, Any]:
    async def sometimes(value: int) -> int:
        return await once(value)

    return {"sometimes": sometimes}


def doing(value: str = "{{ input.value }}") -> dict[str, Any]:
    """A workflow that has a handler do something with its input."""
    return workflow(
        task("do", handler="sometimes", config={"value": value}),
        name="doing",
        output="{{ do.output }}",
    )


# ── lists of child runs ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("max_parallel", [None, 2])
async def test_child_runs_of_a_list_keep_its_order(scene: Any, max_parallel: int | None) -> None:
    foreach = {"items": "{{ input }}", "max_parallel": max_parallel}
    foreach = {name: value for name, value in foreach.items() if value is not None}
    document = workflow(
        child("c", doing(), input={"value": "{{ item }}"}, foreach=foreach),
        transform("sum", "{{ c.output | sum }}", "c"),
    )
    async with scene(handlers(Once())) as s:
        result = await s.run(document, list(range(12)))

        assert result.output == {"sum": 2 * sum(range(12))}
        assert result.nodes["c"].output == [2 * n for n in range(12)]
        assert result.nodes["c"].instances == 12
        assert len(await children_of(s, result.run_id)) == 12


async def test_a_retry_runs_only_the_child_runs_of_a_list_that_failed(scene: Any) -> None:
    once = Once(1, 3)
    foreach = {"items": "{{ input }}"}
    document = workflow(child("c", doing(), input={"value": "{{ item }}"}, foreach=foreach))
    async with scene(handlers(once)) as s:
        failed = await s.run(document, [0, 1, 2, 3])
        assert failed.error["code"] == "child_failed"
        await quiet(s)
        while failed.status == "FAILED":
            await s.app.runs.retry(failed.run_id)
            failed = await s.end(failed.run_id)

        assert failed.output == {"c": [0, 2, 4, 6]}
        rows = await children_of(s, failed.run_id)
        assert len(rows) == 4
        assert {row.status for row in rows} == {"COMPLETED"}
        # Those that another one cut off run again as well.
        assert {value for value in range(4) if once.calls.count(value) > 1} >= {1, 3}


async def test_a_child_run_that_fails_leaves_its_error_in_the_list(scene: Any) -> None:
    foreach = {"items": "{{ input }}", "on_item_error": "continue"}
    document = workflow(child("c", doing(), input={"value": "{{ item }}"}, foreach=foreach))
    async with scene(handlers(Once(1))) as s:
        result = await s.run(document, [0, 1, 2])

        first, second, third = result.output["c"]
        assert (first, third) == (0, 4)
        assert second["error"]["code"] == "child_failed"
        assert second["error"]["child"]["node"] == "do"


async def test_a_list_that_needs_some_ends_the_child_runs_of_the_rest(scene: Any) -> None:
    inner = workflow(wait("w", "go"), name="inner", output="{{ w.output }}")
    foreach = {"items": [0, 1, 2], "need": 1}
    document = workflow(child("c", inner, foreach=foreach))
    async with scene() as s:
        run = await s.app.start(document)
        await waiting(s, "signal", 3)
        await s.app.signal((await items_of(s, run))[1].run, "go", "first")
        result = await s.end(run)
        await quiet(s)

        assert result.output == {"c": ["first"]}
        found = [row.status for row in await items_of(s, run)]
        assert found == ["CANCELLED", "COMPLETED", "CANCELLED"]


async def test_cancelling_a_run_ends_the_child_runs_of_its_list_and_a_retry_takes_them_up(
    scene: Any,
) -> None:
    inner = workflow(wait("w", "go"), name="inner", output="{{ w.output }}")
    document = workflow(child("c", inner, foreach={"items": [0, 1, 2]}))
    async with scene() as s:
        run = await s.app.start(document)
        await waiting(s, "signal", 3)
        await s.app.cancel(run)
        await quiet(s)
        rows = await items_of(s, run)
        assert [row.status for row in rows] == ["CANCELLED"] * 3

        await s.app.runs.retry(run)
        await waiting(s, "signal", 3)
        for number, row in enumerate(rows):
            await s.app.signal(row.run, "go", number)
        result = await s.end(run)

        assert result.output == {"c": [0, 1, 2]}
        assert [row.generation for row in await items_of(s, run)] == [2, 2, 2]


async def test_lists_inside_child_runs_inside_lists(scene: Any) -> None:
    inner = workflow(
        task(
            "each",
            handler="sometimes",
            config={"value": "{{ item }}"},
            foreach={"items": "{{ input.row }}"},
        ),
        name="row",
        output="{{ each.output }}",
    )
    foreach = {"items": "{{ input }}", "as": "row"}
    document = workflow(child("c", inner, input={"row": "{{ row }}"}, foreach=foreach))
    once = Once(5)
    async with scene(handlers(once)) as s:
        failed = await s.run(document, [[1, 2], [], [3, 4, 5]])
        assert failed.error["child"]["message"] == "5 is not there yet"
        assert (failed.error["node"], failed.error["child"]["node"]) == ("c", "each")
        assert "failed at node 'each': 5 is not there yet" in failed.error["message"]
        await quiet(s)
        await s.app.runs.retry(failed.run_id)
        result = await s.end(failed.run_id)

        assert result.output == {"c": [[2, 4], [], [6, 8, 10]]}
        assert once.calls.count(5) == 2


# ── signals ───────────────────────────────────────────────────────────────────────────────


async def test_each_item_of_a_list_waits_for_a_signal_of_its_own(scene: Any) -> None:
    each = wait("w", "paid-{{ item }}", foreach={"items": "{{ input }}"})
    async with scene() as s:
        run = await s.app.start(workflow(each), ["a", "b", "c"])
        await waiting(s, "signal", 3)
        shown = (await s.app.runs.show(run)).nodes["w"]
        assert (shown.status, shown.waiting_for.key) == ("WAITING", "paid-a")
        for name in ("c", "a", "b"):
            await s.app.signal(run, f"paid-{name}", {"by": name})
        result = await s.end(run)

        assert result.output == {"w": [{"by": "a"}, {"by": "b"}, {"by": "c"}]}


async def test_items_that_wait_for_one_name_receive_one_signal_each(scene: Any) -> None:
    each = wait("w", "vote", foreach={"items": "{{ input }}", "need": 2})
    async with scene() as s:
        run = await s.app.start(workflow(each), [1, 2, 3])
        await s.app.signal(run, "vote", "yes")
        await s.app.signal(run, "vote", "no")
        result = await s.end(run)

        assert sorted(result.output["w"]) == ["no", "yes"]


async def test_a_list_of_waits_is_cancelled_and_waits_again_when_it_is_retried(scene: Any) -> None:
    each = wait("w", "paid-{{ item }}", foreach={"items": "{{ input }}"})
    async with scene() as s:
        run = await s.app.start(workflow(each), ["a", "b"])
        await waiting(s, "signal", 2)
        await s.app.signal(run, "paid-a", 1)
        await waiting(s, "signal", 1)
        await s.idle()
        await s.app.cancel(run)
        await waiting(s, "signal", 0)

        await s.app.runs.retry(run)
        await s.app.signal(run, "paid-b", 2)

        assert (await s.end(run)).output == {"w": [1, 2]}


# ── loops ─────────────────────────────────────────────────────────────────────────────────


async def test_a_loop_with_a_list_of_child_runs_in_each_round(scene: Any) -> None:
    again = {"while": "iteration < 2", "max_iterations": 5}
    inner = {"n": "{{ item }}"}
    document = workflow(
        child("c", doubling(), input=inner, foreach={"items": [1, 2]}, loop=again),
    )
    async with scene() as s:
        result = await s.run(document)

        assert result.status == "COMPLETED", result.error
        assert result.nodes["c"].output == [2, 4]
        rows = await children_of(s, result.run_id)
        assert len(rows) == len({row.parent_scope for row in rows}) == 6


async def test_a_child_run_that_fails_in_a_round_is_retried_in_that_round(scene: Any) -> None:
    once = Once(1)
    again = {"while": "iteration < 2", "max_iterations": 5}
    document = workflow(
        child("c", doing(), input={"value": "{{ iteration }}"}, loop=again),
        transform("last", "{{ c.output }}", "c"),
    )
    async with scene(handlers(once)) as s:
        failed = await s.run(document)
        assert failed.error["code"] == "child_failed"
        await s.app.runs.retry(failed.run_id)
        result = await s.end(failed.run_id)

        assert result.output == {"last": 4}
        assert once.calls == [0, 1, 1, 2]
        generations = {
            row.parent_scope: row.generation for row in await children_of(s, result.run_id)
        }
        assert sorted(generations.values()) == [1, 1, 2]


# ── services and secrets ──────────────────────────────────────────────────────────────────


class Vault:
    def get(self, name: str) -> str:
        return {"TOKEN": "correct-horse-battery"}[name]


async def test_services_called_for_each_item_get_the_secret_and_the_history_does_not(
    scene: Any,
) -> None:
    calls = {
        "id": "call",
        "type": "http",
        "secrets": ["TOKEN"],
        "foreach": {"items": "{{ input }}", "as": "sku"},
        "retry": 1,
    }
    async with open_service() as service, scene(secrets=Vault(), egress_private=True) as s:
        refused = {"2"}

        def answer(asked: Asked) -> bytes:
            sku = asked.target.rpartition("/")[2]
            if sku in refused:
                return reply({"token": asked.headers["authorization"]}, status=403)
            return reply({"sku": sku, "echo": asked.headers["authorization"]})

        service.answer = answer
        config = {
            "url": f"{service.url}/price/{{{{ sku }}}}",
            "headers": {"authorization": "Bearer {{ secrets.TOKEN }}"},
        }
        document = workflow({**calls, "config": config})
        failed = await s.run(document, [1, 2, 3])
        assert failed.status == "FAILED"
        assert failed.error["node"] == "call"
        refused.clear()
        await s.app.runs.retry(failed.run_id)
        result = await s.end(failed.run_id)

        assert [one["body"]["sku"] for one in result.output["call"]] == ["1", "2", "3"]
        assert {one["body"]["echo"] for one in result.output["call"]} == {"Bearer ***"}
        assert {asked.headers["authorization"] for asked in service.asked} == {
            "Bearer correct-horse-battery"
        }
        assert "correct-horse" not in str(await s.events(result.run_id))


# ── large values ──────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=["inside", "outside"])
def store(request: pytest.FixtureRequest, store_url: str, tmp_path: Path) -> Store:
    """A store that keeps large contents itself, or in a folder."""
    return make_store(
        store_url, blobs=f"file://{tmp_path}/blobs" if request.param == "outside" else None
    )


async def test_a_list_of_large_outputs_goes_on_whole(store: Store) -> None:
    async def make(value: int) -> str:
        return f"{value}" + LARGE

    async def measure(texts: list[str]) -> list[tuple[str, int]]:
        return [(text[0], len(text)) for text in texts]

    document = workflow(
        task("make", config={"value": "{{ item }}"}, foreach={"items": [0, 1, 2, 3]}),
        task("measure", "make", config={"texts": "{{ make.output }}"}),
    )
    async with open_scene(store, {"make": make, "measure": measure}) as s:
        result = await s.run(document)

        assert result.output == {"measure": [[str(n), len(LARGE) + 1] for n in range(4)]}


async def test_large_values_go_down_to_the_child_runs_of_a_list_and_come_up(store: Store) -> None:
    inner = workflow(
        transform("same", "{{ input.text }}"), name="inner", output="{{ same.output }}"
    )
    config = {"text": "{{ input }}{{ item }}"}
    document = workflow(
        child("c", inner, input=config, foreach={"items": ["a", "b"]}), output="{{ c.output }}"
    )
    async with open_scene(store) as s:
        assert (await s.run(document, LARGE)).output == [LARGE + "a", LARGE + "b"]


async def test_a_list_with_large_outputs_is_retried(store: Store) -> None:
    once = Once(2)

    async def make(value: int) -> str:
        return str(await once(value)) + LARGE

    document = workflow(
        task(
            "make",
            config={"value": "{{ item }}"},
            foreach={"items": [0, 1, 2, 3], "max_parallel": 1},
        ),
        output="{{ make.output }}",
    )
    async with open_scene(store, {"make": make}) as s:
        failed = await s.run(document)
        assert failed.status == "FAILED"
        await s.app.runs.retry(failed.run_id)

        assert (await s.end(failed.run_id)).output == [str(2 * n) + LARGE for n in range(4)]
        assert once.calls == [0, 1, 2, 2, 3]


# ── cancelled and retried ─────────────────────────────────────────────────────────────────


class Gate:
    """Holds whatever comes to it the first time, until it is opened."""

    def __init__(self) -> None:
        self.held = 0
        self.changed = asyncio.Condition()
        self.is_open = False

    async def wait(self) -> None:
        async with self.changed:
            self.held += 1
            self.changed.notify_all()
            await self.changed.wait_for(lambda: self.is_open)

    async def holds(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE), self.changed:
            await self.changed.wait_for(lambda: self.held >= count)

    async def open(self) -> None:
        async with self.changed:
            self.is_open = True
            self.changed.notify_all()


#: Workflows of which two handlers are held, and their outputs.
HELD: dict[str, tuple[dict[str, Any], Any]] = {
    "a child run in a loop": (
        workflow(
            child(
                "c",
                workflow(task("hold", handler="hold"), task("also", handler="hold"), name="inner"),
                loop={"while": "iteration < 1", "max_iterations": 5},
            ),
            output="{{ c.output.hold | length }}",
        ),
        len(LARGE),
    ),
    "a list in a child run in a list": (
        workflow(
            child(
                "c",
                workflow(
                    task("hold", foreach={"items": [1]}), name="inner", output="{{ hold.output }}"
                ),
                foreach={"items": [1, 2]},
            ),
            output="{{ c.output }}",
        ),
        [[LARGE], [LARGE]],
    ),
    "a list of large outputs": (
        workflow(task("hold", foreach={"items": [1, 2]}), output="{{ hold.output }}"),
        [LARGE, LARGE],
    ),
    "a child run with a large input": (
        workflow(
            child(
                "c",
                workflow(
                    task("hold"),
                    task("also", handler="hold"),
                    transform("same", "{{ input }}", "hold", "also"),
                    name="inner",
                    output="{{ same.output }}",
                ),
                input="{{ input }}",
            ),
            output="{{ c.output }}",
        ),
        LARGE,
    ),
}


@pytest.mark.parametrize("name", HELD)
async def test_a_run_that_was_cancelled_in_the_middle_goes_on_when_it_is_retried(
    scene: Any, name: str
) -> None:
    document, output = HELD[name]
    gate = Gate()

    async def hold() -> str:
        await gate.wait()
        return LARGE

    async with scene({"hold": hold}) as s:
        run = await s.app.start(document, LARGE)
        await gate.holds(2)
        await s.app.cancel(run)
        await quiet(s)
        assert {(await s.app.runs.get(one)).status for one in s.store.runs} == {"CANCELLED"}

        await gate.open()
        await s.app.runs.retry(run)
        result = await s.end(run)

        assert (result.status, result.output) == ("COMPLETED", output), result.error


async def test_calls_of_services_for_a_list_are_cancelled_and_made_again(scene: Any) -> None:
    gate = Gate()

    async def held(writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        writer.write(reply("late"))

    async with open_service() as service, scene(secrets=Vault(), egress_private=True) as s:
        service.answer = lambda asked: reply("done") if gate.is_open else held
        config = {"url": service.url, "headers": {"x-token": "{{ secrets.TOKEN }}"}}
        call = {"id": "call", "type": "http", "secrets": ["TOKEN"], "config": config}
        run = await s.app.start(workflow({**call, "foreach": {"items": [1, 2]}}))
        await gate.holds(2)
        await s.app.cancel(run)
        await s.idle()
        await gate.open()
        await s.app.runs.retry(run)
        result = await s.end(run)

        assert [one["body"] for one in result.output["call"]] == ["done", "done"]


# ── all of them, moved ────────────────────────────────────────────────────────────────────


def everything(service: Service) -> dict[str, Any]:
    """A workflow that uses all constructs, and waits for signals in the middle."""
    row = workflow(
        task(
            "each",
            handler="sometimes",
            config={"value": "{{ item }}"},
            foreach={"items": "{{ input.row }}"},
        ),
        wait("w", "go", dependencies=["each"]),
        name="row",
        output={"each": "{{ each.output }}", "went": "{{ w.output }}"},
    )
    config = {
        "url": f"{service.url}/{{{{ item }}}}",
        "headers": {"authorization": "Bearer {{ secrets.TOKEN }}"},
    }
    return workflow(
        child(
            "rows",
            row,
            input={"row": "{{ row }}", "text": "{{ input.text }}"},
            foreach={"items": "{{ input.rows }}", "as": "row"},
        ),
        wait("votes", "vote", foreach={"items": [1, 2]}),
        node(
            "calls",
            "votes",
            type="http",
            config=config,
            secrets=["TOKEN"],
            foreach={"items": ["a", "b"]},
        ),
        task("large", config={"value": "{{ item }}"}, foreach={"items": [1, 2]}),
        child(
            "loop",
            doubling(),
            "rows",
            "calls",
            "large",
            input={"n": "{{ iteration }}"},
            loop={"while": "iteration < 2", "max_iterations": 5},
        ),
        output={
            "rows": "{{ rows.output }}",
            "votes": "{{ votes.output }}",
            "calls": "{{ calls.output | map(attribute='body') }}",
            "large": "{{ large.output }}",
            "loop": "{{ loop.output }}",
        },
    )


async def test_a_run_with_all_of_them_goes_on_in_another_store(
    store_url: str, tmp_path: Path
) -> None:
    async def large(value: int) -> str:
        return str(value) + LARGE

    module = module_of({**handlers(Once()), "large": large})
    options: dict[str, Any] = {
        "handlers": [module],
        "secrets": Vault(),
        "egress_private": True,
    }
    there = f"sqlite:///{tmp_path}/there.db"
    async with open_service() as service:
        service.answer = lambda asked: reply(asked.target)
        source = make_store(store_url)
        async with App(source, **options) as app:
            run = str(await app.start(everything(service), {"rows": [[1], [2, 3]], "text": LARGE}))
            await until_waiting(app.store, "signal", 4)
            await app.signal(run, "vote", "yes")
            await until_waiting(app.store, "signal", 3)
        async with App(source, worker=False) as one, App(there, worker=False) as other:
            mover = Mover(one.store, other.store, SystemClock(), come_from="one", to="other")
            kinds = [outcome.kind async for outcome in mover.move()]
        assert kinds == ["moved"] * 3
        async with App(there, **options) as app:
            for row in (await app.runs.tree(run)).children:
                await app.signal(row.run_id, "go", "went")
            await app.signal(run, "vote", "yes")
            result = await app.wait(run, timeout=PATIENCE)

            assert result.status == "COMPLETED", result.error
            assert result.output == {
                "rows": [{"each": [2], "went": "went"}, {"each": [4, 6], "went": "went"}],
                "votes": ["yes", "yes"],
                "calls": ["/a", "/b"],
                "large": ["1" + LARGE, "2" + LARGE],
                "loop": 4,
            }
            assert await app.doctor.examine_run(run) == []
