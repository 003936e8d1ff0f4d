"""Conditions written in Python: what they decide, and what they cannot do."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from minuet.conditions import compile_condition
from minuet.conditions.sandbox import MEMORY_MB, MEMORY_MB_MAX, TIMEOUT_MS
from minuet.errors import ConditionError

from ...corpora.escapes import SANDBOX_ESCAPES, SANDBOX_LARGE, SANDBOX_SLOW

REF = "cas://sha256:python_evaluator"


def body(text: str) -> str:
    lines = "\n".join(f"    {line}" for line in text.splitlines())
    return f"def evaluate(output, context):\n{lines}\n"


def decide(code: str, output: Any = None, context: Any = None, **fields: Any) -> bool:
    condition = compile_condition({"type": "python_sandbox", "code": code, **fields})
    return condition.evaluate({"output": output, "ctx": context or {}})


def failure(code: str, output: Any = None, **fields: Any) -> str:
    with pytest.raises(ConditionError) as caught:
        decide(code, output, **fields)
    return str(caught.value)


#: The seeds' own code.
GROWTH = body(
    """revenue = output.get('revenue', 0)
previous_revenue = context.get('last_month', {}).get('output', {}).get('revenue', 0)
growth_rate = (revenue - previous_revenue) / previous_revenue if previous_revenue > 0 else 0
return revenue > 100000 and growth_rate > 0.1"""
)


@pytest.mark.shows("F-30")
def test_code_decides_by_output_and_context() -> None:
    last_month = {"last_month": {"output": {"revenue": 100_000}}}

    assert decide(GROWTH, {"revenue": 120_000}, last_month) is True
    assert decide(GROWTH, {"revenue": 105_000}, last_month) is False
    assert decide(GROWTH, {"revenue": 120_000}, {}) is False


@pytest.mark.shows("F-30")
def test_code_may_come_from_a_blob() -> None:
    source = {"type": "python_sandbox", "code_ref": REF}
    known = compile_condition(source, blobs={REF: body("return output == 5").encode()})

    assert known.blobs == {REF}
    assert known.evaluate({"output": 5}) is True
    with pytest.raises(ConditionError, match="there is no blob"):
        compile_condition(source).evaluate({"output": 5})


def test_code_reads_all_nodes_before_it_or_those_that_it_lists() -> None:
    context = {"a": {"output": 1}, "b": {"output": 2}}
    everything = compile_condition({"type": "python_sandbox", "code": body("return True")})
    code = body("return sorted(context) == ['a']")

    assert everything.reads_all
    assert decide(body("return sorted(context) == ['a', 'b']"), context=context)
    assert decide(code, context=context, nodes=["a"])
    listed = compile_condition({"type": "python_sandbox", "code": code, "nodes": ["a"]})
    assert not listed.reads_all
    assert listed.references == {"a"}


@pytest.mark.shows("F-31")
@pytest.mark.parametrize("text", SANDBOX_ESCAPES)
def test_code_cannot_break_out(text: str) -> None:
    message = failure(body(text), {"a": 1})

    assert "the code failed" in message


@pytest.mark.shows("F-31")
@pytest.mark.parametrize(
    "text", ["import os", "from os import path", "import json", "from . import x", "import socket"]
)
def test_code_cannot_import_anything(text: str) -> None:
    assert "cannot import anything" in failure(body(f"{text}\nreturn True"))


@pytest.mark.shows("F-32", "S-38")
@pytest.mark.parametrize("text", SANDBOX_SLOW)
def test_code_is_stopped_when_its_time_is_up(text: str) -> None:
    assert TIMEOUT_MS == 1_000
    # Some want more memory all the time: on a fast machine, that could come to its end first.
    message = failure(body(text), timeout_ms=150, max_memory_mb=MEMORY_MB_MAX)

    assert "timeout_ms of 150" in message


@pytest.mark.shows("F-33", "S-38")
@pytest.mark.parametrize("text", SANDBOX_LARGE)
def test_code_is_stopped_when_it_takes_too_much_memory(text: str) -> None:
    assert MEMORY_MB == 50
    message = failure(body(text))

    assert "max_memory_mb of 50" in message or "the code failed: OverflowError" in message


def test_deep_recursion_fails_and_harms_nobody() -> None:
    assert "RecursionError" in failure(body("return evaluate(output, context)"))
    assert decide(body("return True"))


def test_code_has_no_clock_and_no_randomness() -> None:
    assert "the code failed" in failure(body("return time.time() > 0"))
    assert "the code failed" in failure(body("return random.random() > 0"))


@pytest.mark.parametrize("result", ["1", "None", "'true'", "[]", "output"])
def test_result_that_is_neither_true_nor_false_is_an_error(result: str) -> None:
    assert "a condition needs True or False" in failure(body(f"return {result}"), 5)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({}, "needs 'code' or a 'code_ref'"),
        ({"code": "x", "code_ref": REF}, "needs 'code' or a 'code_ref'"),
        ({"code": 5}, "'code' is Python text"),
        ({"code": "def"}, "not valid Python"),
        ({"code": "x = 1"}, "must define evaluate(output, context)"),
        ({"code": "def evaluate(output):\n    return True"}, "must define evaluate"),
        ({"code": "def evaluate(output, context):\n    yield 1"}, "no generators"),
        ({"code": "(" * 5000 + ")" * 5000}, ""),
        ({"code": "#" * 70_000}, "characters"),
        ({"code": body("return True"), "timeout_ms": 0}, "'timeout_ms' is a whole number"),
        ({"code": body("return True"), "max_memory_mb": "9"}, "'max_memory_mb' is a whole number"),
        ({"code": body("return True"), "nodes": "a"}, "'nodes' is a list"),
        ({"code": body("return True"), "node": "a"}, "has no 'node'"),
        ({"code_ref": "/etc/passwd"}, "the reference of a blob"),
    ],
)
def test_condition_of_the_wrong_form_is_an_error(source: Any, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        compile_condition({"type": "python_sandbox", **source})

    assert message in str(caught.value)


def test_many_threads_share_the_sandboxes() -> None:
    condition = compile_condition(
        {"type": "python_sandbox", "code": body("return output['n'] % 2 == 0")}
    )

    with ThreadPoolExecutor(8) as threads:
        decided = threads.map(
            lambda n: condition.evaluate({"output": {"n": n}, "ctx": {}}), range(100)
        )

        assert list(decided) == [n % 2 == 0 for n in range(100)]


def test_forked_process_says_that_it_has_no_sandboxes() -> None:
    program = (
        "import os, sys\n"
        "from minuet.conditions import compile_condition\n"
        "from minuet.errors import ConditionError\n"
        f"source = {{'type': 'python_sandbox', 'code': {body('return True')!r}}}\n"
        "condition = compile_condition(source)\n"
        "assert condition.evaluate({'output': 1})\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n"
        "        condition.evaluate({'output': 1})\n"
        "    except ConditionError as error:\n"
        "        os._exit(7 if 'forked' in str(error) else 8)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )

    ended = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)

    assert ended.returncode == 7


def test_explanation_shows_what_the_code_was_given() -> None:
    condition = compile_condition({"type": "python_sandbox", "code": GROWTH})

    told = condition.explain({"output": {"revenue": 1}, "ctx": {"last_month": {"output": {}}}})

    assert told["result"] is False
    assert told["operands"] == {"output": {"revenue": 1}, "ctx.last_month": {"output": {}}}


@pytest.mark.shows("F-34")
@pytest.mark.parametrize(
    "source",
    [
        "__import__('os').system('true') == 0",
        {"type": "jsonpath", "query": "$[?__import__('os')]", "operator": "exists"},
        {"type": "cross_node_comparison", "expression": "exec('1') == 1"},
        {
            "type": "cross_node_comparison",
            "left": {"source": "current", "path": "output.__class__"},
            "operator": "==",
            "right": {"value": 1},
        },
        {"type": "schema_validation", "schema": {"format": "{{ 1 }}", "$ref": "python:os.system"}},
    ],
)
def test_no_other_type_runs_code(source: Any) -> None:
    with pytest.raises(ConditionError):
        compile_condition(source).evaluate({"output": {"a": 1}, "ctx": {}})
