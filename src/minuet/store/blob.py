"""How content becomes its own name."""

from __future__ import annotations

import hashlib
import re

_REF = re.compile(r"cas://sha256:[0-9a-f]{64}")


def blob_ref(data: bytes) -> str:
    """The reference of these bytes: equal content, equal reference."""
    return "cas://sha256:" + hashlib.sha256(data).hexdigest()


def is_blob_ref(text: object) -> bool:
    """Whether this is the reference of a blob."""
    return isinstance(text, str) and _REF.fullmatch(text) is not None
