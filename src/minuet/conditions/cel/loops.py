"""Closures of the macros.

Each turn of a loop is charged before it runs, one step for each part of its body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from minuet.conditions.cel.errors import CelError, EvaluationError
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.operators import UNIT
from minuet.conditions.cel.tree import Bind, Loop
from minuet.conditions.cel.values import (
    NONE,
    Map,
    Optional,
    checked,
    friendly_name,
    make_map,
)

Frame = list[Any]
Closure = Callable[[Frame], Any]
#: Runs the turns. The frame holds the item of the current turn in its slot.
Turns = Callable[[Frame], Iterator[None]]


def compile_loop(
    tree: Loop,
    over: Closure,
    places: list[int],
    filter_: Closure | None,
    body: Closure,
    cost: int,
) -> Closure:
    """The closure of a macro over a list or map."""
    turns = _turns(tree, over, places, cost)
    if filter_ is not None:
        turns = _filtered(turns, filter_, tree)
    match tree.macro:
        case "all" | "exists":
            run = _quantifier(turns, body, tree)
        case "exists_one":
            run = _exists_one(turns, body, tree)
        case "filter":
            run = _filter(turns, body, places[0], tree)
        case "transformMap":
            run = _transform_map(turns, body, places[0])
        case _:
            run = _map(turns, body)
    at = tree.at

    def guarded(frame: Frame) -> Any:
        try:
            return run(frame)
        except CelError as error:
            if error.at is None:
                error.at = at
            raise

    return guarded


def _turns(tree: Loop, over: Closure, places: list[int], cost: int) -> Turns:
    if len(places) == 1:
        place = places[0]

        def one(frame: Frame) -> Iterator[None]:
            meter: Meter = frame[0]
            # Lists yield their items, maps their keys.
            for item in _collection(over(frame)):
                meter.steps -= cost
                if meter.steps < 0:
                    raise meter.out_of_steps()
                frame[place] = checked(item) if type(item) is int else item
                yield

        return one
    first, second = places

    def two(frame: Frame) -> Iterator[None]:
        meter: Meter = frame[0]
        collection = _collection(over(frame))
        pairs = enumerate(collection) if type(collection) is list else collection.items()
        for key, item in pairs:
            meter.steps -= cost
            if meter.steps < 0:
                raise meter.out_of_steps()
            frame[first], frame[second] = key, checked(item)
            yield

    return two


def _collection(value: Any) -> Any:
    if type(value) not in (list, dict, Map):
        raise EvaluationError(
            f"it can only loop over a list or an object, not over {friendly_name(value)}"
        )
    return value


def _truth(value: Any, tree: Loop) -> bool:
    if value is True or value is False:
        return bool(value)
    raise EvaluationError(f"{tree.macro}() needs true or false, not {friendly_name(value)}")


def _filtered(turns: Turns, filter_: Closure, tree: Loop) -> Turns:
    def chosen(frame: Frame) -> Iterator[None]:
        for _ in turns(frame):
            if _truth(filter_(frame), tree):
                yield

    return chosen


def _quantifier(turns: Turns, body: Closure, tree: Loop) -> Closure:
    """`all` and `exists`: an item that decides overrides errors of other items."""
    decisive = tree.macro == "exists"

    def decide(frame: Frame) -> bool:
        failed: EvaluationError | None = None
        value: Any
        for _ in turns(frame):
            try:
                value = body(frame)
                if value is decisive:
                    return bool(decisive)
                if value is not (not decisive):
                    _truth(value, tree)
            except EvaluationError as error:
                failed = failed or error
        if failed is not None:
            raise failed.with_traceback(None)
        return not decisive

    return decide


def _exists_one(turns: Turns, body: Closure, tree: Loop) -> Closure:
    def count(frame: Frame) -> bool:
        return sum(_truth(body(frame), tree) for _ in turns(frame)) == 1

    return count


def _filter(turns: Turns, body: Closure, place: int, tree: Loop) -> Closure:
    def keep(frame: Frame) -> list[Any]:
        return [frame[place] for _ in turns(frame) if _truth(body(frame), tree)]

    return keep


def _map(turns: Turns, body: Closure) -> Closure:
    return lambda frame: [body(frame) for _ in turns(frame)]


def _transform_map(turns: Turns, body: Closure, place: int) -> Closure:
    def transform(frame: Frame) -> Any:
        entries = [(frame[place], body(frame)) for _ in turns(frame)]
        frame[0].spend(4 * UNIT * len(entries))
        return make_map(entries)

    return transform


def compile_bind(tree: Bind, value: Closure, place: int, body: Closure) -> Closure:
    """The closure of a macro that names one value."""
    if tree.macro == "bind":

        def bind(frame: Frame) -> Any:
            frame[place] = value(frame)
            return body(frame)

        return bind
    flat, at = tree.macro == "optFlatMap", tree.at

    def bind_optional(frame: Frame) -> Any:
        optional = value(frame)
        if type(optional) is not Optional:
            raise EvaluationError(
                f"{tree.macro}() needs an optional, not {friendly_name(optional)}", at
            )
        if not optional.present:
            return NONE
        frame[place] = optional.value
        result = body(frame)
        if not flat:
            return Optional(result)
        if type(result) is not Optional:
            raise EvaluationError(
                f"optFlatMap() must return an optional, not {friendly_name(result)}", at
            )
        return result

    return bind_optional
