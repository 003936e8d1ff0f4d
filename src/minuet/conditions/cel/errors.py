"""What can go wrong inside CEL, before it becomes a `ConditionError`."""

from __future__ import annotations


class CelError(Exception):
    """A message and its position in the text."""

    def __init__(self, message: str, at: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        #: Offset of the sub-expression that failed. None until the caller that knows it sets it.
        self.at = at

    def describe(self, source: str) -> str:
        """The message with line and column."""
        if self.at is None:
            return self.message
        line = source.count("\n", 0, self.at) + 1
        column = self.at - (source.rfind("\n", 0, self.at) + 1) + 1
        return f"{self.message} (line {line}, column {column})"


class TextError(CelError):
    """The text is not a valid expression."""


class EvaluationError(CelError):
    """An evaluation failed. `&&`, `||`, `all` and `exists` may still have an answer."""


class LimitError(CelError):
    """A limit was reached. Nothing in the expression can recover from this."""


def located(error: CelError, at: int) -> CelError:
    """The error, with this position if it has none. So the innermost position is kept."""
    if error.at is None:
        error.at = at
    return error
