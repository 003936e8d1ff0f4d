"""Converting JSON to what an annotation says: msgspec, and what it does not know.

What msgspec does not know is put in its place as a class of our own (`_Stand`), which its hook
rebuilds: pydantic's classes, paths, and unions that need a choice. `nodes.values` is what others
use.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import operator
import sys
import types
import typing
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any, Literal, Union, cast, get_args, get_origin

import msgspec

from minuet.types import Json

# ── converting ──────────────────────────────────────────────────────────────────────────


#: Problems of one value that a message lists.
PROBLEMS_MAX = 5


class MismatchError(ValueError):
    """A value does not fit, at a path inside of what was to be converted."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path


def converter(annotation: Any) -> Callable[[Json], Any] | None:
    """As `_converter`, with MismatchError if a value does not fit."""
    if not _is_known(annotation):
        return None
    # msgspec works out again and again what an annotation means, but keeps what the fields of a
    # class mean.
    holder = msgspec.defstruct("Holder", [("value", annotation)], array_like=True)

    def convert(value: Json) -> Any:
        try:
            made: Any = msgspec.convert([value], holder, dec_hook=_make, str_keys=True)
        except msgspec.ValidationError as error:
            raise _mismatch(error) from error
        return made.value

    return convert


def _mismatch(error: msgspec.ValidationError) -> MismatchError:
    """What msgspec says, without the holder around the value."""
    message, _, path = str(error).partition(" - at `")
    key = "key in `" if path.startswith("key in `") else ""
    path = path.removeprefix("key in `").removesuffix("`").removeprefix("$[0]")
    inside = error.__cause__
    if isinstance(inside, MismatchError):
        path += inside.path
    return MismatchError(f"{key and 'a key: '}{message}", path)


def _is_known(annotation: Any) -> bool:
    try:
        msgspec.json.Decoder(annotation, dec_hook=_make)
    except TypeError:
        return False
    return True


def _make(kind: type[Any], value: Any) -> Any:
    """A value of a class that msgspec does not know."""
    if isinstance(kind, _Stand):
        return kind.make(value)
    if isinstance(kind, type) and issubclass(kind, PurePath) and isinstance(value, str):
        return kind(value)
    if is_pydantic(kind):
        return _make_pydantic(kind, value)
    if isinstance(kind, type) and issubclass(kind, PurePath):
        raise MismatchError(f"Expected `str`, got `{_name_of(value)}`")
    raise NotImplementedError


def _name_of(value: Json) -> str:
    """What a value of JSON is called in messages, as msgspec calls it."""
    names = {dict: "object", list: "array", type(None): "null"}
    return names.get(type(value), type(value).__name__)


# ── annotations that msgspec does not take ──────────────────────────────────────────────


class _Stand(type):
    """The class of classes that stand for annotations. Whatever they make counts as theirs."""

    make: Callable[[Json], Any]
    schema: Callable[[], dict[str, Any]]

    def __instancecheck__(cls, instance: Any) -> bool:
        return True


def _stand(make: Callable[[Json], Any], schema: Callable[[], dict[str, Any]] = dict) -> type[Any]:
    members = {"make": staticmethod(make), "schema": staticmethod(schema)}
    return _Stand("Stand", (), members)


def adapt(annotation: Any) -> Any:
    """The annotation with a class of ours for each part of it that msgspec does not take."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is typing.Annotated:
        inner, *details = parts
        adapted = adapt(inner)
        return annotation if adapted is inner else typing.Annotated[(adapted, *details)]
    if origin is Literal:
        return annotation if _is_known(annotation) else _literal(parts)
    if origin in (Union, types.UnionType):
        adapted = [adapt(part) for part in parts]
        joined = functools.reduce(operator.or_, adapted)
        return joined if _is_known(joined) else _choice(parts, adapted)
    if origin is not None and parts and isinstance(origin, type):
        adapted = [part if part is ... else adapt(part) for part in parts]
        if all(one is other for one, other in zip(adapted, parts, strict=True)):
            return annotation
        return cast(Any, origin)[tuple(adapted)]
    if isinstance(annotation, type):
        return _adapt_class(annotation)
    return annotation


def _adapt_class(kind: type[Any]) -> type[Any]:
    if issubclass(kind, enum.Enum):
        return kind if _is_plain_enum(kind) else _enum(kind)
    if dataclasses.is_dataclass(kind):
        if is_pydantic(kind):
            return _stand(lambda value: _make_pydantic(kind, value), lambda: pydantic_schema(kind))
        if not _is_known(kind):
            return _dataclass(kind)
    return kind


def _is_plain_enum(kind: type[enum.Enum]) -> bool:
    return not issubclass(kind, enum.Flag) and _is_known(kind)


def _enum(kind: type[enum.Enum]) -> type[Any]:
    """Members that have other values than text or numbers, or are made of several flags."""

    def make(value: Json) -> Any:
        if issubclass(kind, enum.Flag) and type(value) is int:
            try:
                return kind(value)
            except ValueError:
                pass
        plain = [(msgspec.to_builtins(member.value), member) for member in kind]
        return _find(value, plain, f"Invalid enum value {value!r:.100}")

    return _stand(make)


def _literal(values: tuple[Any, ...]) -> type[Any]:
    plain = [(msgspec.to_builtins(one), one) for one in values]
    expected = "Expected one of " + ", ".join(repr(one) for one, _ in plain)
    return _stand(
        lambda value: _find(value, plain, expected),
        lambda: {"enum": [one for one, _ in plain]},
    )


def _find(value: Json, known: Sequence[tuple[Json, Any]], refusal: str) -> Any:
    """What is kept as this value. True is not 1, as everywhere in JSON."""
    for plain, found in known:
        if type(plain) is type(value) and plain == value:
            return found
    raise MismatchError(refusal)


def _choice(parts: Sequence[Any], adapted: Sequence[Any]) -> type[Any]:
    """A union whose members JSON does not tell apart: two dataclasses, text and a date.

    The first member that fits is taken or, among classes, the first of those whose fields are what
    is there: fields that a class does not have would be lost.
    """
    converters = [converter(one) or _unchanged for one in adapted]

    def make(value: Json) -> Any:
        found: list[tuple[int, Any]] = []
        refused: list[str] = []
        for part, convert in zip(parts, converters, strict=True):
            try:
                made = convert(value)
            except MismatchError as error:
                at = f" at {error.path.lstrip('.')}" if error.path else ""
                refused.append(f"not `{_title(part)}`{at}: {error}")
            else:
                lost = _count_unknown(part, value)
                if not lost:
                    return made
                found.append((lost, made))
        if not found:
            raise MismatchError("; ".join(refused))
        return min(found, key=lambda one: one[0])[1]

    return _stand(
        make,
        lambda: {"anyOf": [msgspec.json.schema(one, schema_hook=schema_hook) for one in adapted]},
    )


def _unchanged(value: Json) -> Any:
    return value


def _title(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _count_unknown(kind: Any, value: Json) -> int:
    """How many fields of an object a class does not have."""
    names = _field_names(kind) if isinstance(value, dict) else None
    return 0 if names is None else len(value.keys() - names)


def _field_names(kind: Any) -> set[str] | None:
    if dataclasses.is_dataclass(kind):
        return {field.name for field in dataclasses.fields(kind)}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        tag = kind.__struct_config__.tag_field
        return {*kind.__struct_encode_fields__, *([tag] if tag else ())}
    if typing.is_typeddict(kind):
        return set(typing.get_type_hints(kind))
    if is_pydantic(kind):
        fields = kind.model_fields
        return {*fields, *(field.alias for field in fields.values() if field.alias)}
    return None


def _dataclass(kind: type[Any]) -> type[Any]:
    """A dataclass with a field that msgspec does not take, made field by field."""

    @functools.cache
    def converters() -> dict[str, Callable[[Json], Any]]:
        # When they are first needed: a field may be of the class itself.
        hints = typing.get_type_hints(kind, include_extras=True)
        return {
            field.name: converter(adapt(hints[field.name])) or _unchanged
            for field in dataclasses.fields(kind)
        }

    def make(value: Json) -> Any:
        if not isinstance(value, dict):
            raise MismatchError(f"Expected `object`, got `{_name_of(value)}`")
        arguments: dict[str, Any] = {}
        later: dict[str, Any] = {}
        for field in dataclasses.fields(kind):
            if field.name in value:
                try:
                    made = converters()[field.name](value[field.name])
                except MismatchError as error:
                    raise MismatchError(str(error), f".{field.name}{error.path}") from None
                (arguments if field.init else later)[field.name] = made
            elif field.init and field.default is field.default_factory is dataclasses.MISSING:
                raise MismatchError(f"Object missing required field `{field.name}`")
        made = kind(**arguments)
        for name, one in later.items():
            object.__setattr__(made, name, one)
        return made

    return _stand(make, lambda: {"type": "object"})


# ── pydantic ────────────────────────────────────────────────────────────────────────────


def _make_pydantic(kind: Any, value: Json) -> Any:
    """A model, or a dataclass, of pydantic. It is read as JSON, so that strict models take a date
    that is text; and by the names of fields as well as by aliases, because models are written by
    their names."""
    pydantic = sys.modules["pydantic"]
    try:
        return kind.__pydantic_validator__.validate_json(
            msgspec.json.encode(value), **_by_name(pydantic.VERSION)
        )
    except pydantic.ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        places = ["".join(map(_part, problem["loc"])) for problem in problems]
        if len(problems) == 1:
            raise MismatchError(problems[0]["msg"], places[0]) from None
        listed = [
            f"at {place.lstrip('.') or 'the top'}: {problem['msg']}"
            for place, problem in zip(places[:PROBLEMS_MAX], problems, strict=False)
        ]
        more = len(problems) - PROBLEMS_MAX
        listed += [f"and {more} more"] if more > 0 else []
        raise MismatchError("; ".join(listed)) from None


def _part(part: int | str) -> str:
    return f"[{part}]" if isinstance(part, int) else f".{part}"


@functools.cache
def _by_name(version: str) -> dict[str, bool]:
    major, minor = (int(part) for part in version.split(".")[:2])
    return {"by_alias": True, "by_name": True} if (major, minor) >= (2, 11) else {}


def pydantic_schema(kind: Any) -> dict[str, Any]:
    pydantic = sys.modules["pydantic"]
    adapter = pydantic.TypeAdapter(kind)
    return cast(dict[str, Any], adapter.json_schema(by_alias=False))


def is_pydantic(kind: Any) -> bool:
    """Whether it is a model, or a dataclass, of pydantic. It is not imported to find out."""
    return isinstance(kind, type) and "__pydantic_validator__" in vars(kind)


# ── schemas ─────────────────────────────────────────────────────────────────────────────


def schema_hook(kind: type[Any]) -> dict[str, Any]:
    """The schema of a class that msgspec does not know."""
    if isinstance(kind, _Stand):
        return cast(Any, kind).schema()  # type: ignore[no-any-return]
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return {"type": "string"}
    if is_pydantic(kind):
        return pydantic_schema(kind)
    raise NotImplementedError
