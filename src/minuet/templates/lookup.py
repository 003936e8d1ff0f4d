"""Paths into the data, and what an expression can read while it is evaluated.

All reads go through this module, which enforces "only data": a name after a dot is a key of an
object, an index is a position in a list, and nothing else exists. Attributes of Python objects are
never read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, TypeAlias

import msgspec

from minuet.types import Json


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Upper bounds on templates and on what they build."""

    #: Characters of one string with expressions: enough for a long prompt.
    source_chars: int = 256 * 1024
    #: Characters of one expression. Nobody reads more, and parsing stays below 100 ms.
    expression_chars: int = 4096
    #: Expressions, and texts between them, in one string.
    parts: int = 1000
    #: Nesting of a template, and of an expression.
    depth: int = 100
    #: Characters or items of anything that an expression builds.
    text_chars: int = 1024 * 1024
    #: Characters that filters and operators may process in one rendering: under a second.
    work: int = 8 * 1024 * 1024
    #: Integers are below this and at or above its negative, so that every store can hold them.
    whole: int = 2**63
    #: How many compiled strings are cached.
    cached: int = 4096


LIMITS = Limits()

#: The cost of visiting one item of a list or object, in characters.
ITEM = 32

#: Names that are not nodes. A node with such an id is read as `nodes["input"].output`.
VARIABLES = ("input", "run", "iteration", "item", "item_index", "secrets")

#: What is a variable only where a node's output is known: in its compensator.
OUTPUT = "output"

#: The variable that gives the values of secrets.
SECRETS = "secrets"

#: The name that gives access to every node, whatever its id.
NODES = "nodes"

Key: TypeAlias = str | int


class Problem(Exception):
    """Why an expression cannot be compiled or evaluated."""


class Missing(Problem):
    """A name or field that does not exist. `default` and `is defined` look for it.

    The message is built only when it is read: the search for similar names takes longer than the
    rest, and with `default` the message is not needed.
    """

    def __init__(self, describe: Callable[[], str]) -> None:
        self._describe = describe
        super().__init__()

    def __str__(self) -> str:
        return self._describe()


class Scope:
    """One rendering: what it can read, and how much work is left."""

    __slots__ = ("_left", "outputs", "variables")

    def __init__(self, outputs: Mapping[str, Json], variables: Mapping[str, Json]) -> None:
        self.outputs = outputs
        self.variables = variables
        self._left = LIMITS.work

    def charge(self, amount: int) -> None:
        """Count work. Too much of it ends the rendering."""
        self._left -= amount
        if self._left < 0:
            raise Problem("it does too much work on this data")

    def build(self, size: int) -> None:
        """Count a text or list of that size before it is built."""
        if size > LIMITS.text_chars:
            raise Problem(f"it would be longer than {LIMITS.text_chars}")
        self.charge(size)

    def charge_shallow(self, value: Json) -> None:
        """Count the characters, items or fields of the value, but not what is in them."""
        if isinstance(value, (str, list, dict)):
            self.charge(len(value))

    def charge_deep(self, value: Json) -> None:
        """Count everything in the value."""
        pending = [value]
        while pending:
            value = pending.pop()
            if isinstance(value, str):
                self.charge(len(value))
            elif isinstance(value, dict):
                self.charge(ITEM * (len(value) + 1))
                self.charge(sum(map(len, value)))
                pending.extend(value.values())
            elif isinstance(value, list):
                self.charge(ITEM * (len(value) + 1))
                pending.extend(value)


Evaluate: TypeAlias = Callable[[Scope], Json]


class Expression(msgspec.Struct, frozen=True):
    """A compiled expression."""

    evaluate: Evaluate
    references: frozenset[str] = frozenset()
    uses: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()


class Path(msgspec.Struct, frozen=True):
    """A name, and the fields and indexes after it."""

    name: str
    keys: tuple[Key, ...] = ()


_STEP = r"""\.([A-Za-z_]\w*)|[.](\d{1,9})(?!\d)|\[(\d{1,9})\]|\["([^"\\]*)"\]|\['([^'\\]*)'\]"""
_STEPS = re.compile(_STEP, re.ASCII)
_PATH = re.compile(rf"([A-Za-z_][\w-]*)((?:{_STEP})*)", re.ASCII)

#: A variable minus a number looks like a node's id.
_DIFFERENCE = re.compile(rf"({'|'.join(VARIABLES)})-\d+", re.ASCII)

_WORDS = frozenset({"true", "false", "none", "True", "False", "None", "not"})


def parse_path(text: str) -> Path | None:
    """The path in the text, if it is one. Node ids may contain hyphens here."""
    found = _PATH.fullmatch(text)
    if found is None or found[1] in _WORDS or _DIFFERENCE.fullmatch(found[1]):
        return None
    keys: list[Key] = []
    for field, dotted, index, double, single in _STEPS.findall(found[2]):
        number = dotted or index
        keys.append(int(number) if number else field or double or single)
    return Path(found[1], tuple(keys))


def compile_path(path: Path, item: str = "item", *, knows_output: bool = False) -> Expression:
    """How to read the path, and what it reads. `item` is another name of the variable `item`;
    `knows_output`: there is a variable `output`."""
    name, keys = path.name, path.keys
    if name == SECRETS:
        # Which ones a text reads must be known before it is rendered.
        if not keys or not isinstance(keys[0], str):
            raise Problem("secrets needs the name of a secret, written out: secrets.NAME")
        return Expression(
            _read_variable(name, keys, name), uses=frozenset({name}), secrets=frozenset({keys[0]})
        )
    if name == OUTPUT and knows_output:
        return Expression(_read_variable(name, keys, name), uses=frozenset({name}))
    if name in VARIABLES or name == item:
        variable = "item" if name == item else name
        return Expression(_read_variable(variable, keys, name), uses=frozenset({variable}))
    if name == NODES:
        if not keys or not isinstance(keys[0], str):
            raise Problem('nodes needs the id of a node, written out: nodes["id"]')
        name, keys = keys[0], keys[1:]
    if not keys:
        raise Problem(f"{name!r} alone says nothing: write {name}.output or {name}.<field>")
    if keys[0] == "output":
        keys = keys[1:]
    return Expression(_read_output(name, keys), references=frozenset({name}))


def _read_variable(name: str, keys: tuple[Key, ...], written: str) -> Evaluate:
    def read(scope: Scope) -> Json:
        if name not in scope.variables:
            raise Missing(lambda: f"{written!r} has no value here")
        return follow(scope.variables[name], keys, written)

    return read


def _read_output(node: str, keys: tuple[Key, ...]) -> Evaluate:
    origin = f"the output of {node!r}"

    def read(scope: Scope) -> Json:
        if node not in scope.outputs:
            raise Missing(lambda: f"node {node!r} has no output here{hint(node, scope.outputs)}")
        return follow(scope.outputs[node], keys, origin)

    return read


def follow(value: Json, keys: tuple[Key, ...], origin: str) -> Json:
    """The value at the end of the path."""
    for position, key in enumerate(keys):
        if type(value) is dict:
            found = key in value
        elif type(value) is list or type(value) is str:
            found = type(key) is int and -len(value) <= key < len(value)
        else:
            found = False
        if not found:
            raise _missing(value, key, origin, keys[:position])
        value = value[key]
    return value


def get(value: Json, key: Json) -> Json:
    """The value at a computed key or index."""
    if type(key) not in (str, int):
        raise Problem(f"{kind(key)} is not a field or index")
    return follow(value, (key,), "the value")


def _missing(value: Json, key: Key, origin: str, before: tuple[Key, ...]) -> Missing:
    def describe() -> str:
        where = f"{origin} at {spell(before)}" if before else origin
        if type(value) is dict:
            return f"there is no field {key!r} in {where}{hint(key, value)}"
        if isinstance(value, (list, str)) and type(key) is int:
            return f"there is no item {key} in {where}, which has {len(value)}"
        return f"there is no field {key!r} in {where}, which is {kind(value)}"

    return Missing(describe)


def spell(keys: Iterable[Key]) -> str:
    """The keys as an author would write them."""
    return "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in keys).removeprefix(".")


def hint(key: Any, known: Iterable[str]) -> str:
    """A similar name that the author may have meant, from up to a hundred names."""
    names = [name for name in islice(known, 100) if isinstance(name, str)]
    likely = [name for name in names if len(name) <= 60]
    close = get_close_matches(str(key)[:60], likely, n=1)
    if close:
        return f": did you mean {close[0]!r}?"
    some = ", ".join(sorted(names)[:10])
    return f" (there are: {some:.200})" if some else ""


def kind(value: Any) -> str:
    """The type of the value, in JSON's terms."""
    for type_, name in _KINDS:
        if isinstance(value, type_):
            return name
    return "null"


_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (int, "a number"),
    (float, "a number"),
    (str, "a text"),
    (list, "a list"),
    (dict, "an object"),
)


def text_of(scope: Scope, value: Json) -> str:
    """The value inside a text: strings unchanged, everything else as JSON."""
    if type(value) is str:
        return value
    scope.charge_deep(value)
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, ArithmeticError) as error:
        raise Problem(f"{kind(value)} cannot become text: {error}") from None
