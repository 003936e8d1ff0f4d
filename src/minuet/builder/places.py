"""Which line of Python said what, and errors at that line."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path as FilePath
from types import FrameType
from typing import NoReturn

from minuet.errors import DocumentError
from minuet.model import Diagnostic, Places, Position
from minuet.nodes.loading import shown_file
from minuet.types import Path

#: The folders of this package, and of the libraries that come with Python.
_OURS = str(FilePath(__file__).parent.parent) + os.sep
_PYTHON = str(FilePath(os.__file__).parent) + os.sep


def caller() -> Position | None:
    """The place in the user's code that is being executed."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_library(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return None
    positions = frame.f_code.co_positions()
    line, _, column, _ = next(
        itertools.islice(positions, frame.f_lasti // 2, None), (frame.f_lineno, None, None, None)
    )
    return Position(line or frame.f_lineno, (column or 0) + 1, shown_file(frame.f_code.co_filename))


def _is_library(filename: str) -> bool:
    # A run that is started inside a workflow is called through asyncio.
    is_python = filename.startswith(_PYTHON) and "site-packages" not in filename
    return filename.startswith(_OURS) or is_python


def refuse(code: str, message: str, hint: str) -> NoReturn:
    """Raise DocumentError with one problem, at the line that is being executed."""
    place = caller()
    found = Diagnostic(
        code=code,
        message=message,
        line=place.line if place else None,
        column=place.column if place else None,
        hint=hint,
    )
    raise DocumentError([found], (place and place.file) or "<workflow>")


class PythonPlaces(Places):
    """The lines that wrote a document's parts, by path."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._known: dict[Path, Position] = {}

    def note(self, path: Path, place: Position | None) -> None:
        """Remember where a part was written."""
        if place is not None:
            file = place.file if place.file != self._source else None
            self._known[path] = Position(place.line, place.column, file)

    def find(self, path: Path, *, at_key: bool = False) -> Position | None:
        for length in range(len(path), -1, -1):
            place = self._known.get(path[:length])
            if place is not None:
                return place
        return None
