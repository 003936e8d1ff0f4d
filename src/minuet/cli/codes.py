"""Exit codes. A run that is over has its own; everything wrong before that is INVALID."""

from __future__ import annotations

COMPLETED = 0
FAILED = 1
INVALID = 2
#: CANCELLED, or the time was over.
CANCELLED = 3

OF_STATUS = {"COMPLETED": COMPLETED, "FAILED": FAILED, "CANCELLED": CANCELLED}
