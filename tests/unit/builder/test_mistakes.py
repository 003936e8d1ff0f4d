"""A mistake is reported at the line of Python that made it, with what to do instead."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import minuet
from minuet.app.compiling import compile_source
from minuet.nodes.handler import REGISTERED


@minuet.task
def measure(size: int, unit: str = "cm") -> dict[str, Any]:
    return {"size": size, "unit": unit}


def caught(make: Callable[[], object]) -> minuet.DocumentError:
    with pytest.raises(minuet.DocumentError) as raised:
        make()
    return raised.value


def line_of(make: Callable[..., object], mark: str) -> int:
    """The number of the line in a function that ends with a mark."""
    lines, first = inspect.getsourcelines(make)
    (found,) = [number for number, line in enumerate(lines) if line.rstrip().endswith(f"# {mark}")]
    return first + found


# ── a reference is not a value ──────────────────────────────────────────────────────────────


@pytest.fixture
def size() -> Any:
    with minuet.Workflow("w") as w:
        return measure.named()(w.input.size).output.size


#: What is done with a reference, and what the hint says.
USES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "if": (lambda x: 1 if x else 2, r"\.branch\(…\)"),
    "and": (lambda x: x and 1, "&, | and ~"),
    "or": (lambda x: x or 1, "&, | and ~"),
    "not": (lambda x: not x, "&, | and ~"),
    "a comparison in a condition": (lambda x: 1 if x > 1 else 2, r"\.branch\(…\)"),
    "a chain of comparisons": (lambda x: 1 < x < 3, r"\(a < x\) & \(x < b\)"),
    "len": (lambda x: len(x), r"\.len_\(\)"),
    "for": (lambda x: list(x), r"task\.map\(…\)"),
    "in": (lambda x: 1 in x, r"\.contains\(…\)"),
    "an f-string": (lambda x: f"{x} cm", re.escape("{{ measure.output.size }}")),
    "format": (lambda x: "{} cm".format(x), re.escape("{{ measure.output.size }}")),  # noqa: UP032
    "str": (lambda x: str(x), re.escape("{{ measure.output.size }}")),
    "%": (lambda x: "%s cm" % x, re.escape("{{ measure.output.size }}")),  # noqa: UP031
    "int": (lambda x: int(x), "compute it in a task"),
    "float": (lambda x: float(x), "compute it in a task"),
    "an index": (lambda x: [1, 2][x], "compute it in a task"),
    "range": (lambda x: range(x), "compute it in a task"),
    "round": (lambda x: round(x), "compute it in a task"),
    "abs": (lambda x: abs(x), "compute it in a task"),
    "math": (lambda x: math.sqrt(x), "compute it in a task"),
    "a power": (lambda x: x**2, "compute it in a task"),
    "a power of it": (lambda x: 2**x, "compute it in a task"),
    "xor": (lambda x: x ^ 1, "compute it in a task"),
    "a shift": (lambda x: x << 1, "compute it in a task"),
    "a key": (lambda x: {x: 1}, "use text as the key"),
    "a set": (lambda x: {x}, "use text as the key"),
    "a call": (lambda x: x.upper(), "compute it in a task"),
    "an assignment": (lambda x: setattr(x, "unit", 1), "change it in a task"),
    "an assignment to an item": (lambda x: x.__setitem__("unit", 1), "change it in a task"),
}


@pytest.mark.parametrize("use", USES)
def test_a_reference_used_as_a_value_is_refused_with_a_hint(use: str, size: Any) -> None:
    function, hint = USES[use]

    error = caught(lambda: function(size))

    (problem,) = error.diagnostics
    assert problem.code == "not-a-value"
    assert "{{ measure.output.size" in problem.message
    assert re.search(hint, problem.hint or "")
    assert problem.line == function.__code__.co_firstlineno
    assert error.source.endswith("test_mistakes.py")


async def test_awaiting_a_reference_is_refused(size: Any) -> None:
    with pytest.raises(minuet.DocumentError, match="cannot be awaited"):
        await size


def test_private_attributes_are_not_fields(size: Any) -> None:
    with pytest.raises(AttributeError, match=r'write \["_unit"\]'):
        size._unit  # noqa: B018

    assert repr(size["_unit"]) == "{{ measure.output.size._unit }}"


def test_calling_the_run_of_a_workflow_says_how_to_run_it() -> None:
    workflow = minuet.Workflow("w")

    (problem,) = caught(lambda: workflow.run({"size": 1})).diagnostics

    assert problem.hint == "run a workflow with minuet.run(workflow, input)"


# ── refused at once ─────────────────────────────────────────────────────────────────────────


def twice() -> None:
    with minuet.Workflow("w"):
        measure(1)
        measure(2)  # here


def node_as_value() -> None:
    with minuet.Workflow("w"):
        a = measure.named()(1)
        measure.named("b")(size=a)  # here


def node_in_expression() -> None:
    with minuet.Workflow("w"):
        a = measure.named()(1)
        a.output.x == a  # noqa: B015  # here


def unencodable() -> None:
    with minuet.Workflow("w"):
        measure.named()(size=object())  # here


def unencodable_key() -> None:
    with minuet.Workflow("w"):
        minuet.transform("t", {1: 2})  # here


def too_many_arguments() -> None:
    with minuet.Workflow("w"):
        measure.named()(1, 2, 3)  # here


def argument_twice() -> None:
    with minuet.Workflow("w"):
        measure.named()(1, size=3)  # here


def other_workflow() -> None:
    with minuet.Workflow("one"):
        a = measure.named()(1)
    with minuet.Workflow("two"):
        measure.named()(a.output.size)  # here


def node_of_another_workflow() -> None:
    with minuet.Workflow("one"):
        a = measure.named()(1)
    with minuet.Workflow("two"):
        measure.named()(1).then(a)  # here


def condition_of_another_workflow() -> None:
    one = minuet.Workflow("one")
    with minuet.Workflow("two"):
        measure.named()(1).loop(while_=one.input.x)  # here


def not_a_rule() -> None:
    with minuet.Workflow("w") as w:
        a = measure.named()(1)
        a.branch(w.input.x > 1, a)  # type: ignore[arg-type]  # here


def not_a_node() -> None:
    with minuet.Workflow("w"):
        measure.named()(1).then("measure")  # type: ignore[arg-type]  # here


def remainder_in_condition() -> None:
    with minuet.Workflow("w"):
        a = measure.named()(1)
        a.loop(while_=a.output.size % 2 == 1)  # here


def part_in_condition() -> None:
    with minuet.Workflow("w"):
        a = measure.named()(1)
        a.loop(while_=a.output.list[1:] == [1])  # here


def sum_of_unknown_kind_in_condition() -> None:
    with minuet.Workflow("w") as w:
        a = measure.named()(1)
        a.loop(while_=a.output.size + w.input.size == 3)  # here


def unknown_node() -> None:
    with minuet.Workflow("w") as w:
        measure.named()(1)
        w["measur"].then()  # here


def map_without_list() -> None:
    with minuet.Workflow("w"):
        measure.map(max_parallel=3)  # here


def transform_without_value() -> None:
    with minuet.Workflow("w"):
        minuet.transform("t")  # here


def nodes_as_field() -> None:
    minuet.Workflow("w").set(nodes=[])  # here


def compensated_by_position() -> None:
    with minuet.Workflow("w"):
        measure.named()(1).compensate("undo", 1)  # here


def used_while_open() -> None:
    with minuet.Workflow("w") as w:
        measure.named()(1)
        minuet.run(w, store="memory://")  # here


REFUSED: dict[Callable[[], None], tuple[str, str]] = {
    twice: ("duplicate-node", r"line \d+.*measure_2"),
    node_as_value: ("not-a-value", r"measure\.output"),
    node_in_expression: ("not-a-value", r"\.output"),
    unencodable: ("bad-value", "of type object.*JSON value"),
    unencodable_key: ("bad-key", "key 1 is not a string"),
    too_many_arguments: ("bad-argument", "takes 2 positional arguments, and 3 are given"),
    argument_twice: ("bad-argument", "'size' twice"),
    other_workflow: ("foreign-reference", "another workflow"),
    node_of_another_workflow: ("foreign-reference", "another workflow"),
    condition_of_another_workflow: ("foreign-reference", "another workflow"),
    not_a_rule: ("bad-rule", r"\.branch\(\(condition, node\)"),
    not_a_node: ("not-a-node", "found 'measure'"),
    remainder_in_condition: ("not-a-condition", "the operator %"),
    part_in_condition: ("not-a-condition", "part of a list"),
    sum_of_unknown_kind_in_condition: ("not-a-condition", "may be texts or numbers"),
    unknown_node: ("unknown-node", "did you mean 'measure'"),
    map_without_list: ("bad-argument", "needs a list"),
    transform_without_value: ("bad-argument", "a value or an expression"),
    nodes_as_field: ("bad-argument", "one by one"),
    compensated_by_position: ("bad-argument", "need names"),
    used_while_open: ("open-workflow", "after the `with` block"),
}


@pytest.mark.parametrize("make", REFUSED, ids=lambda make: make.__name__)
def test_a_mistake_is_refused_at_its_line(make: Callable[[], None]) -> None:
    code, text = REFUSED[make]

    error = caught(make)

    (problem,) = error.diagnostics
    assert (problem.code, problem.line) == (code, line_of(make, "here"))
    assert re.search(text, problem.describe())
    assert error.source.endswith("test_mistakes.py")


@pytest.mark.parametrize(
    "make",
    [
        lambda: minuet.noop("a"),
        lambda: minuet.node("a"),
        lambda: minuet.transform("a", 1),
        lambda: measure.named("a")(1),
        lambda: measure.map([1]),
    ],
)
def test_a_node_outside_of_a_workflow_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(minuet.ConfigError, match=r"inside with minuet\.Workflow"):
        make()


# ── found by the compiler, all at once ──────────────────────────────────────────────────────


def faulty() -> minuet.Workflow:
    with minuet.Workflow("faulty") as w:
        a = measure.named("a")(sise=1)  # argument
        b = minuet.node("b", type="nope")  # type
        a.then(b)
        minuet.transform("c", "{{ nobody.output }}")  # template
        b.branch(("output.", a))  # condition
        b.retry(0)  # retry
        a.set(conection=3)  # field
        w.set(output="{{ nope.x }}")  # output
    return w


def test_every_problem_of_a_workflow_is_reported_at_its_line() -> None:
    workflow = faulty()

    with pytest.raises(minuet.DocumentError) as raised:
        compile_source(workflow, handlers=REGISTERED)

    found = {(problem.code, problem.line) for problem in raised.value.diagnostics}
    expected = {
        ("wrong-value", "retry"),
        ("unknown-field", "field"),
        ("unknown-reference", "output"),
        ("unknown-reference", "template"),
    }
    assert found == {(code, line_of(faulty, mark)) for code, mark in expected}
    assert all(problem.line for problem in raised.value.diagnostics)
    assert raised.value.source.endswith("test_mistakes.py")


def meaningless() -> minuet.Workflow:
    with minuet.Workflow("meaningless"):
        a = measure.named("a")(sise=1)  # argument
        b = minuet.node("b", type="nope")  # type
        b.branch(("output.", a))  # condition
        b.then(minuet.noop("c")).then(b)
        minuet.noop("d").loop(while_="true", back_to=a)  # loop
    return a._workflow


def test_problems_of_meaning_are_reported_at_their_lines() -> None:
    workflow = meaningless()

    with pytest.raises(minuet.DocumentError) as raised:
        compile_source(workflow, handlers=REGISTERED)

    found = {(problem.code, problem.line) for problem in raised.value.diagnostics}
    assert found == {
        (code, line_of(meaningless, mark))
        for code, mark in [
            ("unknown-argument", "argument"),
            ("unknown-node-type", "type"),
            ("bad-condition", "condition"),
            ("cycle", "type"),
        ]
    }


def test_a_problem_in_another_file_names_that_file(tmp_path: Path) -> None:
    helper = tmp_path / "helper.py"
    helper.write_text("import minuet\n\ndef add():\n    minuet.node('a', type='nope')\n")
    names: dict[str, Any] = {}
    exec(compile(helper.read_text(), str(helper), "exec"), names)
    with minuet.Workflow("w") as w:
        names["add"]()

    with pytest.raises(minuet.DocumentError) as raised:
        compile_source(w, handlers=REGISTERED)

    (problem,) = raised.value.diagnostics
    assert (problem.file, problem.line, problem.column) == (str(helper), 4, 5)
    assert f"{helper}:4:5: error[unknown-node-type]" in str(raised.value)
    assert raised.value.source.endswith("test_mistakes.py")


def parent() -> minuet.Workflow:
    with minuet.Workflow("inner") as inner:
        minuet.transform("t", "{{ nobody.x }}")  # inner
    with minuet.Workflow("w") as w:
        minuet.child("c", workflow=inner)
    return w


def test_a_problem_in_a_child_is_reported_at_its_line() -> None:
    with pytest.raises(minuet.DocumentError) as raised:
        compile_source(parent(), handlers=REGISTERED)

    (problem,) = raised.value.diagnostics
    assert (problem.code, problem.line) == ("unknown-reference", line_of(parent, "inner"))


def test_a_loaded_document_keeps_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("name: w\nnodes:\n  - id: a\n    type: nope\n")
    w = minuet.Workflow.load(file)
    with w:
        minuet.node("b", type="nope").then(w["a"])

    with pytest.raises(minuet.DocumentError) as raised:
        compile_source(w, handlers=REGISTERED)

    old, new = raised.value.diagnostics
    assert (raised.value.source, old.file, old.line) == (str(file), None, 4)
    assert new.file is not None
    assert new.file.endswith("test_mistakes.py")
