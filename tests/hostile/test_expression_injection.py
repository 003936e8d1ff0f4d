"""Data never becomes code: what a node returned is not parsed as a template or expression."""

import subprocess
import sys
from typing import Any

import pytest

import minuet


def test_a_template_inside_an_expression_is_text_and_nothing_else() -> None:
    """Rendering it would let the first node's output rewrite the second node's expression."""
    hostile = {"x": "' == '' || true || '"}
    result = minuet.run(
        {
            "name": "injection",
            "nodes": [
                {"id": "a", "type": "transform", "config": {"value": hostile}},
                {
                    "id": "b",
                    "type": "transform",
                    "dependencies": ["a"],
                    "config": {"expression": "'{{ a.x }}' == 'a'"},
                },
            ],
        },
        store="memory://",
    )

    assert result.output == {"b": False}


def transform(expression: str, **input: Any) -> Any:
    """The output of a workflow that evaluates the expression."""
    node = {"id": "a", "type": "transform", "config": {"expression": expression}}
    return minuet.run({"name": "transform", "nodes": [node]}, input, store="memory://")


def test_an_optional_inside_a_result_fails_the_node_and_nothing_else() -> None:
    """It ended the process, and then every worker that took the node again."""
    with pytest.raises(minuet.RunFailed, match=r"an optional: use orValue"):
        transform("{'name': input.?name}", name="Ann")

    assert transform("{?'name': input.?name}", name="Ann").output == {"a": {"name": "Ann"}}
    assert transform("{'name': input.?nam.orValue('-')}").output == {"a": {"name": "-"}}


def test_a_rule_that_gives_an_optional_inside_an_object_does_not_hold() -> None:
    rules = [{"condition": "dyn({'a': input.?x})", "next_nodes": ["b"]}]
    nodes = [
        {"id": "a", "type": "noop", "branch": {"rules": rules, "default": ["c"]}},
        {"id": "b", "type": "noop", "dependencies": ["a"]},
        {"id": "c", "type": "noop", "dependencies": ["a"]},
    ]

    result = minuet.run({"name": "rule", "nodes": nodes}, store="memory://")

    assert result.output.keys() == {"c"}


NULLS = """
import sys, minuet
config = {"expression": "[" + ", ".join(["null"] * 500) + "]"}
document = {"name": "nulls", "nodes": [{"id": "a", "type": "transform", "config": config}]}
minuet.run(document, store="memory://")
before = sys.getrefcount(None)
for _ in range(20):
    minuet.run(document, store="memory://")
print(before - sys.getrefcount(None))
"""


def test_nulls_in_results_may_be_any_number() -> None:
    """Each took a reference from None, which ended the process after some thousands.

    They are counted in a process of its own: here, other tests' objects come and go.
    """
    ended = subprocess.run(
        [sys.executable, "-c", NULLS], check=True, capture_output=True, text=True
    )

    assert int(ended.stdout) < 1000
