"""Collects the problems that the compiler finds in a document.

This module knows only the interface `Document`. The document itself finds the position of a
problem in the text.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import Protocol

from minuet.errors import DocumentError
from minuet.model.diagnostics import Diagnostic, Severity, quote
from minuet.model.workflow import Workflow
from minuet.types import Path

#: More errors, and more warnings, than anyone fixes before trying again.
SHOWN_MAX = 100

#: Comparing a name with all others takes time. A document with more names, or with more unknown
#: ones, gets no suggestions.
SUGGESTED_NAMES_MAX = 5_000
SUGGESTIONS_MAX = 20


class Document(Protocol):
    """What the compiler needs from a document."""

    @property
    def workflow(self) -> Workflow: ...

    @property
    def source(self) -> str: ...

    def diagnose(
        self,
        code: str,
        message: str,
        path: Path,
        *,
        hint: str | None = None,
        severity: Severity = "error",
    ) -> Diagnostic: ...


class Problems:
    """Collects diagnostics. `stop` raises them if one is an error."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._found: list[Diagnostic] = []
        self._suggestions = 0
        self.errors = 0
        self.warnings = 0

    def error(self, code: str, message: str, path: Path, *, hint: str | None = None) -> None:
        """Add an error: the document cannot be compiled."""
        self.errors += 1
        if self.errors <= SHOWN_MAX:
            self._found.append(self._document.diagnose(code, message, path, hint=hint))

    def warn(self, code: str, message: str, path: Path, *, hint: str | None = None) -> None:
        """Add a warning: probably a mistake."""
        self.warnings += 1
        if self.warnings <= SHOWN_MAX:
            self._found.append(
                self._document.diagnose(code, message, path, hint=hint, severity="warning")
            )

    def take(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Add what was found in a part of the document."""
        for found in diagnostics:
            is_error = found.severity == "error"
            self.errors += is_error
            self.warnings += not is_error
            if (self.errors if is_error else self.warnings) <= SHOWN_MAX:
                self._found.append(found)

    def suggest(self, name: str, names: Collection[str]) -> str | None:
        """A hint that suggests the most similar name."""
        if self._suggestions >= SUGGESTIONS_MAX or len(names) > SUGGESTED_NAMES_MAX:
            return None
        self._suggestions += 1
        close = difflib.get_close_matches(name[:64], sorted(names), n=1)
        return f"did you mean {quote(close[0])}?" if close else None

    def listed(self) -> tuple[Diagnostic, ...]:
        """All diagnostics, in the order of the text if positions are known."""
        shown = sorted(self._found, key=lambda found: (found.line or 0, found.column or 0))
        left = self.errors + self.warnings - len(shown)
        if left:
            message = f"{left} more problem{'s' if left != 1 else ''} not shown"
            severity: Severity = "error" if self.errors else "warning"
            shown.append(Diagnostic(code="too-many-problems", message=message, severity=severity))
        return tuple(shown)

    def stop(self) -> None:
        """Raise all diagnostics if one is an error."""
        if self.errors:
            raise DocumentError(self.listed(), self._document.source)
