"""JSON Schemas that somebody sent: checked offline, and in bounded time.

References to other documents are never followed. How much work a schema makes is counted before
anything is validated (`work`): whether a value is right takes some 30 ns for each look of a
subschema at a value, and each thing that is wrong a thousand times that.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import msgspec

from minuet.schemas.work import SchemaTooComplexError, SchemaWork
from minuet.types import Json

__all__ = ["COUNTED_LOOKS_MAX", "Schema", "SchemaTooComplexError", "compile_schema"]

#: Looks of subschemas at values that need not be counted exactly: under a second.
EASY_LOOKS_MAX = 20_000_000

#: … that are counted, one by one.
COUNTED_LOOKS_MAX = 500_000

#: … up to which everything that is wrong is listed.
ERRORS_LOOKS_MAX = 20_000

#: Problems of a value that are shown, and the length of each: it may quote all of the value.
PROBLEMS_MAX = 20
MESSAGE_LENGTH_MAX = 400


@functools.lru_cache(maxsize=256)
def compile_schema(schema: bytes) -> Schema:
    """Compile a schema, given as JSON.

    One that is too complex is a `SchemaTooComplexError`, one that is not valid a
    `jsonschema_rs.ValidationError`.
    """
    return Schema(msgspec.json.decode(schema))


class Schema:
    """A compiled schema. Immutable, and safe to share between threads."""

    __slots__ = ("_validator", "_work")

    def __init__(self, schema: Any) -> None:
        import jsonschema_rs

        self._work = SchemaWork(schema)
        self._validator = jsonschema_rs.validator_for(schema, offline=True)

    def is_valid(self, value: Json, what: str) -> bool:
        """Whether a value fits; a value that needs too much work is a `SchemaTooComplexError`."""
        self._count(value, what)
        return bool(self._validator.is_valid(value))

    def find_problems(self, value: Json, what: str) -> list[str]:
        """Say what is wrong with a value, and call it by this name.

        Where there is much to look at, the first problem has to be enough.
        """
        try:
            looks = self._count(value, what)
        except SchemaTooComplexError as error:
            return [str(error)]
        if self._validator.is_valid(value):
            return []
        if looks <= ERRORS_LOOKS_MAX:
            errors = list(self._validator.iter_errors(value))
        elif self._work.has_alternatives:
            return ["it does not fit its JSON Schema, and is too large to say where"]
        else:
            errors = [self._first_error(value)]
        return [_describe(error, what) for error in errors[:PROBLEMS_MAX]]

    def iter_errors(self, value: Json) -> Iterator[Any]:
        """Everything that is wrong with a small value, as the library says it."""
        errors: Iterator[Any] = self._validator.iter_errors(value)
        return errors

    def _count(self, value: Json, what: str) -> int:
        """How often subschemas look at parts of the value."""
        values = len(msgspec.json.encode(value)) // 2 + 1
        looks = values * self._work.looks_max if self._work.looks_max is not None else None
        if looks is None or looks > ERRORS_LOOKS_MAX:
            is_easy = looks is not None and looks <= EASY_LOOKS_MAX
            looks = self._work.count(value, COUNTED_LOOKS_MAX)
            if looks > COUNTED_LOOKS_MAX and not is_easy:
                raise SchemaTooComplexError(
                    f"the {what}'s JSON Schema would need more than {COUNTED_LOOKS_MAX:,} checks "
                    f"for this {what}: make the {what} smaller, or the schema simpler",
                    (),
                )
        return looks

    def _first_error(self, value: Json) -> Any:
        import jsonschema_rs

        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return error
        raise AssertionError("the validator changed its mind")


def _describe(error: Any, what: str) -> str:
    where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.instance_path)
    message = error.message
    if len(message) > MESSAGE_LENGTH_MAX:
        message = f"{message[: MESSAGE_LENGTH_MAX // 2]} … {message[-MESSAGE_LENGTH_MAX // 2 :]}"
    return f"{where.lstrip('.') or what}: {message}"
