"""Work is counted: whatever an expression does with large data ends it, and with an error.

Nothing here is timed. Without the counting these take minutes or all the memory; pytest's own
limit on a test would end them.
"""

from __future__ import annotations

from typing import Any

import pytest

from minuet.errors import TemplateError
from minuet.templates import LIMITS, compile_template
from minuet.templates.expression import _ARITHMETIC, _DEFAULTS, _HANDLERS
from minuet.templates.filters import FILTERS, TESTS, nothing
from minuet.templates.lookup import ITEM
from minuet.templates.operators import ORDER

STOPPED = r"does too much work on this data|would be longer than|more than \d+ parts"

OUTPUTS: dict[str, Any] = {
    "a": {
        "one": 1,
        # Each is just too large to be gone through once.
        "text": "x" * (LIMITS.work + 1),
        "other": "x" * LIMITS.work + "y",
        "many": [1] * (LIMITS.work // ITEM + 1),
        "object": {str(n): 1 for n in range(LIMITS.work // ITEM + 1)},
        "deep": [[["x" * 1_000] * 100] * 100],
        "fields": {str(n): "x" * 1_000 for n in range(10_000)},
        # Each is small, and large when something multiplies it.
        "texts": ["x" * 1_000] * 1_000,
        "rows": [{"f": ["x" * 1_000] * 100} for _ in range(1_000)],
        "wanted": ["x" * 1_000] * 99 + ["y"],
        "blanks": " " * 500_000,
        "signs": "".join(map(chr, range(0x4E00, 0x9E00))) + " ",
        "dots": "f." * 20_000 + "f",
    }
}

#: For each filter and test what would take too long with one large value, and for those that take
#: more arguments, with each of them large.
FILTERS_STOPPED = {
    "capitalize": ["a.text | capitalize"],
    "dictsort": ["a.object | dictsort", "a.fields | dictsort(by='value')"],
    "float": ["a.text | float(0)"],
    "int": ["a.text | int(0)"],
    "items": ["a.object | items"],
    "join": ["a.many | join", "a.deep | join", "[1, 2] | join(a.text)", "[1] | join('', a.text)"],
    "list": ["a.text | list", "a.blanks | list", "a.many | list | list" + " | list" * 40],
    "lower": ["a.text | lower"],
    "map": [
        "a.many | map('abs')",
        "a.rows | map(attribute=a.dots)",
        "a.rows | map(attribute=a.text)",
        "a.texts | map('trim', a.signs)",
        "a.texts | map('replace', '', a.texts[0])",
        "a.texts | map('upper')" + " | map('lower')" * 20,
        "a.rows | map(attribute='f') | map('map', 'string')",
    ],
    "max": ["a.many | max", "a.deep | max", "a.rows | max(attribute=a.dots)"],
    "min": ["a.many | min", "a.deep | min", "a.rows | min(attribute=a.dots)"],
    "reject": ["a.many | reject", "a.rows | map(attribute='f') | reject('eq', a.wanted)"],
    "rejectattr": ["a.many | rejectattr('f')", "a.rows | rejectattr('f', 'eq', a.wanted)"],
    "replace": [
        "a.text | replace('a', 'b')",
        "'x' | replace(a.text, '')",
        "'x' | replace('x', a.text)",
        "a.blanks | replace(' ', a.blanks)",
        "a.blanks | replace(' ', a.blanks, -1) | replace('', a.blanks)",
        "a.blanks | replace('', a.blanks)",
    ],
    "reverse": ["a.text | reverse", "a.many | reverse" + " | reverse" * 40],
    "select": [
        "a.many | select",
        "a.many | select('in', a.many)",
        "a.texts | select('eq', a.texts[0]) " + "| select('eq', a.texts[0])" * 10,
        "a.rows | map(attribute='f') | select('eq', a.wanted)",
        "a.rows | map(attribute='f') | select('in', [a.wanted])",
    ],
    "selectattr": [
        "a.many | selectattr('f')",
        "a.rows | selectattr(a.dots)",
        "a.rows | selectattr('f', 'eq', a.wanted)",
        "a.rows | selectattr('f', 'ne', a.wanted)",
    ],
    "sort": ["a.many | sort", "a.deep | sort", "a.rows | sort(attribute=a.dots)"],
    "string": ["a.many | string", "a.deep | string"],
    "sum": ["a.many | sum", "a.rows | sum(attribute=a.dots)"],
    "title": ["a.text | title"],
    "tojson": ["a.many | tojson", "a.deep | tojson", "a.text | tojson"],
    "trim": ["a.text | trim", "'x' | trim(a.text)", "a.blanks | trim(a.signs)"],
    "unique": ["a.many | unique", "a.deep | unique", "a.rows | unique(attribute=a.dots)"],
    "upper": ["a.text | upper"],
    "urlencode": ["a.text | urlencode", "a.blanks ~ a.blanks | urlencode", "a.fields | urlencode"],
}

TESTS_STOPPED = {
    "eq": ["a.text is eq a.other", "a.deep is eq a.deep"],
    "equalto": ["a.text is equalto a.other"],
    "ge": ["a.text is ge a.other"],
    "gt": ["a.text is gt a.other"],
    "in": ["0 is in a.many", "'z' is in a.text", "a.text is in a.output"],
    "le": ["a.text is le a.other"],
    "lt": ["a.text is lt a.other"],
    "ne": ["a.text is ne a.other"],
}

#: By the kind of node in the expression's tree.
OPERATORS_STOPPED = {
    "Add": ["a.text + a.text", "a.blanks + a.blanks + a.blanks", "a.many" + " + a.many" * 40],
    "Concat": ["a.text ~ 1", "a.many ~ 1", "a.blanks ~ a.blanks ~ a.blanks"],
    "Compare": [
        "a.text == a.other",
        "a.text != a.other",
        "a.text < a.other",
        "a.text <= a.other",
        "a.text > a.other",
        "a.text >= a.other",
        "a.deep == a.deep",
        "a.wanted == a.rows[0].f" + " or a.wanted == a.rows[0].f" * 95,
        "0 in a.many",
        "0 not in a.many",
        "'z' in a.text",
        "a.text in 'z'",
        "a.text in a.output",
        "a.wanted in a.rows | map(attribute='f')",
    ],
    "Getitem": ["a.text[1:]", "a.many[::-1]" + "[::-1]" * 40],
    "Filter": FILTERS_STOPPED["sort"],
    "Test": TESTS_STOPPED["eq"],
}

#: What takes the same moment on data of any size, and why.
CONSTANT = {
    "Const": "it is in the text",
    "Getattr": "one field, whose name is in the text",
    "List": "its items are in the text",
    "Tuple": "its items are in the text",
    "Dict": "its fields are in the text",
    "And": "it looks whether something is empty",
    "Or": "it looks whether something is empty",
    "Not": "it looks whether something is empty",
    "CondExpr": "it looks whether something is empty",
    "Neg": "numbers have 64 bits",
    "Pos": "numbers have 64 bits",
    "Sub": "numbers have 64 bits",
    "Mul": "numbers have 64 bits",
    "Div": "numbers have 64 bits",
    "FloorDiv": "numbers have 64 bits",
    "Mod": "numbers have 64 bits",
}

FILTERS_CONSTANT = {"abs", "count", "first", "last", "length", "round"}


def render(expression: str) -> Any:
    return compile_template(f"{{{{ {expression} }}}}").render(OUTPUTS, {})


def all_of(*tables: dict[str, list[str]]) -> list[str]:
    return [text for table in tables for texts in table.values() for text in texts]


@pytest.mark.parametrize(
    "expression",
    all_of(FILTERS_STOPPED, TESTS_STOPPED, OPERATORS_STOPPED),
    ids=lambda text: text[:50],
)
def test_expression_that_does_too_much_is_stopped_by_the_count(expression: str) -> None:
    with pytest.raises(TemplateError, match=STOPPED):
        render(expression)


def test_every_filter_and_test_is_counted_or_takes_a_moment() -> None:
    moment = {name for name, test in TESTS.items() if test.cost is nothing}

    assert set(FILTERS_STOPPED) | FILTERS_CONSTANT == set(FILTERS)
    assert all(FILTERS[name].cost is not nothing for name in FILTERS_STOPPED)
    # Comparisons count in the operator that they are; the others look at one value's type or
    # calculate with numbers.
    assert moment == set(TESTS)
    assert set(TESTS) - set(TESTS_STOPPED) == {
        *("boolean", "divisibleby", "even", "false", "float", "integer", "mapping", "none"),
        *("number", "odd", "sequence", "string", "true"),
    }


def test_every_operator_is_counted_or_takes_a_moment() -> None:
    assert set(OPERATORS_STOPPED) | set(CONSTANT) == {kind.__name__ for kind in _HANDLERS}
    assert {kind.__name__ for kind in _ARITHMETIC} <= set(CONSTANT) | {"Add"}
    assert set(ORDER) == {"lt", "lteq", "gt", "gteq"}
    assert _DEFAULTS == ("default", "d")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a.many | length", len(OUTPUTS["a"]["many"])),
        ("a.text | count", LIMITS.work + 1),
        ("a.object | first", "0"),
        ("a.object | last", str(LIMITS.work // ITEM)),
        ("a.text | first", "x"),
        ("a.many | last", 1),
        ("a.text == a.many", False),
        ("a.text == a.blanks", False),
        ("a.many is sequence", True),
        ("not a.many", False),
        ("a.object['7']", 1),
    ],
)
def test_what_takes_a_moment_has_no_limit_on_its_data(expression: str, expected: Any) -> None:
    assert render(expression) == expected


@pytest.mark.parametrize(
    "text",
    [
        '{{ "' + '\\"' * 100_000,
        "{{ '" + "\\'" * 100_000,
        "{{ " + "'\\'" * 80_000,
        "{{ 'x' " * 30_000,
        "{{ {{ " * 40_000,
        "{{ " + "{" * 100_000 + "}" * 100_000,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_text_is_read_once(text: str) -> None:
    with pytest.raises(TemplateError):
        compile_template(text)
