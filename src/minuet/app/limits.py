"""Limits that runs are given when they are started, beside those of their document."""

from __future__ import annotations

from typing import Any, TypedDict

from minuet.errors import InputError
from minuet.model.problem import Problem, Problems
from minuet.model.table import RUN_LIMITS
from minuet.model.workflow import Limits


class RunLimits(TypedDict, total=False):
    """What a run may use. Of these and the limits of the document, the smaller ones count."""

    #: Seconds after which the run must be over.
    deadline_s: float
    #: How many node instances may run one after another.
    max_hops: int
    #: How many nodes one node may start at once.
    max_fanout: int
    #: How many rounds a loop may have.
    max_iterations: int
    #: The size of one output, in bytes of JSON.
    max_output_bytes: int
    #: The size of all outputs together.
    max_bytes: int


def read_limits(given: RunLimits | None) -> Limits | None:
    """The limits that a caller has given; InputError says what is wrong with them."""
    if not given:
        return None
    problems = Problems()
    limits: Any = RUN_LIMITS.read(dict(given), (), problems)
    if problems.count:
        raise InputError(
            [f"limits: {_where(found)}{found.message}{_hint(found)}" for found in problems.kept],
            argument="limits",
        )
    assert isinstance(limits, Limits)
    return limits


def _where(found: Problem) -> str:
    return f"{found.path[-1]}: " if found.path else ""


def _hint(found: Problem) -> str:
    return f" ({found.hint})" if found.hint else ""
