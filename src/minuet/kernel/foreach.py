"""The list of a foreach, and what becomes of it.

The hidden node that renders the list has as its output how many items there are, and the items
themselves or the blobs that hold them. Every item reads that output, so it stays small.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from minuet.kernel.settle import AttemptFailed, Outcome, Succeeded
from minuet.plan.plan import Foreach
from minuet.types import Json


class Listed(msgspec.Struct, frozen=True, omit_defaults=True):
    """The output of the hidden node that renders a list."""

    count: int
    #: How many items are alive at once.
    window: int
    #: The items, if they are few and small.
    items: list[Json] = []
    #: Otherwise the blobs that hold them: the number of the first item in each, and its reference.
    chunks: list[tuple[int, str]] = []

    def chunk_of(self, number: int) -> tuple[int, str] | None:
        """The blob that holds an item; None: the item is here."""
        low, high = 0, len(self.chunks)
        while high - low > 1:
            middle = (low + high) // 2
            if self.chunks[middle][0] <= number:
                low = middle
            else:
                high = middle
        return self.chunks[low] if self.chunks else None


def check_list(each: Foreach, value: Json) -> AttemptFailed | None:
    """Why a value cannot be the list of a foreach."""
    if not isinstance(value, list):
        kind = _KINDS.get(type(value), "a number")
        message = (
            f"the items of 'foreach' at node {each.node!r} are {kind}, not a list: "
            "see what `items` names"
        )
        return AttemptFailed({"code": "foreach_not_a_list", "message": message})
    if each.need is not None and each.need > len(value):
        return _unreached(each, f"there are only {len(value)}")
    return None


_KINDS: dict[type, str] = {
    dict: "an object",
    str: "a text",
    bool: "a boolean",
    type(None): "null",
}


class Arrived(msgspec.Struct, frozen=True):
    """What an item has come to."""

    value: Json
    failed: bool = False


def gather(each: Foreach, arrived: Iterable[Arrived]) -> Outcome:
    """The outcome of a node with a foreach: the list of its items' outputs, in their order."""
    found = list(arrived)
    failures = [one.value for one in found if one.failed]
    if failures and each.on_item_error == "fail":
        return AttemptFailed(error_of(failures[0]))
    completed = len(found) - len(failures)
    if each.need is not None and completed < each.need:
        return _unreached(
            each,
            f"only {completed} of {len(found)} have. A retry does not run the others again, "
            "because they are settled: start another run",
        )
    return Succeeded([one.value for one in found])


def _unreached(each: Foreach, why: str) -> AttemptFailed:
    message = f"{each.need} items of node {each.node!r} must complete, and {why}"
    return AttemptFailed({"code": "quorum_not_reached", "message": message})


def error_of(output: Json) -> dict[str, Any]:
    """The error in the output of an instance that failed."""
    error = output.get("error") if isinstance(output, dict) else None
    return error if isinstance(error, dict) else {"code": "item_failed", "message": str(error)}
