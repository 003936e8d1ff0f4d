"""The filters and tests of templates."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.errors import TemplateError
from minuet.templates import compile_template

ROWS = [{"n": "b", "p": 2.5, "t": {"x": 1}}, {"n": "C", "p": 1}, {"n": "a", "p": 4, "t": {"x": 1}}]
OUTPUTS = {"a": {"rows": ROWS, "words": ["b", "C", "a", "B"], "nested": [[2, 1], [3]]}}


def render(expression: str) -> Any:
    return compile_template(f"{{{{ {expression} }}}}").render(OUTPUTS, {})


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("-5 | abs", 5),
        ("'heLLo you' | capitalize", "Hello you"),
        ("'heLLo you' | title", "Hello You"),
        ("'aB' | upper ~ 'aB' | lower", "ABab"),
        ("' x ' | trim ~ 'xyx' | trim('x')", "xy"),
        ("'aXbX' | replace('X', '--')", "a--b--"),
        ("'aXbX' | replace('X', '', 1)", "abX"),
        ("'aXbX' | replace('X', '-', count=1)", "a-bX"),
        ("'a b/ü&' | urlencode", "a%20b/%C3%BC%26"),
        ("{'q': 'a b', 'n': 1} | urlencode", "q=a%20b&n=1"),
        ("[1, 'x', none, [2]] | join", "1xnull[2]"),
        ("a.words | join(', ')", "b, C, a, B"),
        ("a.rows | join('-', attribute='n')", "b-C-a"),
        ("'12' | int + 1", 13),
        ("2.9 | int", 2),
        ("'x' | int(7)", 7),
        ("none | int(default=none)", None),
        ("'1.5' | float", 1.5),
        ("'x' | float(0.5)", 0.5),
        ("'inf' | float(0.5)", 0.5),
        ("2.567 | round(1)", 2.6),
        ("2.1 | round(method='ceil')", 3.0),
        ("2.19 | round(1, 'floor')", 2.1),
        ("12 | string ~ true | string", "12true"),
        ("[1, 2.5] | sum", 3.5),
        ("a.rows | sum(attribute='p', start=10)", 17.5),
        ("a.rows | length", 3),
        ("'abc' | count + {'a': 1} | length", 4),
        ("a.words | first ~ a.words | last", "bB"),
        ("a.words | min ~ a.words | max", "aC"),
        ("a.words | min(case_sensitive=true)", "B"),
        ("(a.rows | max(attribute='p')).n", "a"),
        ("a.words | sort", ["a", "b", "B", "C"]),
        ("a.words | sort(case_sensitive=true)", ["B", "C", "a", "b"]),
        ("a.words | sort(true)", ["C", "b", "B", "a"]),
        ("a.rows | sort(attribute='p') | map(attribute='n') | list", ["C", "b", "a"]),
        ("a.words | unique", ["b", "C", "a"]),
        ("[1, true, 1, {'a': 1}, {'a': 1}] | unique", [1, True, {"a": 1}]),
        ("a.rows | unique(attribute='p') | length", 3),
        ("'abc' | reverse", "cba"),
        ("[1, 2] | reverse", [2, 1]),
        ("'ab' | list", ["a", "b"]),
        ("{'b': 1, 'a': 2} | list", ["b", "a"]),
        ("{'b': 1, 'a': 2} | items", [["b", 1], ["a", 2]]),
        ("{'b': 1, 'a': 2} | items | map(attribute=0) | list", ["b", "a"]),
        ("{'b': 1, 'a': 2} | dictsort", [["a", 2], ["b", 1]]),
        ("{'b': 1, 'a': 2} | dictsort(by='value', reverse=true)", [["a", 2], ["b", 1]]),
        ("{'a': [1, none]} | tojson", '{"a":[1,null]}'),
        ("a.words | map('upper') | list", ["B", "C", "A", "B"]),
        ("a.words | map('replace', 'b', 'x') | join", "xCaB"),
        ("a.nested | map('sort') | map('first') | list", [1, 3]),
        ("a.rows | map(attribute='t.x', default=0) | list", [1, 0, 1]),
        ("a.nested | map(attribute=0) | list", [2, 3]),
        ("[0, 1, '', 'x'] | select", [1, "x"]),
        ("[0, 1, '', 'x'] | reject", [0, ""]),
        ("[1, 2, 3] | select('odd')", [1, 3]),
        ("[1, 2, 3] | reject('divisibleby', 3)", [1, 2]),
        ("[1, 2, 3] | select('in', [1, 3, 5])", [1, 3]),
        ("[1] | select('defined')", [1]),
        ("a.rows | selectattr('p', 'gt', 2) | map(attribute='n') | join", "ba"),
        ("a.rows | rejectattr('p', 'ge', 2) | map(attribute='n') | join", "C"),
        ("a.rows | selectattr('t', 'undefined') | map(attribute='n') | join", "C"),
        ("a.rows | selectattr('t', 'defined') | map(attribute='n') | join", "ba"),
        ("a.rows | selectattr('n') | length", 3),
    ],
)
def test_filter_gives(expression: str, expected: Any) -> None:
    assert render(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("true is boolean and 1 is not boolean", True),
        ("true is true and false is false and 1 is not true", True),
        ("4 is divisibleby 2 and 4 is even and 3 is odd", True),
        ("1 is eq 1 and 1 is equalto 1.0 and 1 is ne 2", True),
        ("1 is lt 2 and 1 is le 1 and 2 is gt 1 and 2 is ge 2", True),
        ("1.0 is float and 1 is integer and true is not integer and 1 is not float", True),
        ("1 is number and 1.5 is number and true is not number", True),
        ("1 is in [1] and 'a' is string and none is none", True),
        ("{} is mapping and [] is sequence and 'a' is sequence and 1 is not sequence", True),
    ],
)
def test_test_tells(expression: str, expected: bool) -> None:
    assert render(expression) is expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1 | upper", "a text is needed, not a number"),
        ("1 | length", "a list is needed, not a number"),
        ("[] | items", "an object is needed, not a list"),
        ("'x' | abs", "a number is needed, not a text"),
        ("true | abs", "a number is needed, not a boolean"),
        ("'x' | int", "int: invalid literal"),
        ("[] | int", "int: "),
        ("'x' | float", "float: could not convert"),
        ("'nan' | float", "gives no number"),
        ("1 | round(16)", "precision is a whole number, at most 15"),
        ("1 | round(1, 'up')", "method is"),
        ("{} | dictsort(by='size')", "by is 'key' or 'value'"),
        ("[1, 'a'] | sort", "sort: '<' not supported"),
        ("[] | max", "the list is empty"),
        ("['a'] | sum", "a number is needed"),
        ("[1] | map('nosuch')", "there is no filter 'nosuch'"),
        ("[1] | map(5)", "there is no filter 5"),
        ("[1] | select('nosuch')", "there is no test 'nosuch'"),
        ("[1] | select(5)", "there is no test 5"),
        ("[{}] | map(attribute='x')", "no field 'x' in an item"),
        ("[{}] | map(attribute=[])", "attribute is a text or an index"),
        ("[{}] | selectattr('x', 'odd')", "no field 'x' in an item"),
        ("'x' | upper(1)", "upper: "),
        ("'x' | default(nosuch=1)", "default: "),
        ("1 is divisibleby 0", "divisibleby: "),
        ("1 is lt 'a'", "a number and a text have no order"),
    ],
)
def test_filter_on_the_wrong_value_is_an_error(expression: str, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(expression)

    assert message in str(caught.value)
