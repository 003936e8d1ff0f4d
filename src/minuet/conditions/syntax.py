"""The syntax tree of a CEL expression, and what can be known from it alone.

The CEL library has no way to look at a tree, but it can serialize one as a protocol buffer
(`cel.expr.CheckedExpr` or `ParsedExpr` of the CEL specification). This module reads the few
messages it needs from that, so that references are found in the tree and never by searching
text. It evaluates nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import msgspec


class Constant(msgspec.Struct, frozen=True):
    """A literal; None stands for every literal that is neither a string nor an integer."""

    value: str | int | None = None


class Name(msgspec.Struct, frozen=True):
    """A variable, a type, or the beginning of a function's qualified name."""

    name: str


class Field(msgspec.Struct, frozen=True):
    """A field of an object: `operand.field`."""

    operand: Tree
    field: str


class Call(msgspec.Struct, frozen=True):
    """A function or operator; the receiver, if there is one, is the first argument."""

    function: str
    arguments: tuple[Tree, ...]


class Collection(msgspec.Struct, frozen=True):
    """A list or map literal: its items, keys and values."""

    items: tuple[Tree, ...]
    #: The name of a message, for `google.protobuf.Struct{…}` and the like.
    message: str = ""


class Loop(msgspec.Struct, frozen=True):
    """A macro such as `all` or `map`: a fold over `range` with an accumulator."""

    variable: str
    range: Tree
    accumulator: str
    start: Tree
    condition: Tree
    step: Tree
    result: Tree


Tree: TypeAlias = Constant | Name | Field | Call | Collection | Loop

#: A way into the data: a variable, then field names and list indexes.
Path: TypeAlias = tuple[str | int, ...]

_FIELD_CALLS = frozenset({"_[_]", "_?._", "_[?_]"})


def decode(serialized: bytes) -> Tree:
    """Read the tree out of a serialized expression."""
    envelope = _messages(serialized)
    body = _messages(envelope[2][0])
    checked = envelope[1][0].endswith(b"CheckedExpr")
    return _expression(body[4 if checked else 2][0])


def children(tree: Tree) -> tuple[Tree, ...]:
    """The trees directly below."""
    match tree:
        case Field(operand, _):
            return (operand,)
        case Call(_, arguments):
            return arguments
        case Collection(items, _):
            return items
        case Loop():
            return (tree.range, tree.start, tree.condition, tree.step, tree.result)
        case _:
            return ()


def walk(tree: Tree) -> Iterator[Tree]:
    """The tree and everything below it."""
    pending = [tree]
    while pending:
        tree = pending.pop()
        yield tree
        pending.extend(children(tree))


def free_names(tree: Tree) -> frozenset[str]:
    """The names that no loop binds."""
    bound = {name for loop in walk(tree) if isinstance(loop, Loop) for name in bound_names(loop)}
    return frozenset(t.name for t in walk(tree) if isinstance(t, Name)) - bound


def bound_names(loop: Loop) -> tuple[str, str]:
    """The names that the loop binds."""
    return (loop.variable, loop.accumulator)


def paths(tree: Tree) -> frozenset[Path]:
    """The longest ways into the data that the expression spells out."""
    found: set[Path] = set()
    bound = {name for loop in walk(tree) if isinstance(loop, Loop) for name in bound_names(loop)}
    pending = [tree]
    while pending:
        tree = pending.pop()
        path = _path(tree)
        if path is None:
            pending.extend(children(tree))
        elif path[0] not in bound:
            found.add(path)
    return frozenset(found)


def _path(tree: Tree) -> Path | None:
    """The way that the tree is, if it is nothing else."""
    match tree:
        case Name(name):
            return (name,)
        case Field(operand, field):
            before = _path(operand)
            return before and (*before, field)
        case Call(function, (operand, Constant(str() | int() as key))) if function in _FIELD_CALLS:
            before = _path(operand)
            return before and (*before, key)
        case _:
            return None


# Decoding. Field numbers are those of cel/expr/syntax.proto and checked.proto.


def _expression(data: bytes) -> Tree:
    message = _messages(data)
    if 4 in message:
        return Name(_text(_messages(message[4][0]), 1).removeprefix("."))
    if 5 in message:
        select = _messages(message[5][0])
        return Field(_expression(select[1][0]), _text(select, 2))
    if 6 in message:
        call = _messages(message[6][0])
        arguments = call.get(1, []) + call.get(3, [])
        return Call(_text(call, 2), tuple(map(_expression, arguments)))
    if 7 in message:
        return Collection(tuple(map(_expression, _messages(message[7][0]).get(1, []))))
    if 8 in message:
        struct = _messages(message[8][0])
        entries = [_messages(entry) for entry in struct.get(2, [])]
        parts = [part for entry in entries for key in (3, 4) for part in entry.get(key, [])]
        return Collection(tuple(map(_expression, parts)), _text(struct, 1))
    if 9 in message:
        fold = _messages(message[9][0])
        return Loop(
            variable=_text(fold, 1),
            accumulator=_text(fold, 3),
            range=_expression(fold[2][0]),
            start=_expression(fold[4][0]),
            condition=_expression(fold[5][0]),
            step=_expression(fold[6][0]),
            result=_expression(fold[7][0]),
        )
    return _constant(_messages(message[3][0]))


def _constant(message: dict[int, list[bytes]]) -> Constant:
    if 6 in message:
        return Constant(_text(message, 6))
    if 3 in message:
        number = int.from_bytes(message[3][0], "little")
        return Constant(number - (1 << 64) if number >> 63 else number)
    return Constant()


def _text(message: dict[int, list[bytes]], field: int) -> str:
    return message[field][0].decode() if field in message else ""


def _messages(data: bytes) -> dict[int, list[bytes]]:
    """The fields of a protocol buffer by number; a number is given as 10 little-endian bytes."""
    fields: dict[int, list[bytes]] = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                number, at = _varint(data, at)
                value = number.to_bytes(10, "little")
            case 2:
                length, at = _varint(data, at)
                value, at = data[at : at + length], at + length
            case wire:
                length = 8 if wire == 1 else 4
                value, at = data[at : at + length], at + length
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at
