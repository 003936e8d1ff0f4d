"""Types of values in a document: each reads, writes, describes and locates its values.

A type converts plain data to the model's value and reports what does not fit (`read`), converts
it back (`dump`), and describes what it accepts for editors (`schema`) and for people (`noun`).
`model.table` combines them into the table of the document's fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from minuet.model.diagnostics import quote
from minuet.model.problem import BROKEN, Code, Problem, Problems
from minuet.types import Json, Path


class FieldType:
    """Any JSON value, unchanged. The base class of all other types."""

    #: The name of such a value in messages, with its article.
    noun: str = "any value"
    #: The Python types that it may read.
    accepts: tuple[type, ...] = (str, int, float, bool, list, dict, type(None))

    def read(self, value: Json, path: Path, problems: Problems) -> Any:
        """Convert plain data to the model's value, or report a problem and return BROKEN."""
        return value

    def dump(self, value: Any) -> Json:
        """Convert the model's value to plain data that reads back as the same value."""
        return value

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of what `read` accepts."""
        return {}

    def hint(self, value: Json) -> str | None:
        """How to fix a value of another type that is not null."""
        return None

    def child(self, part: str | int, raw: Json) -> tuple[FieldType, str | int]:
        """The type of one part of a value, and the author's spelling of its name."""
        return ANY, part

    def kinds(self) -> Iterable[FieldType]:
        """The types that this one consists of."""
        return ()


ANY = FieldType()


class Text(FieldType):
    """A string, optionally with a pattern."""

    accepts = (str,)

    def __init__(
        self,
        noun: str = "a string",
        *,
        pattern: str = "",
        rule: str = "",
        code: Code = "wrong-value",
        prefix: str = "",
    ) -> None:
        self.noun = noun
        self._pattern = pattern
        self._matches = re.compile(pattern or r"(?s:.*)").fullmatch
        self._rule = rule
        self._code: Code = code
        self._prefix = prefix

    def read(self, value: Json, path: Path, problems: Problems) -> Any:
        if type(value) is not str:
            return wrong_type(self, value, path, problems)
        if self._matches(value) is None:
            message = f"{quote(value)} is not {self.noun}"
            problems.add(Problem(self._code, message, path, self._rule or None))
            return BROKEN
        return self._prefix + value.removeprefix(self._prefix) if self._prefix else value

    def hint(self, value: Json) -> str | None:
        is_scalar = isinstance(value, (bool, int, float))
        return f"put it in quotes: {quote(json.dumps(value))}" if is_scalar else None

    def schema(self) -> dict[str, Any]:
        pattern = {"pattern": f"^{self._pattern}$"} if self._pattern else {}
        return {"type": "string"} | pattern


STRING = Text()


class ErrorName(FieldType):
    """What a retry policy names: an exception class, an error code, or an HTTP status."""

    noun = "an exception class, an error code or an HTTP status"
    accepts = (str, int)

    def __init__(self) -> None:
        self._name = Text(
            self.noun,
            pattern=r"(?:[A-Za-z_][A-Za-z0-9_.-]{0,127}|[1-5](?:[0-9]{2}|xx))",
            rule="an exception class (ValueError, mymodule.CardDeclined), an error code (timeout) "
            "or an HTTP status (503, 5xx)",
        )
        self._status = Whole(100, 599)

    def read(self, value: Json, path: Path, problems: Problems) -> Any:
        if type(value) is not int:
            return self._name.read(value, path, problems)
        status = self._status.read(value, path, problems)
        return status if status is BROKEN else str(status)

    def dump(self, value: Any) -> Json:
        return int(value) if value.isdigit() else value

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self._name.schema(), self._status.schema()]}


class Choice(FieldType):
    """One of a few words, some with other spellings."""

    accepts = (str,)

    def __init__(
        self, *words: str, also: Mapping[str, str] | None = None, otherwise: str = ""
    ) -> None:
        self.noun = join_words([quote(word) for word in words] + [otherwise] * bool(otherwise))
        self._meaning: dict[str, str] = {word: word for word in words} | dict(also or {})
        #: A single word may stand for a list of one.
        self._or_list = otherwise.startswith("a list")

    def read(self, value: Json, path: Path, problems: Problems) -> Any:
        if type(value) is not str:
            return wrong_type(self, value, path, problems)
        word = self._meaning.get(value)
        if word is None:
            message = f"expected {self.noun}, found {found(value)}"
            hint = problems.suggest(value, self._meaning) or (
                _listed(value) if self._or_list else None
            )
            problems.add(Problem("wrong-value", message, path, hint))
            return BROKEN
        return word

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self._meaning)}


class Flag(FieldType):
    """true or false."""

    noun = "true or false"
    accepts = (bool,)

    def read(self, value: Json, path: Path, problems: Problems) -> Any:
        return value if type(value) is bool else wrong_type(self, value, path, problems)

    def hint(self, value: Json) -> str | None:
        return "write true or false, without quotes"

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


class Whole(FieldType):
    """A whole number in a range."""

    accepts = (int,)

    def __init__(self, minimum: int, maximum: int = 10**9) -> None:
        self.noun = f"a whole number from {minimum} to {maximum:_}".replace("_", ",")
        self._minimum, self._maximum = minimum, maximum

    def read(self, value: Json, path: Path, problems: Problems) -> Any:
        if type(value) is not int:
            return wrong_type(self, value, path, problems)
        if self._minimum <= value <= self._maximum:
            return value
        return _out_of_range(self.noun, value, path, problems)

    def hint(self, value: Json) -> str | None:
        return _unquoted(value)

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self._minimum, "maximum": self._maximum}


class Number(FieldType):
    """A number in a range, converted to the model's unit."""

    accepts = (int, float)

    def __init__(
        self, *, above: float | None = None, minimum: float = 0, maximum: float, unit: float = 1
    ) -> None:
        low = f"above {above:g}, at most" if above is not None else f"from {minimum:g} to"
        self.noun = f"a number {low} {maximum:,.0f}"
        self._above, self._minimum, self._maximum = above, minimum, maximum
        #: How many of the model's units make one of the author's.
        self._unit = unit

    def read(self, value: Json, path: Path, problems: Problems) -> Any:
        if type(value) is not int and type(value) is not float:
            return wrong_type(self, value, path, problems)
        is_above = value >= self._minimum if self._above is None else value > self._above
        if is_above and value <= self._maximum:
            return float(value * self._unit)
        return _out_of_range(self.noun, value, path, problems)

    def hint(self, value: Json) -> str | None:
        return _unquoted(value)

    def dump(self, value: Any) -> Json:
        return int(value) if value == int(value) else value

    def schema(self) -> dict[str, Any]:
        low = (
            {"minimum": self._minimum} if self._above is None else {"exclusiveMinimum": self._above}
        )
        return {"type": "number"} | low | {"maximum": self._maximum}


class JsonObject(FieldType):
    """An object with free content, optionally with required fields."""

    accepts = (dict,)

    def __init__(self, noun: str = "an object", *, required: tuple[str, ...] = ()) -> None:
        self.noun = noun
        self._required = required

    def read(self, value: Json, path: Path, problems: Problems) -> Any:
        if type(value) is not dict:
            return wrong_type(self, value, path, problems)
        for name in self._required:
            if name not in value:
                message = f"{self.noun} needs the field {quote(name)}"
                problems.add(Problem("missing-field", message, path))
            elif type(value[name]) is not str:
                wrong_type(STRING, value[name], (*path, name), problems)
        return value

    def schema(self) -> dict[str, Any]:
        if not self._required:
            return {"type": "object"}
        fields = {name: {"type": "string"} for name in self._required}
        return {"type": "object", "properties": fields, "required": list(self._required)}


class JsonList(FieldType):
    """A list with free content."""

    noun = "a list"
    accepts = (list,)

    def schema(self) -> dict[str, Any]:
        return {"type": "array"}


class ListOf(FieldType):
    """A list of values of one type."""

    accepts = (list,)

    def __init__(self, noun: str, item: FieldType) -> None:
        self.noun = noun
        self.item = item

    def read(self, value: Json, path: Path, problems: Problems) -> Any:
        if type(value) is not list:
            return wrong_type(self, value, path, problems)
        read = self.item.read
        return tuple(
            read(item, (*path, index), problems) if item is not BROKEN else BROKEN
            for index, item in enumerate(value)
        )

    def hint(self, value: Json) -> str | None:
        return _listed(value) if isinstance(value, str) else None

    def dump(self, value: Any) -> Json:
        return [self.item.dump(item) for item in value]

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.item.schema()}

    def child(self, part: str | int, raw: Json) -> tuple[FieldType, str | int]:
        return self.item, part

    def kinds(self) -> Iterable[FieldType]:
        return (self.item,)


class Either(FieldType):
    """A value of one of several types, distinguished by their Python types."""

    def __init__(self, noun: str, *alternatives: FieldType) -> None:
        self.noun = noun
        self._alternatives = alternatives
        self.accepts = tuple(t for kind in alternatives for t in kind.accepts)

    def read(self, value: Json, path: Path, problems: Problems) -> Any:
        for kind in self._alternatives:
            if type(value) in kind.accepts:
                return kind.read(value, path, problems)
        return wrong_type(self, value, path, problems)

    def dump(self, value: Any) -> Json:
        if isinstance(value, msgspec.Struct):
            return next(kind for kind in self._alternatives if dict in kind.accepts).dump(value)
        return list(value) if isinstance(value, tuple) else value

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [kind.schema() for kind in self._alternatives]}

    def kinds(self) -> Iterable[FieldType]:
        return self._alternatives


def wrong_type(kind: FieldType, value: Json, path: Path, problems: Problems) -> Any:
    """Report a value of the wrong type."""
    message = f"expected {kind.noun}, found {found(value)}"
    hint = "leave the field out, or give it a value" if value is None else kind.hint(value)
    problems.add(Problem("wrong-type", message, path, hint))
    return BROKEN


def _listed(value: str) -> str:
    return f"write [{value}]" if re.fullmatch(r"[\w-]{1,40}", value) else "write a list"


def _unquoted(value: Json) -> str | None:
    is_number = isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}(\.[0-9]{1,20})?", value)
    return f"write {value} without quotes" if is_number else None


def _out_of_range(expected: str, value: float, path: Path, problems: Problems) -> Any:
    message = f"expected {expected}, found {found(value)}"
    problems.add(Problem("wrong-value", message, path))
    return BROKEN


def found(value: Json) -> str:
    """Describe a value."""
    if isinstance(value, str):
        return f"a string {quote(value)}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if value is None:
        return "nothing (null)"
    return "a list" if isinstance(value, list) else "an object"


def join_words(words: list[str]) -> str:
    """Join alternatives: `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
