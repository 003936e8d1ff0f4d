"""References to blobs inside conditions."""

from __future__ import annotations

from typing import Any

from minuet.errors import ConditionError

_PREFIX = "cas://"


def read_reference(field: str, value: Any) -> str:
    """A reference as written. Whether anything is there shows when it is read."""
    if not isinstance(value, str) or not value.startswith(_PREFIX):
        raise ConditionError(f"{field!r} is the reference of a blob, as in cas://sha256:…")
    return value
