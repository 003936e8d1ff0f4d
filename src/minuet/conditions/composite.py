"""A condition made of others: AND, OR, NOT.

    {"type": "composite", "operator": "AND", "conditions": [{"type": "cel", …}, …]}

NOT holds if none of its conditions does. Parts are decided in order, and the first that settles the
matter ends it: what follows is not evaluated. A part that cannot be evaluated counts only if no
other part settles the matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minuet.conditions import NO_BLOBS, Blobs, Condition
from minuet.conditions import compile_condition as compile_any
from minuet.conditions.explanation import begin_explanation
from minuet.conditions.form import read_form
from minuet.conditions.limits import LIMITS, Limits
from minuet.errors import ConditionError
from minuet.types import Json

OPERATORS = ("AND", "OR", "NOT")

#: Conditions in one composite, those inside its parts included, and their nesting.
PARTS_MAX = 1_000
DEPTH_MAX = 20


def compile_condition(
    source: dict[str, Any], limits: Limits = LIMITS, blobs: Blobs = NO_BLOBS
) -> Composite:
    """Compile `{"type": "composite", "operator": …, "conditions": […]}`."""
    _check_size(source)
    form = read_form(source, required=("operator", "conditions"))
    operator, conditions = form["operator"], form["conditions"]
    if operator not in OPERATORS:
        raise ConditionError(
            f"a composite condition has no operator {operator!r}, only {', '.join(OPERATORS)}"
        )
    if not isinstance(conditions, list) or not conditions:
        raise ConditionError("a composite condition needs a list of 'conditions', one at least")
    parts = []
    for number, part in enumerate(conditions):
        try:
            parts.append(compile_any(part, limits, blobs))
        except ConditionError as error:
            raise ConditionError(f"conditions[{number}]: {error}") from None
    return Composite(operator, tuple(parts))


def _check_size(source: Json) -> None:
    """Refuse a composite that is too large before anything of it is compiled."""
    pending, count = [(source, 1)], 0
    while pending:
        part, level = pending.pop()
        count += 1
        if level > DEPTH_MAX or count > PARTS_MAX:
            raise ConditionError(
                f"a composite condition has at most {PARTS_MAX} parts and {DEPTH_MAX} levels"
            )
        below = part.get("conditions") if isinstance(part, dict) else None
        if isinstance(below, list):
            pending.extend((each, level + 1) for each in below)


class Composite:
    """A compiled composite condition."""

    __slots__ = (
        "_operator",
        "_parts",
        "blobs",
        "is_slow",
        "reads_all",
        "reads_metadata",
        "references",
        "source",
    )

    def __init__(self, operator: str, parts: tuple[Condition, ...]) -> None:
        self._operator = operator
        self._parts = parts
        self.references: frozenset[str] = frozenset().union(*(one.references for one in parts))
        self.blobs: frozenset[str] = frozenset().union(*(one.blobs for one in parts))
        self.reads_all = any(one.reads_all for one in parts)
        self.is_slow = any(one.is_slow for one in parts)
        self.reads_metadata = any(one.reads_metadata for one in parts)
        between = " OR " if operator == "NOT" else f" {operator} "
        text = between.join(_bracketed(one) for one in parts)
        self.source = f"NOT ({text})" if operator == "NOT" else text

    def evaluate(self, variables: Mapping[str, Json]) -> bool:
        """Decide."""
        failed: ConditionError | None = None
        for part in self._parts:
            try:
                if part.evaluate(variables) is self._deciding:
                    return self._operator == "OR"
            except ConditionError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return self._operator != "OR"

    def explain(self, variables: Mapping[str, Json]) -> dict[str, Any]:
        """Decide and say why."""
        told = begin_explanation(self, "composite", variables)
        parts: list[dict[str, Any]] = []
        operands: dict[str, Json] = {}
        missing: list[str] = []
        decided = False
        for part in self._parts:
            if decided:
                parts.append({"source": part.source, "skipped": True})
                continue
            of_part = part.explain(variables)
            decided = of_part.get("result") is self._deciding
            operands.update(of_part.get("operands") or {})
            missing.extend(name for name in of_part.get("missing") or () if name not in missing)
            parts.append(of_part)
        return {**told, "operands": operands, "missing": missing, "parts": parts}

    @property
    def _deciding(self) -> bool:
        """What a part must be to settle the matter."""
        return self._operator != "AND"


def _bracketed(part: Condition) -> str:
    return f"({part.source})" if isinstance(part, Composite) else part.source
