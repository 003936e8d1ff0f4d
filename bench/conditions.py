"""What a condition costs, to evaluate and to compile: `python -m bench.conditions`.

Prints one JSON object: microseconds of CPU time, the best of many short turns, because a busy
machine only adds to them.
"""

from __future__ import annotations

import json
import time
import timeit
from typing import Any

from minuet.conditions import cel, compile_condition

CONDITION = 'output.score > 0.8 && input.kind in ["a", "b"] && size(ctx.load.output.items) > 3'
VARIABLES: dict[str, Any] = {
    "output": {"score": 0.9},
    "input": {"kind": "b"},
    "ctx": {"load": {"output": {"items": [1, 2, 3, 4]}}},
}
PATTERN = "output.matches('^[a-z]+-[0-9]{4}$')"

#: One of each other type, on data of an ordinary size.
OTHERS: dict[str, Any] = {
    "jsonpath": {
        "type": "jsonpath",
        "query": "$.items[?(@.tier == 'gold')].length()",
        "operator": ">",
        "value": 0,
    },
    "schema_validation": {
        "type": "schema_validation",
        "schema": {
            "type": "object",
            "required": ["items"],
            "properties": {"items": {"type": "array", "items": {"required": ["tier"]}}},
        },
    },
    "cross_node_comparison": {
        "type": "cross_node_comparison",
        "left": {"source": "current", "path": "output.score"},
        "operator": ">",
        "right": {"source": "context", "node": "load", "path": "output.items[0]"},
    },
    "python_sandbox": {
        "type": "python_sandbox",
        "code": "def evaluate(output, context):\n    return output['score'] > 0.5\n",
    },
}
OUTPUT = {"score": 2, "items": [{"tier": "gold" if n % 3 else "free"} for n in range(100)]}

#: What we want at most, in microseconds: for CEL our own targets, for the other types the times
#: that the original documents name.
TARGETS = {
    "evaluate a condition": 15.0,
    "compile a condition": 300.0,
    "match a pattern": 15.0,
    "jsonpath": 1_000.0,
    "schema_validation": 500.0,
    "cross_node_comparison": 200.0,
    "python_sandbox": 50_000.0,
}


def measure() -> dict[str, float]:
    """Microseconds of each."""
    condition, pattern = compile_condition(CONDITION), compile_condition(PATTERN)
    assert condition.evaluate(VARIABLES)
    assert pattern.evaluate({"output": "invoice-2026"})

    def compile_again() -> None:
        cel._compiled.cache_clear()
        compile_condition(CONDITION)

    return {
        "evaluate a condition": best(lambda: condition.evaluate(VARIABLES), 4_000),
        "compile a condition": best(compile_again, 100),
        "match a pattern": best(lambda: pattern.evaluate({"output": "invoice-2026"}), 4_000),
        **{name: measure_type(source) for name, source in OTHERS.items()},
    }


def measure_type(source: dict[str, Any]) -> float:
    """Microseconds of one evaluation; of the sandbox by the clock, because others work for it."""
    condition = compile_condition(source)
    variables = {**VARIABLES, "output": OUTPUT}
    assert condition.evaluate(variables)
    if not condition.is_slow:
        return best(lambda: condition.evaluate(variables), 100)
    turns = timeit.repeat(lambda: condition.evaluate(variables), number=10, repeat=10)
    return min(turns) / 10 * 1e6


def best(call: Any, times: int) -> float:
    turns = timeit.repeat(call, timer=time.process_time, number=times, repeat=25)
    return min(turns) / times * 1e6


def report(figures: dict[str, float]) -> list[str]:
    """The table: what was measured against what we want."""
    lines = [f"{'conditions':50} {'µs':>10}   ÷ target"]
    for name, target in TARGETS.items():
        ratio = figures[name] / target
        verdict = "met" if ratio <= 1 else "MISSED"
        lines.append(
            f"{name:50} {figures[name]:10.2f} {ratio:9.2f}×  (at most {target:g}: {verdict})"
        )
    return [*lines, ""]


if __name__ == "__main__":
    print(json.dumps({name: round(figure, 2) for name, figure in measure().items()}))
