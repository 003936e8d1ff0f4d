"""What the fields of a record are called, and how SQL stores keep them.

The records in `records` are the one declaration of what a row holds. From their fields and types
this module derives, once at import, the column lists of SQL statements and the functions that turn
a row into a record and back. A field that is added to a record is part of all of them at once. What
a field needs beyond its type (nothing changes it, it always begins with its default)
is in a list of exceptions, so a forgotten field is written rather than lost.

The functions are compiled from a line of Python each, because they run for every token that moves:
a loop over the fields would cost ten times as much.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo

from minuet.store.lenient import json_reader, plain_type, text_of
from minuet.store.records import FREE_TEXT, Join, Run, Token

Kind = TypeVar("Kind", bound=msgspec.Struct)

#: A row as a driver returns it or takes it.
Row: TypeAlias = Any

#: What a value is, as far as stores keep it in different ways. `free`: text that may hold any
#: character; `object` and `list`: kept as JSON.
Sort: TypeAlias = Literal["plain", "flag", "free", "object", "list"]


def names(kind: type[msgspec.Struct], *, without: Collection[str] = ()) -> tuple[str, ...]:
    """The fields of a record in their order, without some."""
    fields = kind.__struct_fields__
    unknown = set(without).difference(fields)
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {', '.join(sorted(unknown))}")
    return tuple(name for name in fields if name not in without)


#: What never changes of a run, a token and a join once it is stored.
RUN_FIXED = (
    *("run", "tenant", "workflow", "tags", "idempotency_key", "created_ms", "parent"),
    *("version", "tag", "parent_node", "parent_scope", "depth", "parent_number", "undo_on"),
)
TOKEN_FIXED = (
    *("run", "node", "scope", "tenant", "queue", "skip", "hop"),
    *("source", "source_scope", "reads", "given", "edited"),
)
JOIN_FIXED = ("run", "node", "scope", "need", "total")

#: What only a repair changes of a token, by a statement of its own.
TOKEN_REPAIR = ("queue", "skip", "given", "edited")

#: What only taking a token changes; nothing else writes it.
TOKEN_TAKEN = ("delivery", "session", "taken_ms")

#: What a step may change of a row that it has loaded.
RUN_CHANGE = names(Run, without=RUN_FIXED)
TOKEN_CHANGE = names(Token, without=(*TOKEN_FIXED, *TOKEN_TAKEN))
JOIN_CHANGE = names(Join, without=JOIN_FIXED)


class Dialect(msgspec.Struct, frozen=True):
    """How a store keeps values, where stores differ."""

    #: Flags come back as 0 and 1.
    has_numbers_for_flags: bool = False
    #: Its text cannot hold every character, so free text is kept as bytes.
    has_bytes_for_free_text: bool = False
    #: What an empty list is kept as, by field; otherwise as NULL.
    empty: Mapping[str, str] = {}


def sort_of(field: FieldInfo) -> Sort:
    """What a field holds."""
    kind = plain_type(field)
    if FREE_TEXT in getattr(kind, "__metadata__", ()):
        return "free"
    sorts: dict[Any, Sort] = {bool: "flag", dict: "object", tuple: "list"}
    return sorts.get(get_origin(kind) or kind, "plain")


def is_optional(field: FieldInfo) -> bool:
    """Whether a field may be None."""
    return type(None) in get_args(field.type)


def decoder(
    kind: type[Kind],
    columns: Sequence[str],
    dialect: Dialect,
    *,
    given: Sequence[str] = (),
    is_open: bool = False,
) -> Callable[..., Kind]:
    """A function that makes a record from a row with these columns.

    Columns that are not fields are ignored. Fields in `given` are arguments after the row.
    Others that the row does not have get their defaults. `is_open`: the row may have more columns
    at its end, which a later version has added while this process runs.
    """
    space: dict[str, Any] = {"kind": kind}
    values = []
    for field in msgspec.structs.fields(kind):
        if field.name in given:
            values.append(field.name)
        elif field.name in columns:
            values.append(_decoded(field, dialect, space))
        else:
            values.append(_default(kind, field, space))
    arguments = ", ".join(["row", *given])
    taken = ", ".join([*columns, "*_"] if is_open else columns)
    # The values are in the order of the fields, which is that of the arguments: naming each of
    # them would take four times as long.
    source = f"def decode({arguments}):\n    {taken} = row\n    return kind({', '.join(values)})\n"
    return compiled("decode", source, space)


def builder(
    kind: type[Kind], source: type[msgspec.Struct] | None = None, *, given: Sequence[str] = ()
) -> Callable[..., Kind]:
    """A function that makes a record from another one and from arguments.

    The record comes first if there is a `source`: the fields that both have are copied. The other
    arguments are named in `given`. Each field must come from somewhere: none is left at its default
    because it was forgotten.
    """
    unknown = set(given).difference(kind.__struct_fields__)
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {', '.join(sorted(unknown))}")
    copied = source.__struct_fields__ if source is not None else ()
    values = []
    for name in kind.__struct_fields__:
        if name not in given and name not in copied:
            raise ValueError(f"nothing says what the field {name} of {kind.__name__} is")
        values.append(name if name in given else f"record.{name}")
    arguments = ", ".join([*(["record"] if source is not None else []), *given])
    source_text = f"def build({arguments}):\n    return kind({', '.join(values)})\n"
    return compiled("build", source_text, {"kind": kind})


def encoder(
    kind: type[msgspec.Struct],
    columns: Sequence[str],
    dialect: Dialect,
    *,
    given: Sequence[str] = (),
) -> Callable[..., tuple[Any, ...]]:
    """A function that makes a row with these columns from a record. Columns in `given` are
    arguments after the record; they need not be fields."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    space: dict[str, Any] = {"to_json": to_json}
    values = [name if name in given else _encoded(fields[name], dialect, space) for name in columns]
    arguments = ", ".join(["record", *given])
    source = f"def encode({arguments}):\n    return ({', '.join(values)},)\n"
    return compiled("encode", source, space)


_encode = msgspec.json.Encoder().encode


def to_json(value: Any) -> str:
    """JSON as SQL's functions want it: text."""
    return _encode(value).decode()


def _decoded(field: FieldInfo, dialect: Dialect, space: dict[str, Any]) -> str:
    """The expression for a value that was read into a variable of the field's name."""
    name = field.name
    sort = sort_of(field)
    if sort == "flag" and dialect.has_numbers_for_flags:
        return f"{name} != 0"
    if sort == "free" and dialect.has_bytes_for_free_text:
        space["text_of"] = text_of
        empty = f"None if {name} is None" if is_optional(field) else f'"" if not {name}'
        return f"{empty} else text_of({name})"
    if sort in ("object", "list"):
        space[f"read_{name}"] = json_reader(field)
        empty = f"None if {name} is None"
        if not is_optional(field):
            # Most rows have nothing there.
            empty = f"() if not {name}" if sort == "list" else f'{{}} if {name} == "{{}}"'
        return f"{empty} else read_{name}({name})"
    return name


def _encoded(field: FieldInfo, dialect: Dialect, space: dict[str, Any]) -> str:
    """The expression for a field of the record."""
    value = f"record.{field.name}"
    sort = sort_of(field)
    kept = value
    if sort == "free" and dialect.has_bytes_for_free_text:
        kept = f"{value}.encode()"
    elif sort in ("object", "list"):
        kept = f"to_json({value})"
    if kept == value:
        return value
    if is_optional(field):
        return f"None if {value} is None else {kept}"
    if sort == "list":
        return f"{kept} if {value} else {dialect.empty.get(field.name)!r}"
    return kept


def _default(kind: type[msgspec.Struct], field: FieldInfo, space: dict[str, Any]) -> str:
    if field.default is not msgspec.NODEFAULT:
        space[f"default_{field.name}"] = field.default
        return f"default_{field.name}"
    if field.default_factory is not msgspec.NODEFAULT:
        space[f"default_{field.name}"] = field.default_factory
        return f"default_{field.name}()"
    raise ValueError(f"a row of {kind.__name__} must have the field {field.name}")


def compiled(name: str, source: str, space: dict[str, Any]) -> Callable[..., Any]:
    """The function of this name that our own text defines, with these names in it."""
    exec(source, space)
    function: Callable[..., Any] = space[name]
    return function
