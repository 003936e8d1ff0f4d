"""References to blobs inside conditions."""

from __future__ import annotations

from typing import Any

from minuet.errors import ConditionError

_PREFIX = "cas://"


def missing_blob(reference: str, source: str) -> ConditionError:
    """The error of a condition whose schema or code is not in the store."""
    return ConditionError(f"there is no blob {reference}", source=source)


def read_reference(field: str, value: Any) -> str:
    """A reference as written. Whether anything is there shows when it is read."""
    if not isinstance(value, str) or not value.startswith(_PREFIX):
        raise ConditionError(f"{field!r} is the reference of a blob, as in cas://sha256:…")
    return value
