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

#: What we want at most, in microseconds.
TARGETS = {"evaluate a condition": 15.0, "compile a condition": 300.0, "match a pattern": 15.0}


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
    }


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
