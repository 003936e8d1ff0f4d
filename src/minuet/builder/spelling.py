"""Expressions as text: as a template (Jinja), and as a condition (CEL).

The two languages differ where Python's meaning has to be kept: CEL does not mix whole numbers with
others, divides whole numbers without a rest, and does not count from the end of a list.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn, TypeAlias

import msgspec

from minuet.builder.places import refuse
from minuet.conditions.cel.lexer import RESERVED
from minuet.templates.lookup import NODES, VARIABLES
from minuet.types import Json


class Root(msgspec.Struct, frozen=True):
    """Where a reference begins: `input`, `run`, `item`, `iteration`, or a node's output."""

    name: str
    #: The workflow that it belongs to.
    owner: object
    is_node: bool = False


class Literal(msgspec.Struct, frozen=True):
    value: Json


class Items(msgspec.Struct, frozen=True):
    items: tuple[Any, ...]


class Field(msgspec.Struct, frozen=True):
    of: Any
    key: Any


class Part(msgspec.Struct, frozen=True):
    of: Any
    #: Start, stop and step.
    bounds: tuple[Any, ...]


class Unary(msgspec.Struct, frozen=True):
    sign: str
    operand: Any


class Binary(msgspec.Struct, frozen=True):
    sign: str
    left: Any
    right: Any


class Member(msgspec.Struct, frozen=True):
    item: Any
    container: Any


class Contains(msgspec.Struct, frozen=True):
    container: Any
    item: Any


class Length(msgspec.Struct, frozen=True):
    of: Any


Tree: TypeAlias = (
    Root | Literal | Items | Field | Part | Unary | Binary | Member | Contains | Length
)

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

#: Names that are values or operators where a name is expected.
_JINJA_WORDS: Final = frozenset(
    {*VARIABLES, NODES, "true", "false", "none", "True", "False", "None", "not", "and", "or"}
    | {"in", "is", "if", "else"}
)
_CEL_WORDS: Final = RESERVED | {"in", "true", "false", "null"}


_LOGIC: Final = ("and", "or")
_COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=")
_CEL_SIGNS: Final = {"and": "&&", "or": "||"} | {sign: sign for sign in _COMPARISONS}


def _needs_no_parentheses(tree: Tree, sign: str) -> bool:
    """Whether an operand of this sign means the same without parentheses, in both languages."""
    if sign in _COMPARISONS:
        return isinstance(tree, Literal) or (
            isinstance(tree, Binary) and tree.sign not in (*_LOGIC, *_COMPARISONS)
        )
    if sign in _LOGIC:
        is_not = isinstance(tree, Unary) and tree.sign == "not"
        is_comparison = isinstance(tree, Binary) and tree.sign in (sign, *_COMPARISONS)
        return is_not or is_comparison or isinstance(tree, Member)
    return False


def owners(tree: Tree) -> set[int]:
    """The ids of the workflows whose values an expression reads."""
    if isinstance(tree, Root):
        return {id(tree.owner)}
    found: set[int] = set()
    for name in tree.__struct_fields__:
        value = getattr(tree, name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, msgspec.Struct):
                found |= owners(part)  # type: ignore[arg-type]
    return found


# ── templates ───────────────────────────────────────────────────────────────────────────────


def spell_template(tree: Tree) -> str:
    """The expression as a template that is one expression, so that its value keeps its type."""
    return f"{{{{ {_jinja(tree)} }}}}"


def _jinja(tree: Tree) -> str:
    match tree:
        case Root(name=name, is_node=True):
            plain = _NAME.fullmatch(name) and name not in _JINJA_WORDS
            return f"{name}.output" if plain else f"{NODES}[{json.dumps(name)}].output"
        case Root(name=name):
            return name
        case Literal(value=value):
            return _jinja_literal(value)
        case Items(items=items):
            return f"[{', '.join(map(_jinja, items))}]"
        case Field(of=of, key=Literal(value=str(key))) if _NAME.fullmatch(key):
            return f"{_jinja_inner(of)}.{key}"
        case Field(of=of, key=key):
            return f"{_jinja_inner(of)}[{_jinja(key)}]"
        case Part(of=of, bounds=bounds):
            written = ["" if bound is None else _jinja(bound) for bound in bounds]
            return f"{_jinja_inner(of)}[{':'.join(written if bounds[2] else written[:2])}]"
        case Unary(sign=sign, operand=operand):
            return f"{'not ' if sign == 'not' else sign}{_jinja_inner(operand)}"
        case Binary(sign=sign, left=left, right=right):
            operands = [
                _jinja(part) if _needs_no_parentheses(part, sign) else _jinja_inner(part)
                for part in (left, right)
            ]
            return f" {sign} ".join(operands)
        case Member(item=item, container=container) | Contains(item=item, container=container):
            return f"{_jinja_inner(item)} in {_jinja_inner(container)}"
        case Length(of=of):
            return f"{_jinja_inner(of)} | length"


def _jinja_inner(tree: Tree) -> str:
    text = _jinja(tree)
    is_simple = isinstance(tree, Root | Items | Field | Part) or (
        isinstance(tree, Literal) and not text.startswith("-")
    )
    return text if is_simple else f"({text})"


def _jinja_literal(value: Json) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        pairs = (
            f"{json.dumps(k, ensure_ascii=False)}: {_jinja_literal(v)}" for k, v in value.items()
        )
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_jinja_literal, value))}]"
    return json.dumps(value, ensure_ascii=False)


# ── conditions ──────────────────────────────────────────────────────────────────────────────


def spell_condition(tree: Tree, own: str | None) -> str:
    """The expression as CEL; the node `own` is the one whose condition it is, if any."""
    match tree:
        case Root(name=name, is_node=True):
            if name == own:
                return "output"
            return f"{_cel_field('ctx', name)}.output"
        case Root(name=name):
            return name
        case Literal(value=value):
            return json.dumps(value, ensure_ascii=False)
        case Items(items=items):
            return f"[{', '.join(spell_condition(item, own) for item in items)}]"
        case Field(of=of, key=Literal(value=str(key))):
            return _cel_field(_cel_inner(of, own), key)
        case Field(of=of, key=Literal(value=int(key))) if key < 0:
            operand = _cel_inner(of, own)
            return f"{operand}[size({operand}) - {-key}]"
        case Field(of=of, key=key):
            return f"{_cel_inner(of, own)}[{spell_condition(key, own)}]"
        case Unary(sign="not", operand=operand):
            return f"!{_cel_inner(operand, own)}"
        case Unary(operand=operand):
            return f"-{_cel_number(operand, own)}"
        case Binary(sign=sign, left=left, right=right) if sign in _CEL_SIGNS:
            operands = [
                spell_condition(part, own)
                if _needs_no_parentheses(part, sign)
                else _cel_inner(part, own)
                for part in (left, right)
            ]
            return f" {_CEL_SIGNS[sign]} ".join(operands)
        case Binary():
            return _cel_arithmetic(tree, own)
        case Member(item=item, container=container):
            return f"{_cel_inner(item, own)} in {_cel_inner(container, own)}"
        case Contains():
            return _cel_contains(tree, own)
        case Length(of=of):
            return f"size({spell_condition(of, own)})"
        case _:
            return _not_in_condition("a part of a list ([a:b])")


def _cel_field(operand: str, key: str) -> str:
    is_plain = _NAME.fullmatch(key) and key not in _CEL_WORDS
    return f"{operand}.{key}" if is_plain else f"{operand}[{json.dumps(key, ensure_ascii=False)}]"


def _cel_inner(tree: Tree, own: str | None) -> str:
    text = spell_condition(tree, own)
    is_simple = isinstance(tree, Root | Items | Field | Length) or (
        isinstance(tree, Literal) and not text.startswith("-")
    )
    return text if is_simple else f"({text})"


def _cel_contains(tree: Contains, own: str | None) -> str:
    container, item = _cel_inner(tree.container, own), _cel_inner(tree.item, own)
    if isinstance(tree.item, Literal) and not isinstance(tree.item.value, str):
        return f"{item} in {container}"
    # CEL has one way to search texts, and another for lists and objects.
    return f"type({container}) == string ? {container}.contains({item}) : {item} in {container}"


def _cel_arithmetic(tree: Binary, own: str | None) -> str:
    if tree.sign in ("//", "%"):
        _not_in_condition(f"the operator {tree.sign}")
    if tree.sign == "+" and (_is_text(tree.left) or _is_text(tree.right)):
        return f"{_cel_inner(tree.left, own)} + {_cel_inner(tree.right, own)}"
    if tree.sign == "+" and not (_is_number(tree.left) or _is_number(tree.right)):
        _not_in_condition("+ between two values that may be texts or numbers")
    return f"{_cel_number(tree.left, own)} {tree.sign} {_cel_number(tree.right, own)}"


def _is_text(tree: Tree) -> bool:
    if isinstance(tree, Binary):
        return tree.sign == "+" and (_is_text(tree.left) or _is_text(tree.right))
    return isinstance(tree, Literal) and isinstance(tree.value, str)


def _is_number(tree: Tree) -> bool:
    if isinstance(tree, Binary):
        return tree.sign in ("-", "*", "/") or (
            tree.sign == "+" and (_is_number(tree.left) or _is_number(tree.right))
        )
    is_literal = isinstance(tree, Literal) and type(tree.value) in (int, float)
    return is_literal or isinstance(tree, Length) or (isinstance(tree, Unary) and tree.sign == "-")


def _cel_number(tree: Tree, own: str | None) -> str:
    """A number that can be mixed with any other."""
    if isinstance(tree, Literal) and type(tree.value) in (int, float):
        text = repr(float(tree.value))
        return f"({text})" if text.startswith("-") else text
    if isinstance(tree, Binary | Unary) and _is_number(tree):
        return f"({spell_condition(tree, own)})"
    return f"double({spell_condition(tree, own)})"


def _not_in_condition(what: str) -> NoReturn:
    refuse(
        "not-a-condition",
        f"a condition cannot have {what}",
        "compute it in a node before (minuet.transform, or a task), or write the condition as "
        "CEL text",
    )
