"""Problems of a document's text or structure, before their positions are known.

Reading collects problems. Positions need a second pass over the text, so `model.document`
looks them up only if there is a problem to show. The plan compiler reports problems of meaning
(references, cycles, expressions), with other codes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, TypeAlias

from minuet.model.diagnostics import Position, quote
from minuet.types import Path

Code: TypeAlias = Literal[
    "unreadable-file",  #: the file cannot be opened
    "too-large",  #: more text than a document may have
    "not-utf8",  #: bytes that are not valid UTF-8
    "bad-character",  #: a character that is not allowed in a text
    "empty-document",  #: only blanks and comments
    "syntax",  #: neither JSON nor YAML
    "several-documents",  #: more than one YAML document in a text
    "too-deep",  #: more levels of nesting than a document may have
    "duplicate-key",  #: an object has the same key twice
    "bad-key",  #: a key that is not a string
    "bad-number",  #: not finite, beyond 64 bits, or read differently by different readers
    "bad-value",  #: a Python value that is not JSON
    "yaml-tag",  #: `!tag` in YAML
    "yaml-alias",  #: an alias without anchor, or too many of them
    "yaml-merge",  #: `<<` in YAML
    "wrong-type",  #: a value of the wrong type, such as a string instead of a list
    "wrong-value",  #: the right type, but not an allowed value
    "bad-id",  #: a node id with characters that are not allowed
    "unknown-field",  #: a field that does not exist
    "missing-field",  #: a required field is missing
    "duplicate-field",  #: two spellings of one field
    "contradiction",  #: two fields that contradict each other
    "too-many-problems",  #: the list was truncated
]


class Problem(NamedTuple):
    """A future diagnostic. Its path is in the author's spelling."""

    code: Code
    message: str
    path: Path = ()
    hint: str | None = None
    #: Set if the text itself is broken. Otherwise it is found by `path`.
    position: Position | None = None
    #: Point to the key, not the value.
    at_key: bool = False


#: More problems than anyone fixes before trying again.
PROBLEMS_MAX: Final = 100


class Problems:
    """The problems so far. The first ones are kept; all are counted."""

    def __init__(self) -> None:
        self.kept: list[Problem] = []
        self.count = 0

    def add(self, problem: Problem) -> None:
        self.count += 1
        if self.count <= PROBLEMS_MAX:
            self.kept.append(problem)

    def suggest(self, written: str, options: Iterable[str]) -> str | None:
        """A hint with the most similar name, for the next problem."""
        # The search is slow, and its result is not shown once there are enough problems.
        if self.count >= PROBLEMS_MAX:
            return None
        import difflib

        found = difflib.get_close_matches(written[:64].lower(), list(options), n=1)
        return f"did you mean {quote(found[0])}?" if found else None


#: Replaces a value that was reported as unreadable, so that nothing is reported twice.
BROKEN: Final = object()


class Unparsable(Exception):
    """The text cannot be read any further."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.message)
