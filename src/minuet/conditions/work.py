"""An upper bound of what an evaluation will do, computed before it is done.

CEL limits the steps of loops, not what a step does: twenty-eight `.map(x, x + x)` in a row fit
into a line and ask for 25 GB, and nothing can stop an evaluation that has begun. So the tree
is followed once with the real data, with the *largest* value that each part can have instead of
its value, and every call and literal is charged with the bytes that it touches, as often as the
loops around it can turn.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from minuet.conditions.data import UNIT
from minuet.conditions.limits import LIMITS
from minuet.conditions.syntax import Call, Collection, Constant, Field, Loop, Name, Tree, walk
from minuet.types import Json


class WorkError(Exception):
    """The evaluation could do more than it may."""

    def __init__(self) -> None:
        mebibytes = LIMITS.work_bytes // 1024 // 1024
        super().__init__(f"it would do too much: it could build more than {mebibytes} MiB")


class Shape(msgspec.Struct, frozen=True):
    """What is known about every value that a part of the expression can have."""

    #: Bytes of the largest.
    size: int
    #: Items of the longest.
    length: int = 0
    #: The shape of the items; None: no larger than the whole.
    element: Shape | None = None
    #: All the values themselves, where they are parts of the data.
    values: tuple[Json, ...] | None = None


_SCALAR = Shape(2 * UNIT)

#: Calls that give one of their arguments, from the given one on.
_CHOICES = {"_?_:_": 1, "orValue": 0, "or": 0, "value": 0, "dyn": 0, "optional.of": 0}
_CHOICES |= {"optional.ofNonZeroValue": 0}

#: Calls that give a text (or bytes) hardly longer than their first argument.
_TEXTS = frozenset(
    {"lowerAscii", "upperAscii", "trim", "substring", "charAt", "reverse", "string", "bytes"}
)

_INDEXES = frozenset({"_[_]", "_?._", "_[?_]"})


def needs_bound(tree: Tree) -> bool:
    """Whether the expression can do more than look at each part of the data once per mention."""
    return any(
        isinstance(t, (Loop, Collection))
        or (isinstance(t, Call) and t.function in {"_+_", "replace", "join", "split"})
        for t in walk(tree)
    )


def check_work(tree: Tree, variables: Mapping[str, Json], sizes: Mapping[int, int]) -> None:
    """Refuse an evaluation that could do too much."""
    scope = {name: _known((value,), sizes) for name, value in variables.items()}
    _Bound(sizes).of(tree, scope, 1)


class _Bound:
    """One pass over a tree. `times` is how often the part at hand is evaluated at most."""

    def __init__(self, sizes: Mapping[int, int]) -> None:
        self.sizes = sizes
        self.left = LIMITS.work_bytes

    def of(self, tree: Tree, scope: Mapping[str, Shape], times: int) -> Shape:
        match tree:
            case Constant(value):
                return Shape(UNIT + len(value.encode()) if isinstance(value, str) else UNIT)
            case Name(name):
                return scope.get(name, _SCALAR)
            case Field(operand, field):
                return self.field(self.of(operand, scope, times), field)
            case Loop():
                return self.loop(tree, scope, times)
            case Collection(items):
                shape = _collection([self.of(item, scope, times) for item in items])
                self.charge(shape.size, times)
                return shape
            case _:
                return self.call(tree, scope, times)

    def charge(self, size: int, times: int) -> None:
        self.left -= size * times
        if self.left < 0:
            raise WorkError

    def field(self, shape: Shape, field: str) -> Shape:
        if shape.values is None:
            return _element(shape)
        found = [v[field] for v in shape.values if isinstance(v, dict) and field in v]
        return _known(tuple(found), self.sizes)

    def items(self, shape: Shape) -> Shape:
        if shape.values is None:
            return _element(shape)
        found = [i for v in shape.values if isinstance(v, list) for i in v]
        found += [i for v in shape.values if isinstance(v, dict) for e in v.items() for i in e]
        return _known(tuple(found), self.sizes)

    def loop(self, loop: Loop, scope: Mapping[str, Shape], times: int) -> Shape:
        over = self.of(loop.range, scope, times)
        start = self.of(loop.start, scope, times)
        turns = over.length
        if turns:
            inner = {**scope, loop.variable: self.items(over), loop.accumulator: start}
            times_inner = min(times * turns, LIMITS.iterations)
            self.of(loop.condition, inner, times_inner)
            step = self.of(loop.step, inner, times_inner)
            start = step
            if isinstance(loop.start, Collection):
                # Every step adds the same to the list, and the library copies the list for it.
                self.charge(UNIT * turns * turns, times)
                start = Shape(step.size * turns, step.length * turns, _element(step))
        return self.of(loop.result, {**scope, loop.accumulator: start}, times)

    def call(self, call: Call, scope: Mapping[str, Shape], times: int) -> Shape:
        function, arguments = call.function, call.arguments
        if function in _INDEXES:
            operand, key = arguments
            shape = self.of(operand, scope, times)
            self.of(key, scope, times)
            if isinstance(key, Constant) and isinstance(key.value, str):
                return self.field(shape, key.value)
            return self.items(shape)
        shapes = [self.of(argument, scope, times) for argument in arguments]
        if function == "_+_":
            items = _union([self.items(s) for s in shapes])
            result = Shape(sum(s.size for s in shapes), sum(s.length for s in shapes), items)
        else:
            result = _result(function, shapes)
        self.charge(UNIT + result.size + sum(s.size for s in shapes), times)
        return result


def _result(function: str, shapes: list[Shape]) -> Shape:
    if function in _CHOICES:
        return _union(shapes[_CHOICES[function] :])
    if function in _TEXTS:
        return Shape(shapes[0].size + 2 * UNIT)
    if function == "split":
        chars = _chars(shapes[0])
        return Shape(chars + 2 * UNIT * (chars + 1), chars + 1, shapes[0])
    if function == "join":
        separators = shapes[0].length * _chars(shapes[1]) if len(shapes) > 1 else 0
        return Shape(shapes[0].size + separators)
    if function == "replace":
        return Shape(shapes[0].size + shapes[0].size * _chars(shapes[2]))
    return _SCALAR


def _chars(shape: Shape) -> int:
    """What a text holds beside its frame."""
    return shape.size - UNIT


def _known(values: tuple[Json, ...], sizes: Mapping[int, int]) -> Shape:
    size = length = 0
    for value in values:
        if isinstance(value, (dict, list)):
            size = max(size, sizes[id(value)])
            length = max(length, len(value))
        elif isinstance(value, str):
            size = max(size, (1 if value.isascii() else 4) * len(value) + UNIT)
    return Shape(max(size, UNIT), length, None, values)


def _element(shape: Shape) -> Shape:
    if shape.element is not None:
        return shape.element
    return Shape(shape.size, shape.size // UNIT)


def _union(shapes: list[Shape]) -> Shape:
    """What is true of each of them."""
    size = max((s.size for s in shapes), default=UNIT)
    length = max((s.length for s in shapes), default=0)
    values = [s.values for s in shapes if s.values is not None]
    if len(values) == len(shapes):
        return Shape(size, length, None, tuple(v for each in values for v in each))
    if all(s.element is None for s in shapes):
        return Shape(size, length)
    return Shape(size, length, _union([_element(s) for s in shapes]))


def _collection(shapes: list[Shape]) -> Shape:
    size = UNIT + sum(UNIT + s.size for s in shapes)
    return Shape(size, len(shapes), _union(shapes))
