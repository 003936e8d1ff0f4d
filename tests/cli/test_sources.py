"""Workflows of Python files on the command line: `orders.py`, `orders.py:order`."""

from __future__ import annotations

from typing import Any

import pytest

CODE = '''
import minuet


@minuet.task(name="sources_double")
async def double(n: int) -> int:
    return 2 * n


@minuet.workflow(name="sources-order")
async def order(ctx: minuet.Flow, n: int) -> int:
    """Double a number."""
    return await double(n)
'''

GRAPH = """

with minuet.Workflow("sources-graph") as graph:
    double.named("first")(n=graph.input.n)
"""


@pytest.fixture
def minuet(spawn: Any, finish: Any) -> Any:
    """Call the command as a process: each has its own functions."""
    return lambda *arguments: finish(spawn(*arguments))


@pytest.mark.parametrize("named", ["orders.py", "orders.py:order", "./orders.py:order"])
def test_a_durable_function_is_run_by_its_file(folder: Any, minuet: Any, named: str) -> None:
    folder.write("orders.py", CODE)
    done = minuet("run", named, "-i", "n=4", "--json")
    assert (done.code, done.json["output"]) == (0, 8)


def test_a_workflow_of_the_builder_is_run_by_its_name(folder: Any, minuet: Any) -> None:
    folder.write("orders.py", CODE + GRAPH)
    done = minuet("run", "orders.py:graph", "-i", "n=4", "--json")
    assert (done.code, done.json["output"]) == (0, {"first": 8})


@pytest.mark.parametrize(
    ("code", "named", "message"),
    [
        (CODE + GRAPH, "orders.py", "has several workflows: add one of :graph, :order"),
        (CODE, "orders.py:odrer", "has no workflow 'odrer' (did you mean 'order'?)"),
        (CODE, "orders.py:x", "has no workflow 'x'; it has order"),
        ("x = 1", "orders.py", "has no workflow: a function with @minuet.workflow"),
    ],
)
def test_a_workflow_that_cannot_be_found_is_named(
    folder: Any, minuet: Any, code: str, named: str, message: str
) -> None:
    folder.write("orders.py", code)
    done = minuet("run", named)
    assert done.code == 2
    assert message in done.err


def test_a_durable_function_is_validated_drawn_deployed_and_started(
    folder: Any, minuet: Any
) -> None:
    folder.write("orders.py", CODE)
    assert "sources-order, 1 node" in minuet("validate", "orders.py").out
    assert "sources-order" in minuet("graph", "orders.py:order").out
    assert minuet("deploy", "orders.py:order").code == 0
    assert minuet("start", "sources-order", "-i", "n=1").code == 0
    assert minuet("start", "orders.py:order", "-i", "n=1").code == 0
