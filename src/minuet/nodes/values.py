"""Values on their way back: JSON becomes what an annotation says.

`bridge.values` turns Python values into JSON in one fixed way; this module rebuilds them, from the
annotation of whatever receives them: an argument, the result of a step, the output of a run. So a
value has the same type whether it was just returned or was read from the store.

An annotation that cannot be rebuilt, such as a user's class that is not a dataclass, leaves JSON
unchanged: a hint must not break a handler.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, get_args, get_origin

import msgspec

from minuet.errors import HandlerError
from minuet.nodes.rebuilding import (
    MismatchError,
    adapt,
    converter,
    is_pydantic,
    pydantic_schema,
    schema_hook,
)
from minuet.types import Json

#: Rebuilds a value of JSON. The text says whose value it is, for the HandlerError if it does not
#: fit: "handler 'price', argument 'order'".
Decode: TypeAlias = Callable[[Json, str], Any]


def as_it_is(value: Json, whose: str) -> Any:
    """The decoder of what is JSON anyway. Callers may skip it."""
    return value


#: The decoders of functions that are in use.
_RESULTS: weakref.WeakKeyDictionary[Callable[..., Any], Decode] = weakref.WeakKeyDictionary()

_ANYTHING = (Any, object, inspect.Parameter.empty)

#: Kinds whose values JSON has as they are, whatever is in them.
_JSON_KINDS = (str, int, float, bool, dict, list)


# ── what callers use ────────────────────────────────────────────────────────────────────


def decoder(annotation: Any) -> Decode:
    """What rebuilds values of an annotation. Making it takes time: keep it with what it is for."""
    if annotation is None:
        annotation = type(None)
    kind = _without_details(annotation)
    if kind in _ANYTHING:
        return as_it_is
    convert = converter(adapt(annotation))
    if convert is None:
        return as_it_is
    plain = kind if kind in _JSON_KINDS else None

    def decode(value: Json, whose: str) -> Any:
        if type(value) is plain:
            return value
        try:
            return convert(value)
        except MismatchError as error:
            where = error.path.lstrip(".")
            raise HandlerError(f"{whose}{f' at {where}' if where else ''}: {error}") from error
        except NotImplementedError:
            # A class that nothing can make from JSON.
            return value

    return decode


def decoders(annotations: Mapping[str, Any]) -> dict[str, Decode]:
    """The decoders of arguments by name, without those that leave JSON unchanged."""
    made = {name: decoder(annotation) for name, annotation in annotations.items()}
    return {name: decode for name, decode in made.items() if decode is not as_it_is}


def result_decoder(function: Callable[..., Any]) -> Decode:
    """The decoder of what a function returns or, if that is awaited, of what it gives then."""
    function = _beneath(function)
    try:
        found = _RESULTS.get(function)
    except TypeError:
        return as_it_is  # Something of an extension module, which has no annotations.
    if found is None:
        found = _RESULTS[function] = decoder(_returned_by(function))
    return found


def annotations_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function, evaluated. One that cannot be, because it names what only a
    type checker sees, is left out; the others count."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception:
        pass
    plain = inspect.unwrap(function)
    found: dict[str, Any] = {}
    for name, annotation in getattr(plain, "__annotations__", {}).items():
        one = types.SimpleNamespace(__annotations__={name: annotation})
        names = getattr(plain, "__globals__", {})
        try:
            found |= typing.get_type_hints(one, globalns=names, include_extras=True)
        except Exception:
            continue
    return found


def schema_of(annotation: Any) -> dict[str, Any]:
    """The JSON Schema of an annotation's values; {}: anything."""
    try:
        if is_pydantic(annotation):
            schema = pydantic_schema(annotation)
        else:
            schema = msgspec.json.schema(adapt(annotation), schema_hook=schema_hook)
            _gather_parts(schema)
    except Exception:
        # A type without a schema.
        return {}
    reference = schema.get("$ref", "")
    if reference.startswith("#/$defs/"):
        schema = {**schema, **schema["$defs"][reference.removeprefix("#/$defs/")]}
        del schema["$ref"]
        if f'"{reference}"'.encode() not in msgspec.json.encode(schema):
            # Nothing else refers to it.
            del schema["$defs"][reference.removeprefix("#/$defs/")]
        if not schema["$defs"]:
            del schema["$defs"]
    return schema


def properties_of(annotations: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a JSON Schema that says what the fields of an object are."""
    found: dict[str, Any] = {
        "properties": {name: schema_of(annotation) for name, annotation in annotations.items()}
    }
    try:
        _gather_parts(found)
    except ValueError:
        return {"properties": {name: {} for name in annotations}}
    return found


# ── reading annotations and functions ───────────────────────────────────────────────────


def _without_details(annotation: Any) -> Any:
    """What an annotation is of, if JSON does not say more: `dict` of `dict[str, Any]`."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is typing.Annotated and not _has_constraints(annotation):
        return _without_details(parts[0])
    if (origin is list and parts == (Any,)) or (origin is dict and parts == (str, Any)):
        return origin
    return annotation


def _has_constraints(annotation: Any) -> bool:
    return any(isinstance(one, msgspec.Meta) for one in annotation.__metadata__)


def _beneath(function: Any) -> Any:
    """The function that says what is returned: beneath a partial, a method, a task."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif inspect.isclass(function) or inspect.isroutine(function):
            return function
        else:
            return type(function).__call__


def _returned_by(function: Callable[..., Any]) -> Any:
    """What calling a function gives, once it has been awaited if it must be."""
    if inspect.isclass(function):
        return function
    hint = annotations_of(function).get("return", Any)
    kind = get_origin(hint) or hint
    if isinstance(kind, type) and hasattr(kind, "__await__"):
        hint = get_args(hint)[-1] if get_args(hint) else Any
    return hint


def _gather_parts(schema: dict[str, Any]) -> None:
    """Put the shared parts of schemas inside a schema where references look for them."""
    gathered = schema.pop("$defs", {})
    left: list[Any] = [schema, *gathered.values()]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            for name, shared in part.pop("$defs", {}).items():
                if gathered.setdefault(name, shared) != shared:
                    raise ValueError(f"two classes are called {name!r}")
                left.append(shared)
            left += part.values()
        elif isinstance(part, list):
            left += part
    if gathered:
        schema["$defs"] = gathered
