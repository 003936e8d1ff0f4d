"""Binding: how a handler's parameters are filled with the entries of a node's config."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import NoneType
from typing import Any, NamedTuple, get_args

from minuet.errors import HandlerError
from minuet.nodes.context import Context
from minuet.nodes.values import annotations_of, decoders, properties_of


class Misfit(NamedTuple):
    """An argument that a handler does not have, or that it needs and does not get."""

    argument: str
    message: str
    is_missing: bool = False


def is_context(hint: Any) -> bool:
    """Whether a parameter with this annotation gets the context. `Context | None = None` is for
    tasks that are also called without one: in durable functions, and directly."""
    either = get_args(hint)
    return hint is Context or (len(either) == 2 and Context in either and NoneType in either)


class Binder:
    """How a function's parameters are filled, computed once."""

    def __init__(self, handler: str, function: Callable[..., Any]) -> None:
        self._handler = handler
        self._names: list[str] = []
        #: Those that may be given without their name.
        self._positional: list[str] = []
        self._required: list[str] = []
        self._context: str | None = None
        self._takes_all = False
        hints = annotations_of(function)
        converted: dict[str, Any] = {}
        for name, parameter in inspect.signature(function).parameters.items():
            if is_context(hints.get(name)) or (name == "ctx" and name not in hints):
                self._context = name
            elif parameter.kind is parameter.VAR_KEYWORD:
                self._takes_all = True
            elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                self._names.append(name)
                if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                    self._positional.append(name)
                if parameter.default is parameter.empty:
                    self._required.append(name)
                if name in hints:
                    converted[name] = hints[name]
        #: Of each argument that is not taken unchanged: what makes it, and what messages call it.
        self._decoders = [
            (name, decode, f"handler {handler!r}, argument {name!r}")
            for name, decode in decoders(converted).items()
        ]
        #: The names that every config has, and those that it may have; None: any.
        self._least = frozenset(self._required)
        self._most = None if self._takes_all else frozenset(self._names)

    @property
    def context_name(self) -> str | None:
        """The parameter that gets the context."""
        return self._context

    def name(self, positional: tuple[Any, ...]) -> dict[str, Any]:
        if len(positional) > len(self._positional):
            raise HandlerError(
                f"handler {self._handler!r} takes {len(self._positional)} positional arguments, "
                f"and {len(positional)} are given"
            )
        return dict(zip(self._positional, positional, strict=False))

    def misfits(self, names: Collection[str], *, complete: bool) -> Iterator[Misfit]:
        known = names if self._takes_all else self._names
        required = self._required if complete else []
        return find_misfits(f"handler {self._handler!r}", names, known, required)

    def takes(self, name: str) -> bool:
        """Whether the function has an argument of this name, which a config may give."""
        return name in self._names

    def bind(self, config: Mapping[str, Any], context: Context) -> dict[str, Any]:
        arguments = dict(config)
        names, most = arguments.keys(), self._most
        if not (names >= self._least and (most is None or names <= most)):
            raise HandlerError(next(self.misfits(names, complete=True)).message)
        for name, decode, whose in self._decoders:
            if name in arguments:
                arguments[name] = decode(arguments[name], whose)
        if self._context is not None:
            arguments[self._context] = context
        return arguments


def config_schema(function: Callable[..., Any]) -> dict[str, Any]:
    """JSON Schema of the config that a handler takes: its arguments, by name."""
    hints = annotations_of(function)
    known: dict[str, Any] = {}
    required: list[str] = []
    takes_all = False
    for name, parameter in inspect.signature(function).parameters.items():
        if is_context(hints.get(name)) or (name == "ctx" and name not in hints):
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_all = True
        elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            known[name] = hints.get(name, Any)
            if parameter.default is parameter.empty:
                required.append(name)
    return {
        "type": "object",
        **properties_of(known),
        "required": required,
        "additionalProperties": takes_all,
    }


def find_misfits(
    who: str, names: Collection[str], known: Collection[str], required: Iterable[str]
) -> Iterator[Misfit]:
    """Arguments that are not known, and those that are required and missing."""
    meant: set[str] = set()
    for name in names:
        if name not in known:
            yield Misfit(name, f"{who} has no argument {name!r}{hint_of(name, known)}")
            meant.update(_close(name, known))
    for name in required:
        # One that was probably misspelt is not reported as missing too.
        if name not in names and name not in meant:
            message = f"{who} needs the argument {name!r}: add it to the node's config"
            yield Misfit(name, message, is_missing=True)


def _close(name: str, known: Iterable[str]) -> list[str]:
    """The known name that was probably meant, if there is one."""
    return difflib.get_close_matches(name[:64], list(known), n=1)


def hint_of(name: str, known: Iterable[str]) -> str:
    """The end of a message about a name that is not known: the one that was probably meant."""
    close = _close(name, known)
    return f" (did you mean {close[0]!r}?)" if close else ""
