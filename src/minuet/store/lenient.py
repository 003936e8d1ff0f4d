"""Rows that cannot be read as they should be: damaged, or written by a faulty program.

One such row costs its own run, and never a worker or a list. A field that does not decode gets a
stand-in of its type that says so. Each store decodes strictly first and comes here only when that
fails, so sound rows cost nothing more.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from minuet.store.records import Read, Run

#: What decoding a damaged value may raise.
DAMAGE = (msgspec.MsgspecError, ValueError, TypeError, RecursionError, struct.error)

#: What a token reads when its row does not say that in a way that can be understood. No node has an
#: empty name. `lua/rows.lua` writes the same.
UNREADABLE_READS = (Read("", ""),)

#: The field that `Grant.damaged` names.
READS = "reads"

#: How the text of a stand-in begins.
_MARK = "not readable in the store: "

#: As much of a damaged value as a stand-in shows.
_SHOWN = 200

_KEY = "unreadable"

Row = TypeVar("Row", bound=msgspec.Struct)

_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_decode_reads = msgspec.json.Decoder(tuple[Read, ...]).decode
_decode_lost = msgspec.json.Decoder(tuple[str, ...]).decode


def tags_of(data: Any) -> dict[str, Any]:
    """Tags, from their JSON."""
    try:
        return _decode_object(data)
    except DAMAGE:
        return unreadable_tags(data)


def error_of(data: Any) -> dict[str, Any]:
    """An error, from its JSON."""
    try:
        return _decode_object(data)
    except DAMAGE:
        return unreadable_error(data)


def reads_of(data: Any) -> tuple[Read, ...]:
    """What a token reads, from its JSON."""
    try:
        return _decode_reads(data)
    except DAMAGE:
        return UNREADABLE_READS


def lost_of(data: Any) -> tuple[str, ...]:
    """Leases that were lost, from their JSON. Without them, a worker that comes back is late."""
    try:
        return _decode_lost(data)
    except DAMAGE:
        return ()


def text_of(data: bytes) -> str:
    """Text that the store holds as bytes."""
    return data.decode("utf-8", "replace")


def damage_of(reads: Sequence[Read]) -> str:
    """The field of a token that is damaged, as `Grant.damaged` says it; "": none is."""
    return READS if reads and reads == UNREADABLE_READS else ""


def unreadable_tags(value: Any) -> dict[str, Any]:
    return {_KEY: _MARK + _shown(value)}


def unreadable_error(value: Any) -> dict[str, Any]:
    return {"code": _KEY, "message": _MARK + _shown(value)}


def is_unreadable(value: dict[str, Any] | None) -> bool:
    """Whether these are tags, or an error, that stand for some that could not be read."""
    if not value:
        return False
    text = value.get(_KEY) if len(value) == 1 else value.get("message")
    return isinstance(text, str) and text.startswith(_MARK)


def damaged_fields(run: Run) -> list[str]:
    """The fields of a run that are stand-ins."""
    return [name for name in ("tags", "error") if is_unreadable(getattr(run, name))]


def struct_of(kind: type[Row], values: Any) -> Row:
    """A record from values of any type, by name or in order; each that does not fit gets a
    stand-in."""
    fields = msgspec.structs.fields(kind)
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
        values = dict(zip([field.name for field in fields], values, strict=False))
    if not isinstance(values, dict):
        values = {}
    return kind(**{field.name: _value(field, values) for field in fields})


def _value(field: msgspec.structs.FieldInfo, values: dict[str, Any]) -> Any:
    missing = field.encode_name not in values
    value = values.get(field.encode_name)
    if not missing:
        try:
            return msgspec.convert(value, field.type)
        except DAMAGE:
            if field.name == "tags" and _takes(field.type, {}):
                return unreadable_tags(value)
            if field.name == "error" and _takes(field.type, {}):
                return unreadable_error(value)
            if _takes(field.type, ""):
                return _shown(value)
    if field.default is not msgspec.NODEFAULT:
        return field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return next((empty for empty in (None, "", 0) if _takes(field.type, empty)), None)


def _takes(kind: Any, value: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except DAMAGE:
        return False
    return True


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        value = text_of(value)
    return (value if isinstance(value, str) else repr(value))[:_SHOWN]
