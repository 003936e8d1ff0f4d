"""What a document reads from each node's output, and which values it compares that with.

Templates and conditions are searched as text, not evaluated. An extra field does no harm.
Literals next to a field are the values at which a decision changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from minuet.nodes.catalog import NODE_TYPES
from minuet.plan.plan import Node, Plan
from minuet.types import Json

#: Fields and indexes after a name.
Keys: TypeAlias = tuple[str | int, ...]

#: The key of the run's input among the nodes. No node can have this id.
INPUT = ""

_KEY = r"""\.\??[A-Za-z_]\w*|\[\??\d+\]|\[\??"[^"]*"\]|\[\??'[^']*'\]"""
_PATH = re.compile(rf"(?<![\w.\"'-])([A-Za-z_][\w-]*)((?:{_KEY})*)", re.ASCII)
_KEYS = re.compile(_KEY, re.ASCII)
#: A template that consists of one path.
_WHOLE = re.compile(rf"\{{\{{\s*[A-Za-z_][\w-]*(?:{_KEY})*\s*\}}\}}", re.ASCII)
_LITERAL = r"""("[^"]*"|'[^']*'|-?\d+\.\d+|-?\d+|true\b|false\b)"""
_OPERATOR = r"(==|!=|<=|>=|<|>)"
_AFTER = re.compile(rf"\s*{_OPERATOR}\s*{_LITERAL}")
_BEFORE = re.compile(rf"{_LITERAL}\s*{_OPERATOR}\s*$")
_MEMBER = re.compile(rf"{_LITERAL}\s+in\s+$")
#: The number that a list's length is compared with: `.size()`, `size(…)` or `| length`.
_LENGTH = re.compile(r"[()|\sa-z]*(?:==|!=|<=|>=|<|>)\s*(\d{1,2})\b")
_FILTER = re.compile(r"\s*\|\s*([a-z]+)")
_ORDERED = re.compile(r"\s*(<=?|>=?|[-*/%])")

_LISTS = frozenset(
    {"size", "all", "exists", "exists_one", "filter", "map", "join", "count", "dictsort", "first"}
    | {"last", "length", "list", "max", "min", "reject", "rejectattr", "reverse", "select"}
    | {"selectattr", "sort", "sum", "unique"}
)
_TEXTS = frozenset(
    {"contains", "startsWith", "endsWith", "matches", "split", "lowerAscii", "upperAscii", "trim"}
    | {"substring", "indexOf", "replace", "upper", "lower", "title", "capitalize", "urlencode"}
)
_NUMBERS = frozenset({"abs", "round", "int", "float"})


class Shape(msgspec.Struct):
    """The parts of a value that are read: fields, items, or the value itself, with candidates."""

    fields: dict[str, Shape] = msgspec.field(default_factory=dict)
    #: What is read from the items, and the highest index read.
    items: Shape | None = None
    index: int = 0
    candidates: list[Json] = msgspec.field(default_factory=list)

    def below(self, keys: Keys) -> Shape:
        """The shape at the end of a path. Creates what is missing."""
        shape = self
        for key in keys:
            if isinstance(key, str):
                shape = shape.fields.setdefault(key, Shape())
            else:
                shape.items = shape.items or Shape()
                shape.index = max(shape.index, key)
                shape = shape.items
        return shape

    def suggest(self, values: list[Json]) -> None:
        """Add candidates. 1 and true are different candidates."""
        known = {repr(value) for value in self.candidates}
        self.candidates += [value for value in values if repr(value) not in known]


def find_shapes(plan: Plan, wanted: Mapping[str, Mapping[str, list[Json]]]) -> dict[str, Shape]:
    """What the document reads from each node's output and from the run's input.

    `wanted` maps node and argument to values that the handler would accept.
    """
    nodes = {node.id: node for node in plan.nodes}
    found: dict[str, Shape] = {INPUT: Shape(), **{name: Shape() for name in nodes}}
    for node in plan.nodes:
        for text, is_condition in _texts(node):
            for name, keys, candidates in _uses(text, is_condition=is_condition):
                owner, rest = _resolve(nodes, node, name, keys, is_condition=is_condition)
                if owner is not None:
                    found[owner].below(rest).suggest(candidates)
    for name, arguments in wanted.items():
        for argument, values in arguments.items():
            whole = _WHOLE.fullmatch(str((nodes[name].config or {}).get(argument, "")))
            for path, keys, _ in _uses(whole[0], is_condition=False) if whole else ():
                owner, rest = _resolve(nodes, nodes[name], path, keys, is_condition=False)
                if owner is not None:
                    found[owner].below(rest).suggest(values)
    return found


def _texts(node: Node) -> Iterator[tuple[str, bool]]:
    """The texts in which a node reads other nodes, and whether each is CEL."""
    node_type = NODE_TYPES.get(node.type)
    expressions = node_type.expression_fields if node_type is not None else ()
    for field, value in (node.config or {}).items():
        for text in _strings(value):
            yield text, field in expressions
    if node.concurrency is not None:
        yield node.concurrency.key, False
    conditions: list[Any] = [rule.condition for rule in node.branch.rules] if node.branch else []
    if node.loop is not None:
        conditions.append(node.loop.condition)
    for condition in conditions:
        for text in _strings(condition):
            yield text, True


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _uses(text: str, *, is_condition: bool) -> Iterator[tuple[str, Keys, list[Json]]]:
    """Names with the keys after them, and candidates that the surrounding text suggests."""
    for part in [text] if is_condition else re.findall(r"\{\{(.*?)\}\}", text, re.S):
        for match in _PATH.finditer(part):
            keys = [_key(key) for key in _KEYS.findall(match[2])]
            before, after = part[: match.start()], part[match.end() :]
            method = None
            if keys and after.startswith("("):
                method = str(keys.pop())
            candidates = _candidates(before, after, method, is_condition=is_condition)
            yield match[1], tuple(keys), candidates


def _key(text: str) -> str | int:
    inner = text.strip(".[]").removeprefix("?")
    if text.startswith(".") or inner[:1] in "\"'":
        return inner.strip("\"'")
    return int(inner)


def _candidates(before: str, after: str, method: str | None, *, is_condition: bool) -> list[Json]:
    compared = _AFTER.match(after) or _BEFORE.search(before)
    if compared is not None:
        literal = next(group for group in compared.groups() if group[0] not in "=!<>")
        return _around(_value(literal))
    member = _MEMBER.search(before)
    if member is not None:
        return [[], [_value(member[1])]]
    filtered = _FILTER.match(after) if not is_condition else None
    word = method or (filtered[1] if filtered else "")
    if word in _LISTS or before.endswith("size("):
        length = _LENGTH.match(after)
        longest = int(length[1]) + 1 if length else 3
        return [list(range(1, n + 1)) for n in sorted({0, 1, max(longest - 1, 0), longest})]
    if word in _TEXTS:
        return ["text", "other"]
    if word in _NUMBERS or _ORDERED.match(after) or re.search(r"[<>*/%-]=?\s*$", before):
        return [0, 1, 7, 1000]
    ends = re.match(r"\s*(&&|\|\||\)|\?|$)", after) is not None
    if is_condition and method is None and ends and re.search(r"(^|[!&|(])\s*$", before):
        return [True, False]
    return []


def _value(literal: str) -> Json:
    if literal[0] in "\"'":
        return literal[1:-1]
    if literal in ("true", "false"):
        return literal == "true"
    return float(literal) if "." in literal else int(literal)


def _around(value: Json) -> list[Json]:
    """The value at which a comparison changes its result, and a value on each side of it."""
    if isinstance(value, bool):
        return [True, False]
    if isinstance(value, str):
        return [value, "other"]
    if isinstance(value, int):
        return [value - 1, value, value + 1]
    return [value * 0.9, value, value * 1.1 + 0.1]


def _resolve(
    nodes: dict[str, Node],
    reader: Node,
    name: str,
    keys: Keys,
    *,
    is_condition: bool,
) -> tuple[str | None, Keys]:
    """The node (or input) that a path reads, and the path within it. None: nothing drawn."""
    if is_condition and name == "output":
        if reader.branch is not None or reader.loop is not None:
            name = reader.id
        else:
            # An expression sees the node's inputs, keyed by dependency.
            name, keys = (str(keys[0]), keys[1:]) if keys else ("", ())
    else:
        name, keys = _spelled(name, keys, is_condition=is_condition)
    return _follow(nodes, name, keys)


def _spelled(name: str, keys: Keys, *, is_condition: bool) -> tuple[str, Keys]:
    """The node (or the input) that a path names, and the path within its output."""
    if name in ("ctx", "nodes") and keys:
        name, keys = str(keys[0]), keys[1:]
    elif name == "input":
        return INPUT, keys
    elif is_condition:
        return "?", ()
    return name, keys[1:] if keys[:1] == ("output",) else keys


def _follow(nodes: dict[str, Node], name: str, keys: Keys) -> tuple[str | None, Keys]:
    """Follow a value to its origin, through nodes that only pass values on."""
    for _ in nodes:
        node = nodes.get(name)
        if node is not None and node.type == "decision" and keys:
            name, keys = str(keys[0]), keys[1:]
            continue
        passed = _passed_on(node, keys) if node is not None and node.type == "transform" else None
        if passed is None:
            break
        name, keys = passed
    return (name, keys) if name in nodes or name == INPUT else (None, ())


def _passed_on(node: Node, keys: Keys) -> tuple[str, Keys] | None:
    """Where a transform takes this part of its value from, if it passes it on unchanged."""
    value = (node.config or {}).get("value")
    while isinstance(value, dict) and keys and keys[0] in value:
        value, keys = value[keys[0]], keys[1:]
    whole = _WHOLE.fullmatch(value) if isinstance(value, str) else None
    for name, path, _ in _uses(whole[0], is_condition=False) if whole else ():
        source, start = _spelled(name, path, is_condition=False)
        return source, (*start, *keys)
    return None
