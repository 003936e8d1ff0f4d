"""Recorded runs, played again: the same run is the same, and the first difference is named."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import minuet
from minuet import NonRetryable
from minuet.errors import InputError
from minuet.testing import Played, areplay, play, record, replay

ORDER: dict[str, Any] = {
    "name": "order",
    "nodes": [
        {"id": "fetch", "type": "http", "config": {"url": "https://example.org/{{ input.id }}"}},
        {
            "id": "price",
            "handler": "price_of",
            "config": {"line": "{{ item }}"},
            "foreach": {"items": "{{ fetch.body }}"},
            "retry": {"max_attempts": 3, "backoff_ms": 60_000},
            "dependencies": ["fetch"],
        },
        {
            "id": "check",
            "type": "decision",
            "dependencies": ["price"],
            "branch": {
                "rules": [{"when": "ctx.price.output[0] > 5", "next_nodes": ["manager"]}],
                "default": ["ship"],
            },
        },
        {"id": "manager", "type": "wait", "config": {"signal": "approved"}},
        {"id": "ship", "handler": "ship_parcel", "config": {"lines": "{{ price.output }}"}},
    ],
}


@minuet.task
def price_of(line: int) -> int:
    return line * 2


@minuet.task
def ship_parcel(lines: list[int]) -> dict[str, int]:
    return {"parcel": sum(lines)}


def played_order(lines: list[int], **arguments: Any) -> Played:
    return play(
        ORDER,
        {"id": 7},
        handlers={"http": {"status": 200, "body": lines}},
        signals={"approved": {"by": "ann"}},
        **arguments,
    )


def changed(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """The document with something changed in its nodes, which are given by id."""
    document = copy.deepcopy(ORDER)
    change({node["id"]: node for node in document["nodes"]})
    return document


@pytest.mark.parametrize("lines", [[1, 2, 3], [10, 20]])
def test_a_recorded_run_is_the_same_again(lines: list[int], tmp_path: Path) -> None:
    played = played_order(lines, fail={"price[1]": ["once", ConnectionError]})
    record(played, tmp_path / "order.json")

    again = replay(tmp_path / "order.json")

    assert again.same, again
    assert (again.played.status, again.played.output) == (played.status, played.output)
    assert again.played.run_id == played.run_id
    assert replay(tmp_path / "order.json", ORDER).same


def test_a_replay_calls_no_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = record(played_order([1]))

    def called(**config: Any) -> None:
        pytest.fail("it is called")

    monkeypatch.setattr(price_of, "function", called)
    monkeypatch.setattr(ship_parcel, "function", called)

    assert replay(recorded, ORDER).same


async def test_a_replay_can_be_awaited() -> None:
    recorded = record(
        await minuet.testing.aplay({"name": "n", "nodes": [{"id": "a", "type": "noop"}]})
    )

    assert (await areplay(recorded)).same
    with pytest.raises(RuntimeError, match=r"await areplay"):
        replay(recorded)


# ── a changed document ──────────────────────────────────────────────────────────────────


def test_another_branch_is_the_first_difference() -> None:
    recorded = record(played_order([1, 2]))
    rule = {"when": "ctx.price.output[0] > 1", "next_nodes": ["manager"]}

    again = replay(recorded, changed(lambda nodes: nodes["check"]["branch"].update(rules=[rule])))

    assert again.difference is not None
    assert str(again.difference) == ('check: went on to: recorded ["ship"], now ["manager"]')


def test_a_node_that_was_not_there_is_the_first_difference() -> None:
    recorded = record(played_order([1, 2]))
    document = changed(lambda nodes: nodes["check"].update(dependencies=["audit"]))
    document["nodes"].append({"id": "audit", "handler": "audit", "dependencies": ["price"]})

    again = replay(recorded, document)
    stubbed = replay(recorded, document, handlers={"audit": True})

    expected = [
        'price: went on to: recorded ["check"], now ["audit"]',
        "audit: the node: recorded did not run, now is called, and has no recorded result",
    ]
    assert [str(one) for one in again.differences][:2] == expected
    assert [str(one) for one in stubbed.differences] == [
        expected[0],
        "audit: the node: recorded did not run, now ran",
        'check: its output: recorded {"price":[2,4]}, now {"audit":true}',
    ]


def test_another_output_is_a_difference() -> None:
    recorded = record(
        play({"name": "n", "nodes": [{"id": "a", "type": "transform", "config": {"value": 1}}]})
    )
    document = {"name": "n", "nodes": [{"id": "a", "type": "transform", "config": {"value": 2}}]}

    assert str(replay(recorded, document).difference) == "a: its output: recorded 1, now 2"


def test_fewer_attempts_are_a_difference() -> None:
    recorded = record(played_order([1], fail={"price": ["one", "two"]}))

    again = replay(recorded, changed(lambda nodes: nodes["price"].update(retry=2)))

    assert str(again.difference) == "price[0]: the node: recorded ran, now failed"


def test_an_output_of_the_run_is_compared() -> None:
    recorded = record(
        play(
            {**ORDER, "output": "{{ price.output }}"}, {"id": 1}, handlers={"fetch": {"body": [1]}}
        )
    )

    again = replay(recorded, {**ORDER, "output": "{{ price.output[0] }}"})

    assert str(again.difference) == "(output): its output: recorded [2], now 2"


# ── a changed handler ───────────────────────────────────────────────────────────────────


def test_a_live_handler_is_called_and_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = record(played_order([1, 2]))

    assert replay(recorded, live=["price", "ship"]).same
    monkeypatch.setattr(price_of, "function", lambda line: line * 3)
    again = replay(recorded, live=["price"])

    assert str(again.difference) == "price[0]: its output: recorded 2, now 3"


def test_a_live_node_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match="no node 'prize'"):
        replay(record(played_order([1])), live=["prize"])


# ── how runs end ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("failure", [NonRetryable("no"), TimeoutError("late"), KeyError("x"), "no"])
def test_a_failed_run_fails_again_in_the_same_way(failure: Any) -> None:
    played = played_order([1], fail={"ship": failure})
    again = replay(record(played))

    assert again.same, again
    assert again.played.status == "FAILED"
    assert again.played.nodes["ship"].attempts == played.nodes["ship"].attempts
    assert again.played.error is not None
    assert played.error is not None
    for field in ("code", "type", "message", "node"):
        assert again.played.error[field] == played.error[field]


def test_a_failed_template_that_was_corrected_is_a_difference() -> None:
    wrong = changed(lambda nodes: nodes["ship"]["config"].update(lines="{{ price.output[9] }}"))
    played = play(wrong, {"id": 1}, handlers={"fetch": {"body": [1]}})
    assert played.status == "FAILED"

    again = replay(record(played), ORDER)

    assert replay(record(played)).same
    assert str(again.difference).startswith("ship: the node: recorded failed, now is called")


async def test_a_run_that_was_retried_is_the_same_again() -> None:
    flaky = {"id": "flaky", "handler": "price_of", "config": {"line": 4}}
    document = {"name": "flaky", "nodes": [flaky]}
    calls: list[int] = []

    def fail_once(line: int) -> int:
        calls.append(line)
        if len(calls) == 1:
            raise NonRetryable("down")
        return line

    async with minuet.App("memory://") as app:
        before, price_of.function = price_of.function, fail_once
        try:
            run = await app.start(document)
            assert (await run.wait()).status == "FAILED"
            await app.runs.retry(run.id)
            assert (await run.wait()).status == "COMPLETED"
        finally:
            price_of.function = before
        recorded = await app.runs.export(run.id)

    again = await areplay(recorded)

    assert again.same, again
    assert again.played.output == {"flaky": 4}


async def test_an_open_run_is_compared_as_far_as_it_came() -> None:
    wait = {"id": "wait", "type": "wait", "config": {"signal": "go"}, "dependencies": ["a"]}
    document = {
        "name": "open",
        "nodes": [{"id": "a", "handler": "price_of", "config": {"line": 1}}, wait],
    }
    async with minuet.App("memory://") as app:
        run = await app.start(document)
        async for _, _, event in app.follow(run.id):
            if type(event).__name__ == "NodeWaiting":
                break
        recorded = await app.runs.export(run.id)

    assert (await areplay(recorded)).same
    document["nodes"][0]["config"] = {"line": 2}  # type: ignore[index]
    again = await areplay(recorded, document, live=["a"])
    assert str(again.difference) == "a: its output: recorded 2, now 4"


# ── child runs, signals, large values ───────────────────────────────────────────────────

CHILD = {
    "name": "shipping",
    "nodes": [
        {"id": "ask", "type": "wait", "config": {"signal": "go"}},
        {
            "id": "pack",
            "handler": "price_of",
            "config": {"line": "{{ input }}"},
            "dependencies": ["ask"],
        },
    ],
}
PARENT = {
    "name": "parent",
    "nodes": [
        {
            "id": "ship",
            "type": "workflow",
            "config": {"workflow": "shipping", "input": "{{ item }}"},
            "foreach": {"items": [3, 4]},
        }
    ],
}


def test_child_runs_are_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    played = play(PARENT, workflows=[CHILD], signals={"go": [1, 2]})
    assert played.output == {"ship": [{"pack": 6}, {"pack": 8}]}
    recorded = record(played)

    assert replay(recorded).same
    assert replay(recorded, PARENT, workflows=[CHILD]).same
    monkeypatch.setattr(price_of, "function", lambda line: line + 1)
    again = replay(recorded, live=["pack"])
    assert [one.place for one in again.differences] == [
        "ship[0]",
        "ship[1]",
        "ship",
        "shipping/pack",
        "shipping/pack",
    ]


def test_a_child_run_cannot_be_recorded_without_its_parent() -> None:
    played = play(PARENT, workflows=[CHILD], signals={"go": 1})

    with pytest.raises(InputError, match="record the run that has started it"):
        record(played.children[0])


def test_large_values_are_recorded(tmp_path: Path) -> None:
    text = "x" * 300_000
    node = {"id": "ship", "handler": "ship_parcel", "config": {"lines": []}}
    document = {"name": "large", "nodes": [node]}
    record(play(document, handlers={"ship": text}), tmp_path / "large.json")

    again = replay(tmp_path / "large.json")

    assert again.same
    assert again.played.output == {"ship": text}


@pytest.mark.parametrize("content", ["{}", "no JSON", '{"format": "minuet-run", "version": 9}'])
def test_a_file_that_is_not_a_recorded_run_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(content)

    with pytest.raises(InputError, match="not a recorded run"):
        replay(tmp_path / "run.json")
