"""How the explanation of a condition begins: its type, its text and what it decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from minuet.errors import ConditionError
from minuet.types import Json


class Decider(Protocol):
    """What can be asked for a decision."""

    @property
    def source(self) -> str: ...

    def evaluate(self, variables: Mapping[str, Json]) -> bool: ...


def begin_explanation(
    condition: Decider, type_: str, variables: Mapping[str, Json]
) -> dict[str, Any]:
    """Decide, and note the result or why there is none."""
    told: dict[str, Any] = {"type": type_, "source": condition.source}
    try:
        told["result"] = condition.evaluate(variables)
    except ConditionError as error:
        told["error"] = str(error)
    return told
