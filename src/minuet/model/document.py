"""A workflow document: text or plain data in, a `Workflow` with positions out.

This module checks the whole structure of a document at once. `plan.compile` checks whether its
parts fit together (references, cycles, expressions), and reports through `Document.diagnose`.
Reading has no side effects, reads only the given text and constructs only plain values.
"""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from typing import Any, Generic

from minuet.errors import DocumentError
from minuet.model.diagnostics import Diagnostic, Position, Severity, format_path
from minuet.model.field_types import FieldType
from minuet.model.plain import copy_plain
from minuet.model.problem import BROKEN, Problem, Problems
from minuet.model.table import WORKFLOW
from minuet.model.text import TEXT_BYTES_MAX, parse, parse_marks
from minuet.model.tree import Mark
from minuet.model.workflow import Workflow
from minuet.types import InputT, Json, OutputT, Path


class Places:
    """Where the parts of a document were written. The base class knows nothing."""

    def find(self, path: Path, *, at_key: bool = False) -> Position | None:
        """Find a path in the author's spelling, or the nearest enclosing part."""
        return None


class DocumentSource(ABC, Generic[InputT, OutputT]):
    """Something that is not text and that a document can be read from. To a type checker it has the
    types of the input that a run of it takes, and of its output."""

    #: What the output of a run is rebuilt as, an annotation; Any: it is JSON.
    output_type: Any = Any

    @abstractmethod
    def read(self) -> Document:
        """Read it. Raises DocumentError with all problems."""


class Document:
    """A workflow as written: the model's value, the plain data, and the positions."""

    def __init__(
        self,
        workflow: Workflow,
        raw: dict[str, Any],
        source: str,
        text: str,
        *,
        places: Places | None = None,
        at: Path = (),
    ) -> None:
        self.workflow = workflow
        #: The plain data as written, in the author's spellings. Do not modify it.
        self.raw = raw
        #: Name of the file, for messages.
        self.source = source
        #: The text that it was read from, if any.
        self.text = text
        #: Where it is in the document around it, as written.
        self._at = at
        self._places = places or Places()

    def locate(self, path: Path) -> Position | None:
        """Find where a part of the workflow was written. None if there is no text.

        The path uses the model's names (`("nodes", 2, "id")`), regardless of the author's
        spelling. For a part that was not written, the nearest enclosing part is found.
        """
        return self._places.find(self._as_written(path))

    def diagnose(
        self,
        code: str,
        message: str,
        path: Path,
        *,
        hint: str | None = None,
        severity: Severity = "error",
    ) -> Diagnostic:
        """Make a diagnostic at a path in the model's names."""
        written = self._as_written(path)
        place = self._places.find(written)
        return Diagnostic(
            code=code,
            message=message,
            path=format_path(written),
            line=place.line if place else None,
            column=place.column if place else None,
            hint=hint,
            severity=severity,
            file=place.file if place else None,
        )

    def _as_written(self, path: Path) -> Path:
        kind: FieldType = WORKFLOW
        raw: Json = self.raw
        written: list[str | int] = []
        for part in path:
            kind, part = kind.child(part, raw)
            written.append(part)
            raw = _get(raw, part)
        return (*self._at, *written)


def _get(raw: Json, part: str | int) -> Json:
    try:
        return raw[part]
    except (KeyError, IndexError, TypeError):
        return None


class _TextPlaces(Places):
    """Positions in a text. The text is read again when a position is first needed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._mark: Mark | None = None

    def find(self, path: Path, *, at_key: bool = False) -> Position | None:
        if not self._text:
            return None
        if self._mark is None:
            self._mark = parse_marks(self._text)
        return self._mark.find(path, at_key=at_key)


def read_document(text: str | bytes, *, source: str = "<document>") -> Document:
    """Read YAML or JSON. Raises DocumentError with all problems."""
    parsed = parse(text)
    places = _TextPlaces(parsed.text)
    return _read(parsed.value, parsed.problems, source, places, parsed.text)


def read_file(path: str | os.PathLike[str]) -> Document:
    """Read a YAML or JSON file. Raises DocumentError, also if it cannot be opened."""
    source = os.fspath(path)
    try:
        with open(source, "rb") as file:
            content = file.read(TEXT_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problems = Problems()
        problems.add(Problem("unreadable-file", f"the file cannot be read: {reason}"))
        raise _error(problems, source, Places()) from None
    return read_document(content, source=source)


def read_mapping(
    data: dict[str, Any], *, source: str = "<document>", places: Places | None = None
) -> Document:
    """Read a workflow from plain Python data. Raises DocumentError."""
    problems = Problems()
    return _read(copy_plain(data, problems), problems, source, places or Places())


def read_within(document: Document, path: Path) -> Document:
    """Read the workflow that is written inside another one. Raises DocumentError; all positions
    are those in the whole text."""
    at = document._as_written(path)
    raw: Json = document.raw
    for part in at[len(document._at) :]:
        raw = _get(raw, part)
    problems = Problems()
    workflow = WORKFLOW.read(raw, at, problems)
    if problems.count:
        raise _error(problems, document.source, document._places)
    return Document(workflow, raw, document.source, "", places=document._places, at=at)


def dump_document(workflow: Workflow) -> dict[str, Any]:
    """Write a workflow as plain data, in canonical names and without defaults."""
    written: dict[str, Any] = WORKFLOW.dump(workflow)
    return written


def _read(value: Json, problems: Problems, source: str, places: Places, text: str = "") -> Document:
    workflow = BROKEN if value is BROKEN else WORKFLOW.read(value, (), problems)
    if problems.count:
        error = _error(problems, source, places)
        error.remainder = _read_remainder(value, problems, source, places)
        raise error
    return Document(workflow, value, source, text, places=places)


def _read_remainder(
    value: Json, problems: Problems, source: str, places: Places
) -> Document | None:
    """The document without its invalid fields. None if that is not valid either."""
    if value is BROKEN or problems.count > len(problems.kept):
        return None
    rest = copy.deepcopy(value)
    if not all(problem.position is None and _drop(rest, problem.path) for problem in problems.kept):
        return None
    again = Problems()
    workflow = WORKFLOW.read(rest, (), again)
    return None if again.count else Document(workflow, rest, source, "", places=places)


def _drop(raw: Json, path: Path) -> bool:
    """Remove a field from its object. False if that would remove whole nodes or edges."""
    while path and isinstance(path[-1], int):
        path = path[:-1]
    if path in ((), ("name",), ("nodes",), ("edges",)):
        return False
    for part in path[:-1]:
        raw = _get(raw, part)
    if isinstance(raw, dict):
        raw.pop(path[-1], None)
    return True


def _error(problems: Problems, source: str, places: Places) -> DocumentError:
    shown = sorted(
        (_diagnostic(problem, places) for problem in problems.kept),
        key=lambda diagnostic: (diagnostic.line or 0, diagnostic.column or 0),
    )
    left = problems.count - len(shown)
    if left:
        message = f"{left} more problem{'s' if left != 1 else ''} not shown"
        shown.append(Diagnostic(code="too-many-problems", message=message))
    return DocumentError(shown, source)


def _diagnostic(problem: Problem, places: Places) -> Diagnostic:
    place = problem.position or places.find(problem.path, at_key=problem.at_key)
    return Diagnostic(
        code=problem.code,
        message=problem.message,
        path=format_path(problem.path),
        line=place.line if place else None,
        column=place.column if place else None,
        hint=problem.hint,
        file=place.file if place else None,
    )
