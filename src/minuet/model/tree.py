"""Plain data, built step by step from what a JSON or YAML parser finds.

Both parsers drive one `Builder`, so the rules about depth, duplicate keys, numbers and
characters exist once. On demand the builder also keeps a tree of marks beside the data,
which maps a path to a line and a column.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final, TypeAlias

import msgspec

from minuet.model.diagnostics import Position, quote
from minuet.model.problem import BROKEN, Code, Problem, Problems, Unparsable
from minuet.types import Json, Path

#: Deeper than any document that a person writes, and far below the interpreter's limit.
DEPTH_MAX: Final = 100

#: Integers that every store and every JSON reader can hold.
WHOLE_MIN: Final = -(2**63)
WHOLE_MAX: Final = 2**63 - 1

#: Characters that get into a string only by an escape and that no store can hold.
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")

#: The marks of a container's members, by key or index. None for other values.
Parts: TypeAlias = "dict[str, Mark] | list[Mark] | None"


class Mark(msgspec.Struct, gc=False):
    """The position of a value in the text, and of its parts."""

    place: Position
    key: Position | None
    parts: Any

    def find(self, path: Path, *, at_key: bool = False) -> Position:
        """Find the mark of a path, or of the nearest part that encloses it."""
        mark = self
        for part in path:
            try:
                mark = mark.parts[part]
            except (KeyError, IndexError, TypeError):
                return mark._shown(at_key=False)
        return mark._shown(at_key=at_key)

    def _shown(self, *, at_key: bool) -> Position:
        # In block style a value begins below its key, where a reader does not look for it.
        if self.key is not None and (at_key or self.key.line != self.place.line):
            return self.key
        return self.place


class _Frame:
    """An object or list that is still open."""

    __slots__ = ("container", "key", "key_place", "last", "parts")

    def __init__(self, container: Any, parts: Any) -> None:
        self.container = container
        self.parts = parts
        #: The key whose value comes next. None between entries.
        self.key: Any = None
        self.key_place: Position | None = None
        #: The key or index that was begun last.
        self.last: str | int = 0


#: A key that was refused. Its value is read and dropped.
_DROPPED: Final = object()


class Builder:
    """Collects values, problems and, optionally, marks."""

    def __init__(self, *, keep_marks: bool) -> None:
        self.value: Json = BROKEN
        self.mark: Mark | None = None
        self.problems = Problems()
        self._keep_marks = keep_marks
        self._frames: list[_Frame] = []

    @property
    def depth(self) -> int:
        return len(self._frames)

    @property
    def expects_key(self) -> bool:
        frames = self._frames
        return bool(frames) and frames[-1].key is None and type(frames[-1].container) is dict

    def open(self, container: Any, place: Position) -> None:
        """Begin an empty dict or list."""
        self.check_depth(len(self._frames) + 1, place)
        parts: Parts = type(container)() if self._keep_marks else None
        self.add(container, place, parts)
        self._frames.append(_Frame(container, parts))

    def close(self) -> tuple[Json, Parts]:
        """End the container that was begun last."""
        frame = self._frames.pop()
        return frame.container, frame.parts

    def key(self, key: Json, place: Position) -> None:
        """Begin an entry of an object. With a broken key, the entry is read and dropped."""
        frame = self._frames[-1]
        frame.key = frame.last = key
        frame.key_place = place
        if key is BROKEN:
            frame.key, frame.last = _DROPPED, "?"
        elif key in frame.container:
            self.report("duplicate-key", f"the key {quote(key)} is given twice", place)
            frame.key = _DROPPED

    def add(self, value: Json, place: Position, parts: Parts = None) -> None:
        """Add a value to the open container."""
        if not self._frames:
            self.value, self.mark = value, Mark(place, None, parts)
            return
        frame = self._frames[-1]
        if type(frame.container) is list:
            frame.last = len(frame.container)
            frame.container.append(value)
            if frame.parts is not None:
                frame.parts.append(Mark(place, None, parts))
            return
        key, frame.key = frame.key, None
        if key is None or key is _DROPPED:
            return
        frame.container[key] = value
        if frame.parts is not None:
            frame.parts[key] = Mark(place, frame.key_place, parts)

    def text(self, value: str, place: Position) -> Json:
        """Check a string that was written with escapes."""
        found = find_unstorable(value)
        if found is None:
            return value
        message = f"a string cannot hold the character U+{ord(found):04X}"
        return self.report("bad-character", message, place, hint="leave it out, or encode it")

    def whole(self, digits: str, place: Position, base: int = 10) -> Json:
        """Convert a whole number that fits into 64 bits."""
        value = whole(digits, base)
        if value is None:
            message = f"the number {quote(digits, 24)} does not fit into 64 bits"
            return self.report("bad-number", message, place, hint="write it as a string")
        return value

    def decimal(self, digits: str, place: Position) -> Json:
        """Convert a finite number."""
        value = float(digits)
        if math.isfinite(value):
            return value
        message = f"the number {quote(digits, 24)} is too large"
        return self.report("bad-number", message, place, hint="write it as a string")

    def report(self, code: Code, message: str, place: Position, *, hint: str | None = None) -> Json:
        """Add a problem and continue. Returns BROKEN in place of the value."""
        self.problems.add(Problem(code, message, self._path(), hint, place))
        return BROKEN

    def check_depth(self, depth: int, place: Position) -> None:
        if depth > DEPTH_MAX:
            message = f"the document is nested more than {DEPTH_MAX} levels deep"
            raise Unparsable(Problem("too-deep", message, self._path(), None, place))

    def _path(self) -> Path:
        if not self._frames:
            return ()
        above = tuple(frame.last for frame in self._frames[:-1])
        top = self._frames[-1]
        here = len(top.container) if type(top.container) is list else top.last
        # Between entries, `last` is the previous entry and not this position.
        return above if self.expects_key else (*above, here)


def find_unstorable(text: str) -> str | None:
    """Find a character that no store can hold."""
    found = _UNSTORABLE.search(text)
    return found[0] if found else None


def whole(digits: str, base: int = 10) -> int | None:
    """Convert digits, unless the number needs more than 64 bits."""
    # Python refuses thousands of digits, and is slow with fewer.
    if len(digits) > 70:
        return None
    value = int(digits, base)
    return value if WHOLE_MIN <= value <= WHOLE_MAX else None


def is_deeper_than(value: Json, depth_max: int) -> bool:
    """Whether objects and lists are nested more than `levels` deep."""
    level = [value] if type(value) in (dict, list) else []
    for _ in range(depth_max):
        if not level:
            return False
        level = [
            part
            for outer in level
            for part in (outer.values() if type(outer) is dict else outer)
            if type(part) in (dict, list)
        ]
    return bool(level)
