"""`@minuet.node_type`: node types that users write.

A registered type is a function, or a class with a method `run`, async or not. By their hints or
names, its parameters get the node's config, the whole `Call` or the `Context`. It runs as a handler
does: under a lease that is renewed, with timeouts, cancellation and retries.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec

from minuet.errors import ConfigError
from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.context import Context
from minuet.nodes.handler import REGISTERED, check_effects, place_of
from minuet.nodes.spec import Bound, Call, Effects, NodeType, Wait
from minuet.nodes.values import Decode, annotations_of, decoder, schema_of
from minuet.schemas import SchemaTooComplexError, compile_schema
from minuet.types import TYPE_QUEUE

#: What `@node_type` decorates, and gives back unchanged.
Registrable = TypeVar("Registrable", bound=Callable[..., Any])

_NAME = re.compile(r"[A-Za-z][\w.-]{0,63}", re.ASCII)

_OBJECT = {"type": "object"}


def node_type(
    name: str,
    *,
    version: str = "1",
    config_schema: dict[str, Any] | None = None,
    output_schema: dict[str, Any] | None = None,
    display_name: str = "",
    description: str = "",
    icon: str = "",
    capabilities: dict[str, Any] | None = None,
    image: str = "",
    example: dict[str, Any] | None = None,
    effects: Effects | None = None,
) -> Callable[[Registrable], Registrable]:
    """Make a function, or a class with a method `run`, a node type of this name.

    A parameter hinted as `minuet.Context` (or named `ctx`) gets the context, one hinted as
    `minuet.Call` (or named `call`) everything that the node gets, and the remaining one the node's
    config, converted to its hint. Schemas that are left out follow from the hints. `effects` says
    what running it twice would do, as for `@minuet.task`. `capabilities` and `image` (the container
    image of workers that run it) are for programs that list node types.
    """
    _check_name(name)
    check_effects(effects)

    def register(registrable: Registrable) -> Registrable:
        made = _make(
            name,
            registrable,
            version=version,
            config_schema=config_schema,
            output_schema=output_schema,
            display_name=display_name,
            description=description,
            icon=icon,
            capabilities=_check_capabilities(name, capabilities or {}),
            image=image,
            example=example or {},
            effects=effects,
        )
        REGISTERED.add_type(made)
        return registrable

    return register


def _check_name(name: str) -> None:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ConfigError(
            f"{name!r:.100} cannot be the name of a node type: expected a letter, then up to 63 "
            'letters, digits, "_", "-" or "."; write @minuet.node_type("name")'
        )
    if name in NODE_TYPES:
        raise ConfigError(f"node type {name!r} comes with Minuet: choose another name")


def _check_capabilities(name: str, capabilities: dict[str, Any]) -> dict[str, Any]:
    try:
        return msgspec.convert(msgspec.json.decode(msgspec.json.encode(capabilities)), dict)
    except (TypeError, ValueError, msgspec.ValidationError) as error:
        raise ConfigError(
            f"node type {name!r}: capabilities are an object of JSON values: {error}"
        ) from None


def _make(
    name: str,
    registrable: Callable[..., Any],
    *,
    config_schema: dict[str, Any] | None,
    output_schema: dict[str, Any] | None,
    description: str,
    **fields: Any,
) -> NodeType:
    function = registrable
    if inspect.isclass(registrable):
        function = getattr(registrable, "run", None)  # type: ignore[assignment]
        if not inspect.isfunction(function):
            raise ConfigError(
                f"node type {name!r}: the class {registrable.__name__} needs a method run"
            )
    hints = annotations_of(function)
    roles = _roles(name, function, hints, is_method=inspect.isclass(registrable))
    config_hint = hints.get(roles.get("config", ""), Any)
    summary, _, rest = (description or inspect.getdoc(registrable) or "").strip().partition("\n")
    if config_schema is None:
        config_schema = _config_schema(config_hint)
    if output_schema is None:
        output_schema = _output_schema(hints.get("return", Any))
    _check_schema(name, "config_schema", config_schema)
    _check_schema(name, "output_schema", output_schema)
    return NodeType(
        name=name,
        summary=summary or f"Runs {getattr(registrable, '__name__', name)}.",
        description=rest.strip(),
        config_schema=config_schema,
        output_schema=output_schema,
        kind="registered",
        queue=f"{TYPE_QUEUE}{name}",
        bind=_binder(name, registrable, roles, config_hint),
        is_async=inspect.iscoroutinefunction(function),
        place=place_of(function),
        **fields,
    )


def binding_of(name: str, function: Callable[..., Any]) -> tuple[Bound, bool]:
    """How a function is called in place of a registered type, and whether it is awaited."""
    hints = annotations_of(function)
    roles = _roles(name, function, hints, is_method=False)
    bind = _binder(name, function, roles, hints.get(roles.get("config", ""), Any))
    return bind, inspect.iscoroutinefunction(function)


# ── calling it ──────────────────────────────────────────────────────────────────────────


def _roles(
    name: str, function: Callable[..., Any], hints: dict[str, Any], *, is_method: bool
) -> dict[str, str]:
    """Which parameter gets the config, the call and the context."""
    roles: dict[str, str] = {}
    parameters = list(inspect.signature(function).parameters.values())[is_method:]
    for parameter in parameters:
        hint = hints.get(parameter.name)
        if hint is Context or (parameter.name == "ctx" and hint is None):
            role = "ctx"
        elif hint is Call or (parameter.name == "call" and hint is None):
            role = "call"
        else:
            role = "config"
        by_name = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if role in roles or not by_name:
            raise ConfigError(
                f"node type {name!r}: its function takes the config, a minuet.Call and a "
                f"minuet.Context, each once and by name; {parameter.name!r} is none of these"
            )
        roles[role] = parameter.name
    return roles


def _binder(
    name: str, registrable: Callable[..., Any], roles: dict[str, str], config_hint: Any
) -> Bound:
    prepared: list[tuple[Callable[..., Any], Decode]] = []
    whose = f"node type {name!r}, argument 'config'"

    def bind(call: Call, context: Context) -> tuple[Callable[..., Any], dict[str, Any]]:
        if not prepared:
            # One object serves all calls. It is made at the first: reading a document makes none.
            is_class = inspect.isclass(registrable)
            function = registrable().run if is_class else registrable
            prepared.append((function, decoder(config_hint)))
        function, decode = prepared[0]
        arguments: dict[str, Any] = {}
        if "config" in roles:
            arguments[roles["config"]] = decode(call.config, whose)
        if "call" in roles:
            arguments[roles["call"]] = call
        if "ctx" in roles:
            arguments[roles["ctx"]] = context
        return function, arguments

    return bind


# ── schemas ─────────────────────────────────────────────────────────────────────────────


def _config_schema(hint: Any) -> dict[str, Any]:
    schema = schema_of(hint) or _OBJECT
    if schema.get("type") != "object":
        return _OBJECT
    # As with a handler's arguments: a name that nothing reads is a mistake.
    return {"additionalProperties": False, **schema} if "properties" in schema else schema


def _output_schema(hint: Any) -> dict[str, Any]:
    if get_origin(hint) in (Union, types.UnionType):
        # A type that waits is called again, and has an output then.
        rest = tuple(kind for kind in get_args(hint) if kind is not Wait)
        hint = Union[rest] if rest else Any  # noqa: UP007
    return schema_of(hint)


def _check_schema(name: str, argument: str, schema: dict[str, Any]) -> None:
    import jsonschema_rs

    try:
        compile_schema(msgspec.json.encode(schema))
    except (SchemaTooComplexError, jsonschema_rs.ValidationError, TypeError) as error:
        raise ConfigError(
            f"node type {name!r}: {argument} cannot be used as a JSON Schema: {error!s:.400}"
        ) from None
