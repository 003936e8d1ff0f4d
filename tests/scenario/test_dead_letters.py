"""Dead letters: looked at, grouped, retried and discarded, on every store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import minuet
from minuet.app import shapes
from minuet.clock import ManualClock
from minuet.errors import DeadLetterNotFoundError, RunConflictError
from minuet.moments import moment

from .harness import PATIENCE, Scene, node, task, workflow


class Vault:
    def get(self, name: str) -> str:
        return "hush-hush"


class Counting:
    """A store that notes which verbs are called."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self._store, name)


async def fail_runs(s: Scene, document: dict[str, Any], *inputs: Any) -> list[str]:
    return [(await s.run(document, value)).run_id for value in inputs]


@pytest.mark.shows("J-22")
async def test_a_retried_dead_letter_keeps_its_key_and_starts_with_its_first_attempt(
    scene: Any,
) -> None:
    clock = ManualClock()
    seen: list[tuple[int, str]] = []

    async def work(order: dict[str, Any], ctx: minuet.Context) -> Any:
        seen.append((ctx.attempt, ctx.idempotency_key))
        if len(seen) < 4:
            raise minuet.Retryable(f"no stock for {order['id']}", after=0)
        return order

    document = workflow(
        node("first", type="transform", config={"value": {"id": "{{ input }}"}}),
        task("work", "first", retry=3, config={"order": "{{ first.output }}"}),
        dlq_policy="all",
    )
    async with scene({"work": work}, clock=clock) as s:
        (run_id,) = await fail_runs(s, document, 7)
        (letter,) = await s.app.dead_letters.list()
        details = await s.app.dead_letters.show(letter.id)
        clock.advance(1_000)
        (retried,) = [one async for one in s.app.dead_letters.retry([letter.id])]
        result = await s.app.wait(run_id, timeout=PATIENCE)
        again = await s.app.dead_letters.get(letter.id)
        late = [one async for one in s.app.dead_letters.retry([letter.id])]
        afterwards = await s.app.dead_letters.show(letter.id)

        assert letter.id == f"{run_id}.1"
        assert (letter.node_id, letter.workflow) == ("work", document["name"])
        assert (letter.reason, letter.attempts) == ("max_retries_exceeded", 3)
        assert details.input == {
            "config": {"order": {"id": 7}},
            "inputs": {"first": {"id": 7}},
            "input": 7,
        }
        assert [one.type for one in details.history].count("started") == 3
        assert details.history[-1].type == "failed"
        assert retried.is_retried
        assert (result.status, result.output) == ("COMPLETED", {"work": {"id": 7}})
        assert [attempt for attempt, _ in seen] == [1, 2, 3, 1]
        assert len({key for _, key in seen}) == 1
        assert (again.status, again.settled_ms) == ("reprocessed", clock.now_ms())
        assert [(one.is_retried, one.why) for one in late] == [(False, "it is reprocessed")]
        assert afterwards.input == details.input


async def test_of_two_that_retry_a_dead_letter_one_succeeds(scene: Any) -> None:
    async def work() -> None:
        raise ValueError("no")

    async with scene({"work": work}) as s:
        (run_id,) = await fail_runs(s, workflow(task("work")), None)

        async def retry() -> list[bool]:
            return [one.is_retried async for one in s.app.dead_letters.retry([f"{run_id}.1"])]

        answers = await asyncio.gather(*(retry() for _ in range(5)))
        await s.until(run_id, lambda run: run.status == "FAILED")
        run = await s.app.runs.get(run_id)

        assert sorted(answers) == [[False]] * 4 + [[True]]
        assert run.generation == 2
        with pytest.raises(RunConflictError, match="was retried"):
            await s.app.runs.retry(run_id, generation=1)


async def test_dead_letters_are_grouped_by_what_went_wrong(scene: Any) -> None:
    fixed = False

    async def work(ctx: minuet.Context) -> None:
        if fixed:
            return
        if ctx.input % 3:
            raise ValueError(f"order {ctx.input} of run {ctx.run_id} is not known")
        raise ValueError("the currency is missing")

    async with scene({"work": work}) as s:
        runs = await fail_runs(s, workflow(task("work")), *range(6))
        large, small = await s.app.dead_letters.group()
        ids = await s.app.dead_letters.ids(fingerprint=large.fingerprint)
        fixed = True
        retried = [one async for one in s.app.dead_letters.retry(ids, per_second=1_000)]
        for one in retried:
            await s.app.wait(one.run_id, timeout=PATIENCE)

        assert (large.count, small.count) == (4, 2)
        assert (large.queues, large.example.run_id) == ({"task:work": 4}, runs[5])
        assert [one.run_id for one in retried] == [runs[1], runs[2], runs[4], runs[5]]
        assert all(one.is_retried for one in retried)
        left = await s.app.dead_letters.list()
        assert [letter.run_id for letter in left] == [runs[0], runs[3]]


async def test_a_discarded_dead_letter_says_why_and_is_not_retried(scene: Any) -> None:
    async def work() -> None:
        raise ValueError("no")

    async with scene({"work": work}) as s:
        (run_id,) = await fail_runs(s, workflow(task("work")), None)
        dead = s.app.dead_letters
        (letter,) = await dead.list()
        discarded = await dead.discard(letter.id, why="a test order")
        retried = [one async for one in dead.retry([letter.id])]

        assert (discarded.status, discarded.why) == ("discarded", "a test order")
        assert await dead.list() == []
        assert [(one.is_retried, one.why) for one in retried] == [(False, "it is discarded")]
        assert (await s.app.runs.get(run_id)).status == "FAILED"
        with pytest.raises(RunConflictError, match="discarded"):
            await dead.discard(letter.id)


async def test_the_input_of_an_item_is_shown_with_the_item_and_without_secrets(
    scene: Any,
) -> None:
    async def send(to: str, token: str) -> None:
        if to == "b":
            raise ValueError("no such address")

    document = workflow(
        task(
            "send",
            foreach={"items": "{{ input }}"},
            secrets=["TOKEN"],
            config={"to": "{{ item }}", "token": "{{ secrets.TOKEN }}"},
        )
    )
    async with scene({"send": send}, secrets=Vault()) as s:
        await fail_runs(s, document, ["a", "b"])
        (letter,) = await s.app.dead_letters.list()
        details = await s.app.dead_letters.show(letter.id)

        assert (letter.node_id, letter.scope) == ("send", (1,))
        assert details.input == {
            "config": {"to": "b", "token": "***"},
            "inputs": {},
            "input": ["a", "b"],
            "item": "b",
        }
        assert [one.type for one in details.history][-1] == "failed"


async def test_grouping_reads_pages_and_nothing_else(
    scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minuet.app.dead_letters.PAGE", 4)

    async def work(ctx: minuet.Context) -> None:
        raise ValueError(f"order {ctx.input}")

    async with scene({"work": work}) as s:
        await fail_runs(s, workflow(task("work")), *range(10))
        counting = Counting(s.app.store)
        monkeypatch.setattr(s.app.dead_letters, "_store", counting)
        (group,) = await s.app.dead_letters.group()
        ids = await s.app.dead_letters.ids()

        assert group.count == len(set(ids)) == 10
        # Three pages, and one that says that there are no more: for 10,000 in pages of 1,000, 11.
        assert counting.calls == ["list_dead_letters"] * 8


@pytest.mark.parametrize("id", ["", "x", ".1", "nosuch.1", "x.-1", "x.٣", "\0.1", "x.99999999999"])
async def test_what_is_no_id_of_a_dead_letter_is_not_found(scene: Any, id: str) -> None:
    async with scene() as s:
        with pytest.raises(DeadLetterNotFoundError):
            await s.app.dead_letters.get(id)


async def test_who_waits_for_a_run_is_told_its_end_although_it_was_retried_since(
    scene: Any,
) -> None:
    async def work() -> None:
        raise ValueError("no")

    async with scene({"work": work}) as s:
        run_id = await s.app.start(workflow(task("work")))
        ended = await s.app.runs.wait_ended(run_id, timeout=PATIENCE)
        await s.app.runs.retry(run_id)

        result = await s.app.runs.show_ended(ended)

        assert (result.status, result.seq) == ("FAILED", ended.seq)
        await s.end(run_id)


@pytest.mark.shows("J-15")
async def test_each_queue_has_its_dead_letters(scene: Any) -> None:
    fixed = False

    async def work(ctx: minuet.Context) -> int:
        if not fixed:
            raise ValueError(f"no {ctx.node_id}")
        return 1

    async with scene({"bill": work, "ship": work}) as s:
        for handler in ("bill", "ship", "bill"):
            await s.run(workflow(task("it", handler=handler)))
        letters = s.app.dead_letters

        for queue, count in {"task:bill": 2, "task:ship": 1}.items():
            found = await letters.list(queue=queue)
            assert [one.queue for one in found] == [queue] * count
            assert [one.id for one in found] == await letters.ids(queue=queue)
        assert [one.queues for one in await letters.group(queue="task:ship")] == [{"task:ship": 1}]
        assert await letters.list(queue="none") == []

        fixed = True
        async for one in letters.retry(await letters.ids(queue="task:bill")):
            assert (await s.end(one.run_id)).status == "COMPLETED"
        assert [one.queue for one in await letters.list()] == ["task:ship"]


@pytest.mark.shows("J-20")
async def test_a_dead_letter_has_all_that_its_record_needs(scene: Any) -> None:
    clock = ManualClock()

    async def work(amount: int) -> None:
        raise minuet.NonRetryable("no such account")

    document = workflow(
        node("first", type="transform", config={"value": {"amount": 7}}),
        task("work", "first", config={"amount": "{{ first.output.amount }}"}),
    )
    async with scene({"work": work}, clock=clock) as s:
        (run_id,) = await fail_runs(s, document, {"order": 1})
        failed_ms = clock.now_ms()
        clock.advance(60_000)
        shape = shapes.letter_details(await s.app.dead_letters.show(f"{run_id}.1"))

        assert (shape["id"], shape["run_id"]) == (f"{run_id}.1", run_id)
        # The token: a node in a scope.
        assert (shape["node_id"], shape["scope"], shape["generation"]) == ("work", [], 1)
        assert (shape["reason"], shape["attempts"]) == ("non_retryable", 1)
        assert shape["error"]["code"] == "handler_raised"
        assert shape["error"]["message"] == "no such account"
        # What the token was to work on.
        assert shape["input"] == {
            "config": {"amount": 7},
            "inputs": {"first": {"amount": 7}},
            "input": {"order": 1},
        }
        assert shape["at"] == moment(failed_ms)
        assert (shape["status"], shape["reprocessed_at"]) == ("pending", None)

        async for _ in s.app.dead_letters.retry([f"{run_id}.1"]):
            pass
        (again,) = await s.app.dead_letters.list(status="reprocessed")
        assert shapes.dead_letter(again)["reprocessed_at"] == moment(failed_ms + 60_000)
