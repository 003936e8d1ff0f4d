"""The workflows of the load, and how often each is started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bench.soak.handlers import FAILURES, payload

MODULE = "bench.soak.handlers"

#: Concurrency keys.
KEYS = 8


def node(name: str, *dependencies: str, handler: str = "small", **fields: Any) -> dict[str, Any]:
    return {
        "id": name,
        "handler": f"{MODULE}:{handler}",
        "dependencies": list(dependencies),
        **fields,
    }


def wait(name: str, *dependencies: str) -> dict[str, Any]:
    return {
        "id": name,
        "type": "wait",
        "config": {"seconds": "{{ input.seconds }}"},
        "dependencies": list(dependencies),
    }


@dataclass(frozen=True)
class Kind:
    """A workflow, and what is to be expected of a run of it."""

    name: str
    #: How often it is started, beside the others.
    weight: int
    nodes: list[dict[str, Any]]
    #: Node instances that a run settles when nobody disturbs it.
    settled: int
    input: Callable[[Random], dict[str, Any]] = lambda chance: {}
    ends: str = "COMPLETED"
    #: It waits for a timer or a delay, so its latency says nothing about the engine.
    waits: bool = False
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def document(self) -> dict[str, Any]:
        return {"name": self.name, "nodes": self.nodes, **self.more}


def _chain() -> list[dict[str, Any]]:
    return [
        node(f"n{i}", *([f"n{i - 1}"] if i else []), handler="in_thread" if i == 4 else "small")
        for i in range(8)
    ]


def _fan() -> list[dict[str, Any]]:
    middle = [f"m{i}" for i in range(10)]
    return [node("first"), *(node(name, "first") for name in middle), node("last", *middle)]


def _loop() -> list[dict[str, Any]]:
    loop = {"while": "output.round < 3", "loop_back_to": "body", "max_iterations": 6}
    body = [node("body", "start"), node("again", "body", loop=loop)]
    return [node("start"), *body, node("end", "again")]


def _keys() -> list[dict[str, Any]]:
    slot = {"key": "key {{ input.number }}", "limit": 2}
    middle = [f"m{i}" for i in range(4)]
    return [*(node(name, concurrency=slot) for name in middle), node("last", *middle)]


def _blobs() -> list[dict[str, Any]]:
    config = {"number": "{{ input.number }}"}
    parts = [node(name, handler="enlarge", config=config) for name in ("left", "right")]
    return [*parts, node("both", "left", "right", handler="measure")]


def _number(chance: Random) -> dict[str, Any]:
    return {"number": chance.randrange(KEYS)}


def _large(chance: Random) -> dict[str, Any]:
    # No two runs have the same: what is not removed shows.
    number = chance.randrange(10**10)
    return {"number": number, "text": payload(number)}


def _seconds(chance: Random) -> dict[str, Any]:
    return {"seconds": chance.choice((1, 2, 4))}


_RETRY = {"max_attempts": FAILURES + 1, "backoff_ms": 100, "multiplier": 2}

KINDS = (
    Kind("chain", 4, _chain(), 8),
    Kind("fan", 3, _fan(), 12),
    Kind("loop", 2, _loop(), 10),
    Kind("keys", 2, _keys(), 5, input=_number),
    Kind("steps", 2, [node("a", handler="stepwise"), node("b", "a", handler="stepwise")], 2),
    Kind("blobs", 1, _blobs(), 3, input=_large),
    Kind("timer", 1, [node("a"), wait("pause", "a"), node("b", "pause")], 3, _seconds, waits=True),
    Kind("retry", 1, [node("a", handler="flaky", retry=_RETRY), node("b", "a")], 2, waits=True),
    Kind(
        "failure",
        1,
        [node("a"), node("b", "a", handler="hopeless", retry=1)],
        1,
        ends="FAILED",
        more={"dlq_policy": "all"},
    ),
)
