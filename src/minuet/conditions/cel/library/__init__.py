"""The functions that expressions may call. Importing this fills the table in `functions`."""

from __future__ import annotations

from minuet.conditions.cel.library import (
    conversions,
    formatting,
    maths,
    optionals,
    standard,
    strings,
    times,
)

__all__ = ["conversions", "formatting", "maths", "optionals", "standard", "strings", "times"]
