"""One idempotency key stands for one run: the same request, however it is written."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from minuet.app.app import App
from minuet.bridge.values import canonical, encode_value
from minuet.errors import InputError, RunConflictError, StartError

DOCUMENT = {"name": "plain", "nodes": [{"id": "only", "type": "noop"}]}
OTHER = {"name": "other", "nodes": [{"id": "only", "type": "noop"}]}


async def test_the_same_input_in_another_order_is_the_same_run(store_url: str) -> None:
    async with App(store_url, worker=False) as app:
        one = {"a": 1, "b": {"c": [1, {"x": 1, "y": 2}], "d": None}}
        other = {"b": {"d": None, "c": (1, {"y": 2, "x": 1})}, "a": 1}
        first = await app.start(DOCUMENT, one, idempotency_key="k")

        assert await app.start(DOCUMENT, other, idempotency_key="k") == first
        assert len(await app.runs.list()) == 1


async def test_a_large_input_in_another_order_is_the_same_run(store_url: str) -> None:
    async with App(store_url, worker=False) as app:
        items = {str(number): "x" * 100 for number in range(1000)}
        first = await app.start(DOCUMENT, items, idempotency_key="k")
        again = await app.start(DOCUMENT, dict(reversed(items.items())), idempotency_key="k")
        with pytest.raises(RunConflictError):
            await app.start(DOCUMENT, {**items, "0": "y" * 100}, idempotency_key="k")

        assert again == first


@pytest.mark.parametrize(
    ("one", "other"),
    [({"a": 1}, {"a": 2}), ([1, 2], [2, 1]), ({"a": 1}, {"a": 1.0}), ({}, None), ("1", 1)],
    ids=["value", "list", "kind of number", "nothing", "text"],
)
async def test_another_input_under_the_same_key_is_refused(
    store_url: str, one: Any, other: Any
) -> None:
    async with App(store_url, worker=False) as app:
        first = await app.start(DOCUMENT, one, idempotency_key="k")
        with pytest.raises(RunConflictError) as refused:
            await app.start(DOCUMENT, other, idempotency_key="k")

        assert refused.value.run_id == first


async def test_another_workflow_under_the_same_key_is_refused(store_url: str) -> None:
    async with App(store_url, worker=False) as app:
        await app.start(DOCUMENT, {"a": 1, "b": 2}, idempotency_key="k")
        with pytest.raises(RunConflictError):
            await app.start(OTHER, {"b": 2, "a": 1}, idempotency_key="k")


async def test_many_at_once_in_all_orders_start_one_run(store_url: str) -> None:
    rng = random.Random(1)
    items = [(letter, number) for number, letter in enumerate("abcdef")]
    async with App(store_url, worker=False) as app:
        started = await asyncio.gather(
            *(
                app.start(DOCUMENT, dict(rng.sample(items, len(items))), idempotency_key="k")
                for _ in range(20)
            )
        )

        assert len(set(started)) == len(await app.runs.list()) == 1


async def test_many_runs_are_answered_one_by_one(store_url: str) -> None:
    async with App(store_url, worker=False) as app:
        taken = await app.start(DOCUMENT, 0, idempotency_key="taken")
        with pytest.raises(StartError) as refused:
            await app.start_many(
                DOCUMENT, [1, 2, 3, 3], idempotency_keys=["one", "taken", "three", "three"]
            )

        one, conflict, three, again = refused.value.answers
        assert isinstance(conflict, RunConflictError)
        assert conflict.run_id == taken
        assert three == again
        runs = {run.run: run.input for run in await app.runs.list()}
        assert runs == {taken: b"0", one: b"1", three: b"3"}
        assert "1 of 4 runs were refused" in str(refused.value)


async def test_a_bad_input_starts_none_of_many(store_url: str) -> None:
    async with App(store_url, worker=False) as app:
        with pytest.raises(InputError, match=r"inputs\[1\]"):
            await app.start_many(DOCUMENT, [1, float("nan"), 3])

        assert await app.runs.list() == []


JSON = some.recursive(
    some.none()
    | some.booleans()
    | some.integers(-(2**63), 2**63 - 1)
    | some.floats(allow_nan=False, allow_infinity=False)
    | some.text(some.characters(exclude_categories=["Cs"])),
    lambda inner: (
        some.lists(inner)
        | some.dictionaries(some.text(some.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


def shuffled(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict):
        items = [(key, shuffled(item, rng)) for key, item in value.items()]
        rng.shuffle(items)
        return dict(items)
    return [shuffled(item, rng) for item in value] if isinstance(value, list) else value


@given(JSON, some.randoms(use_true_random=False))
def test_a_value_has_one_canonical_form(value: Any, rng: random.Random) -> None:
    assert canonical(encode_value(shuffled(value, rng))) == canonical(encode_value(value))


@given(JSON, JSON)
def test_two_values_have_the_same_form_only_if_they_are_equal(one: Any, other: Any) -> None:
    same = canonical(encode_value(one)) == canonical(encode_value(other))
    assert not same or one == other
