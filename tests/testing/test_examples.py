"""The examples, played: on the ways that their own runs do not take."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from minuet.testing import play, record, replay


@pytest.fixture
def examples(root: Path) -> Path:
    return root / "examples"


def module(path: Path) -> ModuleType:
    """The handlers of an example."""
    spec = importlib.util.spec_from_file_location(f"played_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_a_customer_who_pays_gets_the_order(examples: Path) -> None:
    played = play(examples / "payment/payment.yaml", {"order": "A"}, signals={"paid": {}})

    assert (played.path, played.output) == (["payment", "ship"], {"ship": "A is on its way."})


def test_a_customer_who_never_pays_is_reminded_once(examples: Path) -> None:
    played = play(examples / "payment/payment.yaml", {"order": "A"})

    assert played.path == ["payment", "remind", "late_payment", "give_up"]


@pytest.mark.parametrize(
    ("failing", "path"),
    [
        ("reserve", ["reserve", "rejected"]),
        ("charge", ["reserve", "charge", "release", "rejected"]),
        ("ship", ["reserve", "charge", "ship", "refund", "release", "rejected"]),
    ],
)
def test_what_was_done_before_a_failure_is_undone(
    examples: Path, failing: str, path: list[str]
) -> None:
    steps = ("reserve", "charge", "ship", "refund", "release")
    stubs = {name: {"parcel": "P1"} for name in steps}

    played = play(
        examples / "saga/saga.yaml",
        {"order": "A", "amount": 5},
        handlers=stubs,
        fail={failing: "down"},
    )

    assert (played.path, played.output) == (path, {"rejected": {"status": "rejected"}})


def test_a_job_is_asked_about_until_it_is_done(examples: Path) -> None:
    states = iter(["running", "running", "done"])

    def ask(url: str) -> dict[str, Any]:
        return {"status": 200, "body": {"state": next(states), "rows": 7}}

    stubs = {"submit": {"status": 201, "body": {"id": 1}}, "ask": ask}

    played = play(examples / "polling/polling.yaml", {"url": "http://jobs"}, handlers=stubs)

    assert played.output == {"report": {"rows": 7}}
    assert played.path[-3:] == ["pause[2]", "ask[2]", "report"]


def test_a_job_that_is_never_done_is_given_up(examples: Path) -> None:
    stubs = {
        "submit": {"status": 201, "body": {"id": 1}},
        "ask": {"status": 200, "body": {"state": "running"}},
    }

    played = play(examples / "polling/polling.yaml", {"url": "http://jobs"}, handlers=stubs)

    assert played.output == {"give_up": {"rows": None}}


def test_a_service_without_any_server(examples: Path) -> None:
    asked: list[Any] = []

    def offer(method: str, url: str, json: Any, expect_status: int) -> dict[str, Any]:
        asked.append(json)
        return {"status": 201, "body": {"offer": 1}}

    stubs = {
        "price": {"status": 200, "body": {"amount": 5}},
        "llm": {"json": {"likes": True}},
        "offer": offer,
    }
    value = {"url": "http://shop", "sku": "1", "review": "nice"}

    played = play(examples / "services/services.yaml", value, handlers=stubs)

    assert (played.output, asked) == ({"offer": 1}, [{"amount": 5, "discount": True}])


def test_a_family_of_runs_is_recorded_and_the_same_again(examples: Path) -> None:
    items = [{"name": "book", "weight": 400}, {"name": "lamp", "weight": 3000}]
    played = play(
        examples / "family/family.yaml",
        {"items": items},
        workflows=[examples / "family/shipment.yaml"],
        handlers={"price": lambda weight: weight // 100, "invoice": lambda parcels: len(parcels)},
    )

    assert (played.output, len(played.children)) == ({"invoice": 2}, 2)
    assert replay(record(played)).same


def test_placement_is_that_of_the_app(examples: Path) -> None:
    played = play(
        examples / "placement/placement.yaml",
        modules=[module(examples / "placement/placement.py")],
        options={"name": "gpu-1", "capabilities": {"gpu": 1, "labels": ["ssd"]}},
    )

    assert played.output == {"report": "trained on 1000 rows in 3 epochs"}


def test_a_retry_is_counted(examples: Path) -> None:
    played = play(
        examples / "retry/retry.yaml",
        handlers={"unreliable_quote": lambda ctx: {"price": 5, "attempts": ctx.attempt}},
        fail={"quote": ["down", "down"], "rating": "broken"},
    )

    assert played.output == {"answer": {"price": 5, "attempts": 3, "rating": "unknown"}}
