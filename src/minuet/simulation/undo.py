"""Worlds in which runs are undone: documents with compensators, and who is undone by whom."""

from __future__ import annotations

import random
from typing import Any

from minuet.store.records import Key
from minuet.types import UNDO

#: Compensators, as often as they are drawn.
COMPENSATORS = ("steady", "steady", "slow", "flaky", "broken", "crashing", "threaded")


def add_undo(document: dict[str, Any]) -> None:
    """Give some nodes compensators, and let runs be undone when they fail or are cancelled."""
    chance = random.Random(f"undo {document['nodes']}")
    for node in document["nodes"]:
        inner = node.get("config", {}).get("workflow")
        if isinstance(inner, dict):
            add_undo(inner)
        if node.get("type", "task") in ("decision", "human") or chance.random() < 0.3:
            continue
        compensator: dict[str, Any] = {"handler": chance.choice(COMPENSATORS)}
        if chance.random() < 0.6 or node.get("type", "task") != "task":
            compensator["config"] = {"x": "{{ output }}"}
        compensator["retry"] = {"max_attempts": chance.randint(1, 3), "backoff_ms": 50}
        if node.get("type") != "workflow":
            node["compensator"] = compensator
    document["on_failure"] = {"compensate": chance.random() < 0.6}
    document["on_cancel"] = {"compensate": chance.random() < 0.6}


def subject(instance: Key) -> Key:
    """An instance, or what a compensator is about: the same in each undo of a run."""
    run, node, scope = instance
    if not node.endswith(UNDO):
        return instance
    # The last number says which undo of the run it is.
    at = max(place for place, one in enumerate(scope) if one.isalpha())
    return (run, node, scope[:at])
