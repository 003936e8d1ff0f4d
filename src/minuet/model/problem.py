"""What can be wrong with a document's text or shape, before it is known where that is.

Reading collects problems; positions cost a second pass over the text, so `model.document`
looks them up only once it is certain that there is something to show. Problems of meaning
(references, cycles, expressions) are the plan compiler's and have other codes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, TypeAlias

from minuet.model.diagnostics import Path, Position, quote

Code: TypeAlias = Literal[
    "unreadable-file",  #: the file cannot be opened
    "too-large",  #: more text than a document may have
    "not-utf8",  #: bytes that are no UTF-8
    "bad-character",  #: a character that no text may hold
    "empty-document",  #: nothing but blanks and comments
    "syntax",  #: neither JSON nor YAML
    "several-documents",  #: more than one YAML document in a text
    "too-deep",  #: more levels of nesting than a document may have
    "duplicate-key",  #: an object has the same key twice
    "bad-key",  #: a key that is not a string
    "bad-number",  #: not finite, beyond 64 bits, or read differently by different readers
    "bad-value",  #: a Python value that is no JSON
    "yaml-tag",  #: `!tag` in YAML
    "yaml-alias",  #: an alias without anchor, or too many of them
    "yaml-merge",  #: `<<` in YAML
    "wrong-type",  #: a string where a list belongs, and the like
    "wrong-value",  #: the right type, but not one of the values allowed
    "bad-id",  #: a node id with characters that it cannot have
    "unknown-field",  #: a field that does not exist
    "missing-field",  #: a field that has to be there
    "duplicate-field",  #: two spellings of one field
    "contradiction",  #: two fields that cannot both be true
    "too-many-problems",  #: the list was cut
]


class Problem(NamedTuple):
    """A diagnostic to be: its path is in the author's own spelling."""

    code: Code
    message: str
    path: Path = ()
    hint: str | None = None
    #: Known already when the text itself is at fault; otherwise found by `path`.
    position: Position | None = None
    #: Show the key, not the value.
    at_key: bool = False


#: More problems than anybody mends before trying again.
PROBLEMS_MAX: Final = 100


class Problems:
    """The problems found so far: the first ones are kept, all are counted."""

    def __init__(self) -> None:
        self.kept: list[Problem] = []
        self.count = 0

    def add(self, problem: Problem) -> None:
        self.count += 1
        if self.count <= PROBLEMS_MAX:
            self.kept.append(problem)

    def suggest(self, written: str, options: Iterable[str]) -> str | None:
        """Find what the author may have meant, for the next problem."""
        # The search is slow, and nobody sees its result once enough problems are known.
        if self.count >= PROBLEMS_MAX:
            return None
        import difflib

        found = difflib.get_close_matches(written[:64].lower(), list(options), n=1)
        return f"did you mean {quote(found[0])}?" if found else None


#: What stands for a value that was reported as unreadable, so that nothing is reported twice.
BROKEN: Final = object()


class Unparsable(Exception):
    """The text cannot be read any further."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.message)
