"""Fields and objects of a document: the reader, driven by a table.

An `ObjectType` is one kind of object in a document, declared once in `model.table` by the model's
class and its fields. Everything else (checking, defaults, spellings, dumping, the JSON Schema
and the reference) is derived from the declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from minuet.model.diagnostics import quote
from minuet.model.field_types import FieldType, wrong_type
from minuet.model.problem import BROKEN, Problem, Problems
from minuet.types import Json, Path

#: Resolves what concerns several fields. It gets the values of the model's fields and of the
#: other fields, may change the former, and returns whether the object counts as present.
Settle: TypeAlias = Callable[[dict[str, Any], dict[str, Any], Path, Problems], bool]


class Field:
    """One field of an object."""

    def __init__(
        self,
        name: str,
        kind: FieldType,
        about: str,
        *,
        spellings: tuple[str, ...] = (),
        converted: Mapping[str, FieldType] | None = None,
        attribute: str | None = None,
        required: bool = False,
        helper: bool = False,
        told_by: str | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        #: One sentence for people, in Markdown.
        self.about = about
        #: Other names with the same type, and other names with a different type.
        self.spellings: dict[str, FieldType] = dict.fromkeys((name, *spellings), kind)
        self.spellings |= converted or {}
        #: The name in the model's class.
        self.attribute = attribute or name
        self.required = required
        #: Not a field of the model: `ObjectType.settle` converts it.
        self.helper = helper
        #: The helper field that may have set this one's value.
        self.told_by = told_by
        self.default: Any = msgspec.NODEFAULT


class ObjectType(FieldType):
    """An object with known fields, as a value of the model."""

    def __init__(
        self,
        title: str,
        noun: str,
        cls: type[msgspec.Struct],
        *fields: Field,
        short: str | None = None,
        settle: Settle | None = None,
    ) -> None:
        self.title = title
        #: The name of the object. `noun` also names what may be written instead.
        self.name = noun
        self.cls = cls
        self.fields = fields
        self._settle = settle
        self._by_spelling = {name: field for field in fields for name in field.spellings}
        #: The field that a value sets if it is not an object.
        self.short = self._by_spelling[short] if short else None
        self.accepts = (dict, *(self.short.kind.accepts if self.short else ()))
        self.noun = f"{noun} or {self.short.kind.noun}" if self.short else noun
        self._take_defaults()
        self._required = tuple(field for field in fields if field.required)

    def _take_defaults(self) -> None:
        known = {field.name: field for field in msgspec.structs.fields(self.cls)}
        for field in self.fields:
            if not field.helper:
                declared = known[field.attribute]
                field.required |= declared.required
                make = declared.default_factory
                field.default = declared.default if make is msgspec.NODEFAULT else make()

    def read(self, value: Json, path: Path, problems: Problems) -> Any:
        if type(value) is dict:
            return self._read_fields(value, path, problems)
        if self.short is not None and type(value) in self.short.kind.accepts:
            short = self.short.kind.read(value, path, problems)
            return self.cls(**{self.short.attribute: short})
        return wrong_type(self, value, path, problems)

    def _read_fields(self, raw: dict[str, Any], path: Path, problems: Problems) -> Any:
        problems_before = problems.count
        values: dict[str, Any] = {}
        helpers: dict[str, Any] = {}
        by_spelling = self._by_spelling
        for key, value in raw.items():
            field = by_spelling.get(key)
            if field is None:
                problems.add(self._unknown(key, path, problems))
                continue
            chosen = helpers if field.helper else values
            if field.attribute in chosen:
                problems.add(_twice(field, key, raw, path))
            elif value is BROKEN:
                chosen[field.attribute] = BROKEN
            else:
                kind = field.spellings[key]
                chosen[field.attribute] = kind.read(value, (*path, key), problems)
        for field in self._required:
            if field.attribute not in values:
                message = f"{self.name} needs the field {quote(field.name)}"
                problems.add(Problem("missing-field", message, path))
        is_written = self._settle is None or self._settle(values, helpers, path, problems)
        if problems.count > problems_before:
            return BROKEN
        return self.cls(**values) if is_written else None

    def hint(self, value: Json) -> str | None:
        names = [quote(field.name) for field in self._required or self.fields]
        return f"it is an object with {', '.join(names[:4])}"

    def _unknown(self, key: str, path: Path, problems: Problems) -> Problem:
        message = f"{self.name} has no field {quote(key)}"
        hint = problems.suggest(key, self._by_spelling)
        return Problem("unknown-field", message, (*path, key), hint, at_key=True)

    def dump(self, value: Any) -> Json:
        written: dict[str, Any] = {}
        for field in self.fields:
            if field.helper:
                continue
            item = getattr(value, field.attribute)
            if field.required or item != field.default:
                written[field.name] = field.kind.dump(item)
        return written

    def schema(self) -> dict[str, Any]:
        reference = {"$ref": f"#/$defs/{self.title}"}
        return {"anyOf": [reference, self.short.kind.schema()]} if self.short else reference

    def child(self, part: str | int, raw: Json) -> tuple[FieldType, str | int]:
        for field in self.fields:
            if part == field.attribute or part in field.spellings:
                names = (*field.spellings, *([field.told_by] if field.told_by else []))
                written = [name for name in names if isinstance(raw, dict) and name in raw]
                return field.kind, written[0] if written else part
        return super().child(part, raw)

    def kinds(self) -> Iterable[FieldType]:
        return [kind for field in self.fields for kind in field.spellings.values()]


def _twice(field: Field, key: str, raw: dict[str, Any], path: Path) -> Problem:
    other = next(name for name in raw if name in field.spellings and name != key)
    message = f"{quote(other)} and {quote(key)} are the same field"
    return Problem("duplicate-field", message, (*path, key), "keep one of them", at_key=True)
