"""Where an exception came from, as data that can be kept.

    {"code", "type", "message",
     "traceback": [{"file", "line", "function", "code"}, …],   the outermost call first
     "cause":     {"type", "message", "traceback", …},         what it was raised from
     "errors":    [{"type", "message", …}, …]}                 what a group holds

Frames of Minuet are left out, and so are those of the standard library that it calls, so the first
frame is the user's; an error of Minuet itself has none. Only source lines are kept, never
the values of variables. All of it together has at most `TRACE_BYTES_MAX` bytes as JSON: an error
is written into several events. Frames in the middle go first (`{"omitted": n}` stands for them),
then causes and members of groups.
"""

from __future__ import annotations

import linecache
import os
import sys
import traceback
from collections.abc import Sequence
from itertools import dropwhile
from types import TracebackType
from typing import Any

import msgspec

from minuet.nodes.masking import Mask

#: Text of an error that is kept.
MESSAGE_LENGTH_MAX = 2_000

#: Text of an error that is searched for secrets.
TEXT_LENGTH_MAX = 100_000

#: Everything that is kept of an error beside its code, type and message.
TRACE_BYTES_MAX = 8 * 1024

#: Frames kept of one exception: of the outermost and of the innermost ones.
FRAMES_FIRST = 4
FRAMES_LAST = 12

#: Causes in a row, and members of one group.
DEPTH_MAX = 5
MEMBERS_MAX = 5

#: Longest name of a class or function, path, and line of source.
NAME_LENGTH_MAX = 100
FILE_LENGTH_MAX = 200
CODE_LENGTH_MAX = 160

#: The folder of this package.
_OWN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
#: Handlers that come with Minuet, as examples of users' handlers.
_EXAMPLES = os.path.join(_OWN, "demo", "")
#: The folder of the standard library.
_LIBRARY = os.path.join(os.path.dirname(os.path.abspath(os.__file__)), "")


def name_of(error: BaseException) -> str:
    """The name of an exception's class."""
    return clean(type.__dict__["__name__"].__get__(type(error))[:NAME_LENGTH_MAX])


def text_of(error: BaseException, mask: Mask) -> str:
    """The text of an exception, even if reading it raises."""
    name = name_of(error)
    try:
        text = str(error)[:TEXT_LENGTH_MAX] or name
    except KeyboardInterrupt:
        raise
    except BaseException as broken:
        text = f"{name}, whose message cannot be read: {name_of(broken)}"
    return clean(mask(text)[:MESSAGE_LENGTH_MAX])


def clean(text: str) -> str:
    """The text, with `?` for what cannot be written as UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def add_trace(record: dict[str, Any], error: BaseException, mask: Mask) -> None:
    """Add to an error's record where it came from."""
    _Trace(mask).add(record, error, 0)


class _Trace:
    """Adds to records until the bytes that they may have together are used up."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._left = TRACE_BYTES_MAX

    def add(self, record: dict[str, Any], error: BaseException, depth: int) -> None:
        frames = self._frames(_attribute(error, "__traceback__"), is_outermost=depth == 0)
        if frames:
            record["traceback"] = frames
        if depth >= DEPTH_MAX:
            return
        cause = _cause(error)
        if cause is not None:
            self._add_other(cause, depth, lambda other: record.update(cause=other))
        members = _members(error)
        if members:
            found = record["errors"] = []
            for member in members:
                self._add_other(member, depth, found.append)

    def _add_other(self, error: BaseException, depth: int, keep: Any) -> None:
        record: dict[str, Any] = {
            "type": self._mask(name_of(error)),
            "message": text_of(error, self._mask),
        }
        if self._take(record):
            keep(record)
            self.add(record, error, depth + 1)

    def _frames(self, trace: TracebackType | None, *, is_outermost: bool) -> list[dict[str, Any]]:
        """The frames of a traceback that are worth keeping, the outermost first.

        The outermost exception has passed through Minuet: what it calls itself is left out.
        """
        places = [
            (frame.f_code.co_filename, line, frame.f_code.co_name)
            for frame, line in traceback.walk_tb(trace)
            if not _is_own(frame.f_code.co_filename)
        ]
        if is_outermost:
            places = list(dropwhile(lambda place: _is_library(place[0]), places))
        last = places[-FRAMES_LAST:]
        first = places[: -FRAMES_LAST or None][:FRAMES_FIRST]
        kept_last, kept_first = [], []
        # What is nearest to the error counts most.
        for place in reversed(last):
            frame = self._frame(*place)
            if not self._take(frame):
                break
            kept_last.append(frame)
        else:
            for place in first:
                frame = self._frame(*place)
                if not self._take(frame):
                    break
                kept_first.append(frame)
        omitted = len(places) - len(kept_first) - len(kept_last)
        marks = [{"omitted": omitted}] if omitted else []
        return [*kept_first, *marks, *reversed(kept_last)]

    def _frame(self, file: str, line: int, function: str) -> dict[str, Any]:
        linecache.checkcache(file)
        code = linecache.getline(file, line).strip()
        return {
            "file": clean(self._mask(shown_path(file))[-FILE_LENGTH_MAX:]),
            "line": line,
            "function": clean(self._mask(function)[:NAME_LENGTH_MAX]),
            "code": clean(self._mask(code)[:CODE_LENGTH_MAX]),
        }

    def _take(self, record: dict[str, Any]) -> bool:
        """Whether there is room for a record; if so, it is taken."""
        size = len(msgspec.json.encode(record)) + 16
        if size > self._left:
            # No smaller record that comes later may take its place.
            self._left = 0
            return False
        self._left -= size
        return True


def _is_own(file: str) -> bool:
    return file.startswith(_OWN) and not file.startswith(_EXAMPLES)


def _is_library(file: str) -> bool:
    return file.startswith(_LIBRARY) and "site-packages" not in file


def _cause(error: BaseException) -> BaseException | None:
    """What the exception was raised from, or while handling what."""
    cause: BaseException | None = _attribute(error, "__cause__")
    if cause is None and not _attribute(error, "__suppress_context__"):
        cause = _attribute(error, "__context__")
    return cause


def _attribute(error: BaseException, name: str) -> Any:
    """An attribute as the language keeps it; a class may have put something else over it."""
    return BaseException.__dict__[name].__get__(error)


def _members(error: BaseException) -> Sequence[BaseException]:
    if not issubclass(type(error), BaseExceptionGroup):
        return ()
    exceptions: Sequence[BaseException] = BaseExceptionGroup.exceptions.__get__(error)
    return exceptions[:MEMBERS_MAX]


def shown_path(file: str) -> str:
    """A file as people would name it: from the working directory, or from where it is imported."""
    if not os.path.isabs(file):
        return file
    places = sorted(filter(None, sys.path), key=len, reverse=True)
    if "site-packages" not in file:
        try:
            places.insert(0, os.getcwd())
        except OSError:
            pass  # The directory has been removed.
    for place in places:
        folder = os.path.join(os.path.abspath(place), "")
        if file.startswith(folder):
            return file[len(folder) :]
    return file
