"""Plays and replays of runs that are undone: compensators are replaced like handlers."""

from __future__ import annotations

import types
from typing import Any

import pytest

import minuet
from minuet.errors import InputError
from minuet.nodes.handler import Task
from minuet.testing import areplay, play

DOCUMENT: dict[str, Any] = {
    "name": "order",
    "on_failure": {"compensate": True},
    "nodes": [
        {
            "id": "charge",
            "handler": "charge",
            "config": {"amount": 40},
            "compensator": {"handler": "refund"},
        },
        {"id": "ship", "handler": "ship", "dependencies": ["charge"]},
    ],
}


def test_a_compensator_can_be_replaced_in_a_play() -> None:
    seen: list[Any] = []

    def refund(amount: int, output: dict[str, Any]) -> None:
        seen.append((amount, output))

    played = play(
        DOCUMENT,
        handlers={"charge": {"id": "p1"}, "ship": None, "refund": refund},
        fail={"ship": minuet.NonRetryable("no carrier")},
    )

    assert played.status == "FAILED"
    assert seen == [(40, {"id": "p1"})]
    assert played.path == ["charge", "ship", "undo of charge"]


def test_a_compensator_can_fail_in_a_play() -> None:
    played = play(
        DOCUMENT,
        handlers={"charge": None, "ship": None, "charge$undo": None},
        fail={"ship": minuet.NonRetryable("no"), "charge$undo": minuet.NonRetryable("too late")},
    )

    compensation = played.nodes["charge"].compensation
    assert compensation is not None
    assert (compensation.status, (compensation.error or {})["message"]) == ("FAILED", "too late")


def test_a_stub_of_a_compensator_must_fit_it() -> None:
    with pytest.raises(InputError, match="has no argument 'amount'"):
        play(DOCUMENT, handlers={"charge": None, "ship": None, "refund": lambda order: None})


async def test_a_replay_calls_no_compensator() -> None:
    called: list[str] = []

    async def refund(amount: int) -> None:
        called.append("refund")

    async def charge(amount: int) -> None:
        called.append("charge")

    async def ship() -> None:
        raise minuet.NonRetryable("no carrier")

    module = types.ModuleType("handlers_of_an_order")
    for function in (refund, charge, ship):
        # Not registered: other tests have handlers of these names.
        setattr(module, function.__name__, Task(function, name=function.__name__))
    async with minuet.App("memory://", handlers=[module]) as app:
        run = await app.start(DOCUMENT)
        await run.wait()
        recording = await app.runs.export(run)

    replayed = await areplay(recording, DOCUMENT, modules=[module])

    assert called == ["charge", "refund"]
    assert not replayed.differences
