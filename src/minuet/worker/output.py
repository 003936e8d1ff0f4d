"""Values on their way into the store and back: strict JSON, large ones as blobs.

A value is kept only if it is JSON without doubt: what one store or one language would read
back differently (NaN, huge integers, lone surrogates, bytes) is refused with a reason, before
anything is written. There is one encoding and no fallback.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from minuet.errors import OutputError
from minuet.store.blob import BLOB_START
from minuet.types import Json

#: Nesting of a value: deeper than any real data, and safe for every reader.
DEPTH_MAX = 100

#: A value up to this size travels inside its event; a larger one becomes a blob.
INLINE_BYTES_MAX = 64 * 1024

#: Size of a value, unless the document says otherwise.
OUTPUT_BYTES_MAX = 16 * 1024 * 1024

_encoder = msgspec.json.Encoder()
_sorting_encoder = msgspec.json.Encoder(order="deterministic")
_INTEGER_MAX = 2**63


def encode_value(value: Json, *, bytes_max: int | None = None) -> bytes:
    """Write a value as JSON, or raise OutputError saying what is wrong with it and where."""
    limit = OUTPUT_BYTES_MAX if bytes_max is None else min(bytes_max, OUTPUT_BYTES_MAX)
    check_value(value, limit)
    try:
        data = _encoder.encode(value)
    except UnicodeEncodeError:
        raise OutputError(
            "the value holds text that is not valid Unicode (a lone surrogate)"
        ) from None
    if len(data) > limit:
        raise _too_large(f"{len(data):,} bytes as JSON, more than the {limit:,} allowed")
    return data


def canonical(data: bytes) -> bytes:
    """JSON in its one spelling: keys sorted, no white space. 1 and 1.0 stay different values."""
    return _sorting_encoder.encode(msgspec.json.decode(data))


def check_value(value: Json, bytes_max: int = OUTPUT_BYTES_MAX) -> None:
    """Raise OutputError unless the value is plain JSON, and no more text than may be kept.

    Text is counted before anything is written: a value that has the same large text a thousand
    times takes little memory until it is JSON.
    """
    if type(value) is dict and not value:
        return
    _check(value, "", 0, [bytes_max], bytes_max)


def _check(value: Any, path: str, depth: int, left: list[int], limit: int) -> None:
    kind = type(value)
    if kind is str:
        _count(len(value), left, limit)
        return
    if kind is bool or value is None:
        return
    if kind is int:
        if not -_INTEGER_MAX <= value < _INTEGER_MAX:
            raise _refusal(path, "an integer beyond 64 bits; return it as text")
    elif kind is float:
        if not math.isfinite(value):
            raise _refusal(path, f"{value}, which JSON does not have")
    elif kind is dict:
        if depth >= DEPTH_MAX:
            raise _refusal(path, f"nested more than {DEPTH_MAX} levels deep (or contains itself)")
        _count(len(value), left, limit)
        for key, item in value.items():
            if type(key) is not str:
                raise _refusal(path, f"a key that is no text: {key!r:.50}")
            _count(len(key), left, limit)
            _check(item, f"{path}.{key}", depth + 1, left, limit)
    elif kind is list or kind is tuple:
        if depth >= DEPTH_MAX:
            raise _refusal(path, f"nested more than {DEPTH_MAX} levels deep (or contains itself)")
        _count(len(value), left, limit)
        for number, item in enumerate(value):
            _check(item, f"{path}[{number}]", depth + 1, left, limit)
    else:
        raise _refusal(path, f"of type {kind.__name__}, which is no JSON")


def _count(size: int, left: list[int], limit: int) -> None:
    left[0] -= size
    if left[0] < 0:
        raise _too_large(f"more than {limit:,} bytes as JSON, which is the most allowed")


def _too_large(found: str) -> OutputError:
    return OutputError(f"the value has {found}; keep large data elsewhere and return where it is")


def _refusal(path: str, what: str) -> OutputError:
    where = path.lstrip(".")
    where = f" at {where[:200]}" if where else ""
    return OutputError(f"the value{where} is {what}")


def to_json(value: Any) -> Json:
    """Turn dataclasses and msgspec Structs into plain objects; leave everything else alone."""
    if type(value) is dict:
        return value
    if isinstance(value, msgspec.Struct) or hasattr(type(value), "__dataclass_fields__"):
        return msgspec.to_builtins(value)
    return value


def needs_blob(data: bytes) -> bool:
    """Whether an encoded value is to be kept as a blob."""
    return len(data) > INLINE_BYTES_MAX or data.startswith(BLOB_START)
