"""The table of functions: their names, argument types and result types.

A function is looked up by its name and the types of its arguments. So no function checks types
itself, and the checker uses the same table to find the type of an expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, TypeAlias, TypeVar

import msgspec

from minuet.conditions.cel.errors import EvaluationError
from minuet.conditions.cel.values import CLASSES, friendly_name

#: Gets the meter and the arguments. The receiver of a method is the first argument.
Implementation: TypeAlias = Callable[..., Any]

_Run = TypeVar("_Run", bound=Implementation)

#: Stands for every type in a signature.
ANY = "any"

SHORT = {"timestamp": "google.protobuf.Timestamp", "duration": "google.protobuf.Duration"}


class Overload(msgspec.Struct, frozen=True):
    """A function for one combination of types."""

    parameters: tuple[str, ...]
    result: str
    run: Implementation


class Function:
    """All overloads of one name, as a function or as a method."""

    def __init__(self, name: str, is_method: bool) -> None:
        self.name = name
        self.is_method = is_method
        self.overloads: list[Overload] = []
        self._by_classes: dict[tuple[type, ...], Implementation] = {}

    def add(self, overload: Overload) -> None:
        self.overloads.append(overload)
        choices = [_classes(parameter) for parameter in overload.parameters]
        for classes in product(*choices):
            self._by_classes.setdefault(classes, overload.run)

    @property
    def dispatch(self) -> dict[tuple[type, ...], Implementation]:
        """The implementation for each combination of Python classes."""
        return self._by_classes

    def no_overload(self, arguments: tuple[Any, ...]) -> EvaluationError:
        """The error if no overload accepts these values."""
        return EvaluationError(self.describe_misfit([friendly_name(a) for a in arguments]))

    def describe_misfit(self, types: list[str]) -> str:
        """Describe the given types and the available overloads."""
        there_is = ", ".join(dict.fromkeys(self.signatures()))
        return f"there is no {self.spell(types)}, but {there_is}"

    def signatures(self) -> Iterator[str]:
        """The overloads as text."""
        for overload in self.overloads:
            yield self.spell(
                [p.removeprefix("google.protobuf.").lower() for p in overload.parameters]
            )

    def spell(self, types: list[str]) -> str:
        """A call written with types as arguments."""
        if not self.is_method:
            return f"{self.name}({', '.join(types)})"
        return f"{types[0]}.{self.name}({', '.join(types[1:])})"


def _classes(parameter: str) -> tuple[type, ...]:
    if parameter == ANY:
        return tuple(each for classes in CLASSES.values() for each in classes)
    return CLASSES[parameter]


#: By name and whether it is a method.
FUNCTIONS: dict[tuple[str, bool], Function] = {}


def register(signature: str, *, also_function: bool = False) -> Callable[[_Run], _Run]:
    """Add an overload, for example "string.contains(string) -> bool"."""

    def add(run: _Run) -> _Run:
        name, is_method, parameters, result = _parse(signature)
        overload = Overload(parameters, result, run)
        for method in {is_method, is_method and not also_function}:
            FUNCTIONS.setdefault((name, method), Function(name, method)).add(overload)
        return run

    return add


def _parse(signature: str) -> tuple[str, bool, tuple[str, ...], str]:
    call, result = signature.split(" -> ")
    head, _, inside = call.rstrip(")").partition("(")
    parameters = [part.strip() for part in inside.split(",") if part.strip()]
    before, _, name = head.rpartition(".")
    is_method = _long(before) in CLASSES
    if is_method:
        parameters.insert(0, before)
    else:
        name = head
    return name, is_method, tuple(map(_long, parameters)), _long(result)


def _long(name: str) -> str:
    return SHORT.get(name, name)


#: Functions that take any number of numbers, by name.
VARIADIC: dict[str, Implementation] = {}


def is_function(name: str) -> bool:
    """Whether there is a function of this (qualified) name."""
    return name in VARIADIC or (name, False) in FUNCTIONS
