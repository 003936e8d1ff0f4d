"""The remaining budget of one evaluation."""

from __future__ import annotations

from minuet.conditions.cel.errors import LimitError
from minuet.conditions.limits import Limits


class Meter:
    """Counts down. An expression without loops takes at most one step for each of its parts.

    So steps are counted where something repeats: in loops (for each turn, the parts of the body),
    in regular expressions, and where items are visited one by one. Bytes are counted where data
    is scanned, compared, copied or built at once.
    """

    __slots__ = ("bytes", "depth", "limits", "steps")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.steps = limits.steps
        self.bytes = limits.work_bytes
        #: The limit of nesting of data. Read often.
        self.depth = limits.data_depth

    def spend(self, size: int) -> None:
        """Charge for bytes that are scanned, compared, copied or built."""
        self.bytes -= size
        if self.bytes < 0:
            kibibytes = self.limits.work_bytes // 1024
            raise LimitError(f"it would do too much: it reads or builds more than {kibibytes} KiB")

    def step(self, count: int) -> None:
        """Charge for steps."""
        self.steps -= count
        if self.steps < 0:
            raise self.out_of_steps()

    def out_of_steps(self) -> LimitError:
        """The error for callers that count on their own."""
        return LimitError(f"it would do too much: more than {self.limits.steps:,} steps")

    def too_deep(self) -> LimitError:
        """The error for callers that descend into data."""
        return LimitError(f"the data is nested deeper than {self.limits.data_depth} levels")
