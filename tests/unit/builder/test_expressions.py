"""Expressions over references: as a template and as a condition, they mean what Python means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import minuet
from minuet.builder.references import Expression, tree_of
from minuet.builder.spelling import spell_condition, spell_template
from minuet.conditions import compile_condition
from minuet.templates import compile_template

OUTPUTS: dict[str, Any] = {
    "a": {
        "whole": 3,
        "decimal": 2.5,
        "text": "hello",
        "list": [1, 2, 3],
        "words": ["hello", "world"],
        "fields": {"a b": 1, "in": 2, "ä": 7, "true": 8},
        "ok": True,
        "nothing": None,
        "tricky": 'he"l\\l\n}} {{ o😀',
    },
    "my-node": {"z": 1},
    "input": 5,
    "or": 6,
    "for": 7,
}
VARIABLES = {"input": {"k": 4}, "iteration": 2, "item": {"price": 9}, "run": {"id": "r"}}


@pytest.fixture(scope="module")
def workflow() -> minuet.Workflow:
    with minuet.Workflow("w") as made:
        for name in OUTPUTS:
            minuet.noop(name)
    return made


def as_template(expression: Any) -> Any:
    return compile_template(spell_template(tree_of(expression))).render(OUTPUTS, VARIABLES)


def as_condition(expression: Any) -> bool:
    ctx = {name: {"output": output} for name, output in OUTPUTS.items()}
    condition = compile_condition(spell_condition(tree_of(expression), "a"))
    return condition.evaluate({**VARIABLES, "output": OUTPUTS["a"], "ctx": ctx})


#: Each is true.
TRUE: list[tuple[str | None, Callable[[minuet.Workflow, Any], Any]]] = [
    ("output.whole > 1", lambda w, a: a.whole > 1),
    ("output.whole > 1", lambda w, a: 1 < a.whole),  # noqa: SIM300
    ("output.whole >= 3", lambda w, a: a.whole >= 3),
    ("output.whole < 3.5", lambda w, a: a.whole < 3.5),
    ("output.whole <= 3", lambda w, a: a.whole <= 3),
    ("output.whole == 3", lambda w, a: a.whole == 3),
    ("output.whole != -3", lambda w, a: a.whole != -3),
    ("output.nothing == null", lambda w, a: a.nothing == None),  # noqa: E711
    ("output.ok == true", lambda w, a: a.ok == True),  # noqa: E712
    ("output.ok", lambda w, a: a.ok),
    ("!(output.whole > 5)", lambda w, a: ~(a.whole > 5)),
    ("output.ok && output.whole > 1", lambda w, a: a.ok & (a.whole > 1)),
    ("output.whole > 5 || output.ok", lambda w, a: (a.whole > 5) | a.ok),
    ("output.ok && output.ok && output.ok", lambda w, a: a.ok & a.ok & a.ok),
    ("true && output.ok", lambda w, a: True & a.ok),
    ("output.whole in [1, 3]", lambda w, a: a.whole.in_([1, 3])),
    ("output.whole in [1, 1, output.whole]", lambda w, a: a.whole.in_((1, 1, a.whole))),
    ("output.whole in output.list", lambda w, a: a.whole.in_(a.list)),
    ("2 in output.list", lambda w, a: a.list.contains(2)),
    (None, lambda w, a: a.text.contains("ell")),
    (None, lambda w, a: a.words.contains("hello")),
    (None, lambda w, a: a.words.contains(a.text)),
    (None, lambda w, a: a.fields.contains("in")),
    (None, lambda w, a: ~a.text.contains("x") & a.words.contains("world")),
    ("size(output.list) == 3", lambda w, a: a.list.len_() == 3),
    ("output.list[0] == 1", lambda w, a: a.list[0] == 1),
    ("output.list[size(output.list) - 1] == 3", lambda w, a: a.list[-1] == 3),
    ("output.list[iteration] == 3", lambda w, a: a.list[w.iteration] == 3),
    ('output.fields["a b"] == 1', lambda w, a: a.fields["a b"] == 1),
    ('output.fields["in"] == 2', lambda w, a: a.fields["in"] == 2),
    ('output.fields["true"] == 8', lambda w, a: a.fields.true == 8),
    ('output.fields["ä"] == 7', lambda w, a: a.fields["ä"] == 7),
    ('ctx["my-node"].output.z == 1', lambda w, a: w["my-node"].output.z == 1),
    ("ctx.input.output == 5", lambda w, a: w["input"].output == 5),
    (None, lambda w, a: w["or"].output == 6),
    (None, lambda w, a: w["for"].output == 7),
    ("input.k == 4", lambda w, a: w.input.k == 4),
    ('run.id == "r"', lambda w, a: w.run.id == "r"),
    ("item.price > output.whole", lambda w, a: w.item.price > a.whole),
    ("double(output.whole) * 1.5 > 4", lambda w, a: a.whole * 1.5 > 4),
    ("double(output.whole) / 2.0 == 1.5", lambda w, a: a.whole / 2 == 1.5),
    ("7.5 / double(output.decimal) == 3", lambda w, a: 7.5 / a.decimal == 3),
    ("double(output.whole) + 1.0 == 4", lambda w, a: a.whole + 1 == 4),
    ("1.0 + double(output.whole) == 4", lambda w, a: 1 + a.whole == 4),
    ("10.0 - double(output.whole) == 7", lambda w, a: 10 - a.whole == 7),
    (None, lambda w, a: 10 - a.whole * 2 - -1 == 5),
    (None, lambda w, a: (a.whole - w.input.k) * 2 + 1 == -1),
    (None, lambda w, a: -a.whole + 4 == 1),
    (None, lambda w, a: 2 * a.list.len_() > a.decimal),
    ('output.text + " w" == "hello w"', lambda w, a: a.text + " w" == "hello w"),
    (None, lambda w, a: "w " + a.text + "!" == "w hello!"),
    (None, lambda w, a: a.tricky == OUTPUTS["a"]["tricky"]),
    ("output.list == [1, 2, 3]", lambda w, a: a.list == [1, 2, 3]),
    (None, lambda w, a: a.fields == dict(OUTPUTS["a"]["fields"])),
    ("(output.whole > 1) == output.ok", lambda w, a: (a.whole > 1) == a.ok),
]


@pytest.mark.parametrize(("text", "make"), TRUE, ids=range(len(TRUE)))
def test_an_expression_is_true_in_both_languages(
    workflow: minuet.Workflow, text: str | None, make: Callable[[minuet.Workflow, Any], Any]
) -> None:
    expression = make(workflow, workflow["a"].output)

    assert as_template(expression) is True
    assert as_condition(expression) is True
    assert as_condition(~expression) is False
    assert as_template(~expression) is False
    if text is not None:
        assert spell_condition(tree_of(expression), "a") == text


def test_what_only_templates_know_is_written_as_a_template(workflow: minuet.Workflow) -> None:
    a = workflow["a"].output

    assert as_template(a.list[1:]) == [2, 3]
    assert as_template(a.list[:2]) == [1, 2]
    assert as_template(a.list[::2]) == [1, 3]
    assert as_template(a.whole // 2) == 1
    assert as_template(a.whole % 2) == 1
    assert as_template(7 % a.whole) == 1
    assert as_template(7 // a.whole) == 2
    assert as_template(a.list + a.list[:1]) == [1, 2, 3, 1]


def test_a_path_is_written_as_an_author_would(workflow: minuet.Workflow) -> None:
    fetched = workflow["a"].output

    assert repr(fetched.lines[0].price) == "{{ a.output.lines[0].price }}"
    assert repr(workflow.input.order_id) == "{{ input.order_id }}"
    assert repr(workflow["my-node"].output.z) == '{{ nodes["my-node"].output.z }}'
    assert isinstance(fetched, Expression)


def test_a_condition_reads_other_nodes_through_ctx(workflow: minuet.Workflow) -> None:
    expression = workflow["a"].output.whole > 1

    assert spell_condition(tree_of(expression), "a") == "output.whole > 1"
    assert spell_condition(tree_of(expression), "my-node") == "ctx.a.output.whole > 1"
