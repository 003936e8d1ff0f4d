"""Random expressions: whatever they are, an answer or an error of ours, the same each time."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest

from minuet.conditions import LIMITS, Limits, compile_condition, compile_expression
from minuet.conditions.cel.errors import CelError
from minuet.conditions.cel.executable import Executable
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.parser import parse
from minuet.conditions.cel.types import check_types
from minuet.conditions.cel.values import type_name
from minuet.errors import ConditionError

from .generate import Generator

#: Values that JSON does not have, for data that never was JSON.
ODD: list[Any] = [
    2**70,
    -(10**5000),
    "\ud800",
    (1,),
    {1: 2},
    {True: 1},
    float("nan"),
    object(),
    b"a",
]


def evaluate(program: Executable, variables: dict[str, Any]) -> str:
    meter = Meter(LIMITS)
    try:
        value = repr(program.run(variables, meter))
    except CelError as error:
        value = error.message
    return f"{value} with {meter.steps} steps and {meter.bytes} bytes left"


@pytest.mark.parametrize("seed", range(3))
def test_evaluation_is_repeatable_and_so_is_what_it_costs(seed: int) -> None:
    generator = Generator(seed)
    for _ in range(400):
        expression, variables = generator.case()
        before = json.dumps(variables)
        program = Executable(parse(expression, 100), tuple("xyz"))

        assert evaluate(program, variables) == evaluate(program, variables)
        assert json.dumps(variables) == before


@pytest.mark.parametrize("seed", range(3))
def test_type_that_is_known_beforehand_is_the_type_of_the_value(seed: int) -> None:
    generator = Generator(100 + seed)
    known = 0
    for _ in range(400):
        expression, variables = generator.case()
        tree = parse(expression, 100)
        program = Executable(tree, tuple("xyz"))
        try:
            expected = check_types(tree, tuple("xyz"), LIMITS)
        except CelError:
            # What it refuses fails, or would if another part had not decided already.
            continue
        with suppress(CelError):
            found = type_name(program.run(variables, Meter(LIMITS)))
            assert expected in (found, "any"), expression
            known += expected != "any"

    assert known > 40


@pytest.mark.parametrize("seed", range(3))
def test_little_is_allowed_and_odd_data_given_and_nothing_but_a_condition_error_comes(
    seed: int,
) -> None:
    generator = Generator(200 + seed)
    limits = Limits(steps=50, work_bytes=500, data_depth=3, pattern_size=20)
    for number in range(400):
        expression, variables = generator.case()
        variables["y"] = {"a": ODD[number % len(ODD)], "b": [ODD[number // 2 % len(ODD)]]}
        data = {"output": variables["x"], "input": variables["y"], "item": ODD[number % len(ODD)]}
        ours = expression.replace("x.", "output.").replace("y.", "input.").replace("z[", "item[")
        with suppress(ConditionError):
            compile_expression(ours, limits).evaluate(data)
        with suppress(ConditionError):
            condition = compile_condition(ours, limits)
            told = condition.explain(data)
            assert json.dumps(told)
            assert ("result" in told) != ("error" in told)
