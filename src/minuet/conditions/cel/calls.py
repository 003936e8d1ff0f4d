"""Closures of function calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minuet.conditions.cel.errors import CelError, EvaluationError, located
from minuet.conditions.cel.functions import FUNCTIONS, VARIADIC
from minuet.conditions.cel.library.standard import search
from minuet.conditions.cel.values import Optional, UInt, friendly_name

if TYPE_CHECKING:
    from minuet.conditions.cel.regex import Machine

Frame = list[Any]
Closure = Callable[[Frame], Any]


def failing(message: str, at: int) -> Closure:
    """A closure that always fails, when it is evaluated."""

    def fail(frame: Frame) -> Any:
        raise EvaluationError(message, at)

    return fail


def compile_call(name: str, is_method: bool, closures: tuple[Closure, ...], at: int) -> Closure:
    """A call to the overload of this name that fits the types of the arguments."""
    if name in VARIADIC and len(closures) != 1:
        return _call_variadic(VARIADIC[name], closures, at)
    function = FUNCTIONS.get((name, is_method))
    if function is None:
        return failing(f"there is no function {name!r}", at)
    dispatch = function.dispatch
    if name in VARIADIC:
        number = VARIADIC[name]
        dispatch = {**dispatch, **{(kind,): number for kind in (int, float, UInt)}}
    if len(closures) == 1:
        only = closures[0]

        def call_one(frame: Frame) -> Any:
            value = only(frame)
            run = dispatch.get((type(value),))
            try:
                if run is None:
                    raise function.no_overload((value,))
                return run(frame[0], value)
            except CelError as error:
                raise located(error, at) from None

        return call_one

    def call(frame: Frame) -> Any:
        values = tuple([closure(frame) for closure in closures])
        run = dispatch.get(tuple(map(type, values)))
        try:
            if run is None:
                raise function.no_overload(values)
            return run(frame[0], *values)
        except CelError as error:
            raise located(error, at) from None

    return call


def _call_variadic(run: Callable[..., Any], closures: tuple[Closure, ...], at: int) -> Closure:
    def call(frame: Frame) -> Any:
        try:
            return run(frame[0], *[closure(frame) for closure in closures])
        except CelError as error:
            raise located(error, at) from None

    return call


def compile_matches(text: Closure, pattern: str, at: int) -> Closure:
    """`matches` with a literal pattern: compiled once, on its first use."""
    function = FUNCTIONS["matches", True]
    machine: Machine | None = None

    def match(frame: Frame) -> bool:
        nonlocal machine
        value = text(frame)
        try:
            if type(value) is not str:
                raise function.no_overload((value, pattern))
            if machine is None:
                from minuet.conditions.cel.regex import make_machine

                machine = make_machine(pattern, frame[0].limits.pattern_size)
            return search(frame[0], value, machine)
        except CelError as error:
            raise located(error, at) from None

    return match


def compile_or(name: str, at: int, optional: Closure, other: Closure) -> Closure:
    """`or` and `orValue` evaluate their argument only if there is no value."""
    keeps = name == "or"

    def choose(frame: Frame) -> Any:
        value = optional(frame)
        if type(value) is not Optional:
            raise EvaluationError(
                f"{name}() needs an optional such as x.?name, not {friendly_name(value)}", at
            )
        if value.present:
            return value if keeps else value.value
        found = other(frame)
        if keeps and type(found) is not Optional:
            raise EvaluationError(f"or() takes an optional, not {friendly_name(found)}", at)
        return found

    return choose
