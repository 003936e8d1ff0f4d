"""One problem of a document: what is wrong, where, and how to fix it."""

from __future__ import annotations

import json
import re
from typing import Final, Literal, TypeAlias

import msgspec

from minuet.types import Path

Severity: TypeAlias = Literal["error", "warning"]


class Position(msgspec.Struct, frozen=True, gc=False):
    """A place in a text, both numbers counted from 1."""

    line: int
    column: int
    #: The file, if it is not the one that the document was read from.
    file: str | None = None


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One problem of a document."""

    #: Stable name of the kind of problem. Each has a section in docs/errors.md.
    code: str
    message: str
    #: For example `nodes[2].branch.rules[0].condition`. Empty: the whole document.
    path: str = ""
    line: int | None = None
    column: int | None = None
    hint: str | None = None
    severity: Severity = "error"
    #: The file of `line`, if it is not the document's own.
    file: str | None = None

    def describe(self) -> str:
        """The problem in one line, like a compiler message."""
        file = f"{self.file}:" if self.file else ""
        place = f"{file}{self.line}:{self.column}: " if self.line is not None else ""
        path = f" (at {self.path})" if self.path else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{place}{self.severity}[{self.code}]: {self.message}{path}{hint}"


def format_path(path: Path) -> str:
    """Format a path for people: `nodes[2].branch.default`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{quote(part)}]"
    return text


#: A key that a path can show unchanged. Any other key is quoted and shortened.
_PLAIN_KEY: Final = re.compile(r"[\w$-]{1,64}", re.ASCII)


def quote(text: str, length_max: int = 40) -> str:
    """Quote an author's text: shortened, and without terminal control characters."""
    shown = text[:length_max]
    quoted = json.dumps(shown, ensure_ascii=not shown.isprintable())
    return quoted if len(text) <= length_max else f"{quoted}… ({len(text)} characters)"
