"""Rows that cannot be decoded: damaged, or written by a faulty program.

One such row costs its own run, and never a worker or a list. A field that does not decode gets a
stand-in of its type that says so. Each store decodes strictly first and comes here only when that
fails, so sound rows cost nothing more.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo

from minuet.store.records import Read, Run

#: What decoding a damaged value may raise.
DAMAGE = (msgspec.MsgspecError, ValueError, TypeError, RecursionError, struct.error)

#: What a token reads when that part of its row cannot be decoded. No node has an
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


def plain_type(field: FieldInfo) -> Any:
    """The type of a field's values, None left out."""
    parts = get_args(field.type)
    if type(None) not in parts:
        return field.type
    (kind,) = (part for part in parts if part is not type(None))
    return kind


def default_of(field: FieldInfo) -> Any:
    """What a field begins with; None when it must be given."""
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return None if field.default is msgspec.NODEFAULT else field.default


def json_reader(field: FieldInfo) -> Callable[[Any], Any]:
    """A function that reads a field from its JSON, or gives the stand-in."""
    kind = plain_type(field)
    decode = msgspec.json.Decoder(kind).decode
    stand_in = _STAND_INS.get(field.name) or (lambda _: (get_origin(kind) or kind)())

    def read(data: Any) -> Any:
        try:
            return decode(data)
        except DAMAGE:
            return stand_in(data)

    return read


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


#: By the name of a field. Others become empty: without the leases that were lost, a worker that
#: comes back is late.
_STAND_INS: dict[str, Callable[[Any], Any]] = {
    "tags": unreadable_tags,
    "error": unreadable_error,
    "reads": lambda _: UNREADABLE_READS,
}

_RUN_FIELDS = {field.name: field for field in msgspec.structs.fields(Run)}

#: Tags and an error, from their JSON.
tags_of: Callable[[Any], dict[str, Any]] = json_reader(_RUN_FIELDS["tags"])
error_of: Callable[[Any], dict[str, Any]] = json_reader(_RUN_FIELDS["error"])


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
            if field.name in ("tags", "error") and _takes(field.type, {}):
                return _STAND_INS[field.name](value)
            if _takes(field.type, ""):
                return _shown(value)
    if not field.required:
        return default_of(field)
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
