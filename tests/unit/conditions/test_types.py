"""Which condition types exist, and how they are kept."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from minuet.conditions import cel, compile_condition
from minuet.conditions.limits import LIMITS
from minuet.errors import ConditionError


@pytest.mark.shows("F-02")
@pytest.mark.parametrize("type_", ["nope", "CEL", 5, ["cel"]])
def test_unknown_type_is_named(type_: Any) -> None:
    with pytest.raises(ConditionError) as caught:
        compile_condition({"type": type_})

    assert str(caught.value) == f"unknown condition type: {type_}"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({}, "needs a 'type'"),
        (5, "not int"),
        ({"type": "cel"}, "needs an 'expression'"),
        ({"type": "cel", "expression": 5}, "needs an 'expression'"),
        ({"type": "cel", "expression": "true", "expresion": 1}, "has no 'expresion'"),
    ],
)
def test_condition_of_the_wrong_form_is_an_error(source: Any, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        compile_condition(source)


@pytest.mark.shows("F-35")
def test_compiled_text_is_served_to_many_threads_from_the_cache() -> None:
    sources = [f"output.score > {number}" for number in range(20)]
    conditions = [compile_condition(source) for source in sources]
    compiled = cel._compiled.cache_info().misses

    with ThreadPoolExecutor(8) as threads:
        served = list(threads.map(compile_condition, sources * 20))

    assert all(a is b for a, b in zip(served, conditions * 20, strict=True))
    assert cel._compiled.cache_info().misses == compiled


@pytest.mark.shows("F-35")
def test_threads_that_compile_and_evaluate_at_once_all_get_the_right_answer() -> None:
    sources = [f"output.score > {number}.25" for number in range(20)]

    with ThreadPoolExecutor(8) as threads:
        results = threads.map(
            lambda source: compile_condition(source).evaluate({"output": {"score": 9.5}}),
            sources * 20,
        )

        assert list(results) == [number < 10 for number in range(20)] * 20


def test_number_of_kept_conditions_is_bounded() -> None:
    assert cel._compiled.cache_info().maxsize == LIMITS.cached


def test_importing_conditions_does_not_load_the_language() -> None:
    program = "import minuet.conditions, sys; sys.exit('minuet.conditions.cel' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
