"""What CEL conditions and expressions mean."""

from __future__ import annotations

import pytest

from minuet.conditions import compile_condition, compile_expression
from minuet.errors import ConditionError

VARIABLES = {
    "output": {
        "score": 85,
        "ratio": 0.5,
        "status": "success",
        "tags": ["new", "vip"],
        "user": {"name": "Ann", "age": None},
        "content-type": "text/plain",
    },
    "ctx": {"enrich_data": {"output": {"revenue": 150_000}}, "fetch-user": {"output": 7}},
    "input": {"limit": 80},
    "run": {"id": "run-1"},
    "iteration": 2,
    "item": {"sku": "a"},
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("output.score == 85", True, marks=pytest.mark.shows("F-03", "F-04")),
        pytest.param("output.score == 85.0", True, marks=pytest.mark.shows("F-04")),
        pytest.param("output.score != 85", False, marks=pytest.mark.shows("F-04")),
        pytest.param("output.score > 85", False, marks=pytest.mark.shows("F-04")),
        pytest.param("output.score >= 84.5", True, marks=pytest.mark.shows("F-04")),
        pytest.param("output.score < 86", True, marks=pytest.mark.shows("F-04")),
        pytest.param("output.score <= 84", False, marks=pytest.mark.shows("F-04")),
        pytest.param(
            "output.score > 80 && output.ratio > 0.6", False, marks=pytest.mark.shows("F-05")
        ),
        pytest.param(
            "output.score > 90 || output.ratio < 0.6", True, marks=pytest.mark.shows("F-05")
        ),
        pytest.param("!(output.score > 90)", True, marks=pytest.mark.shows("F-05")),
        pytest.param("output.missing > 1 || true", True, marks=pytest.mark.shows("F-05")),
        pytest.param(
            "(output.score + 5 - 10) * 2 / 4 % 7 == 5", True, marks=pytest.mark.shows("F-06")
        ),
        pytest.param("output.status.contains('cces')", True, marks=pytest.mark.shows("F-07")),
        pytest.param("output.status.startsWith('suc')", True, marks=pytest.mark.shows("F-07")),
        pytest.param("output.status.endsWith('suc')", False, marks=pytest.mark.shows("F-07")),
        pytest.param("'vip' in output.tags", True, marks=pytest.mark.shows("F-08")),
        pytest.param("output.tags.all(t, t.size() == 3)", True, marks=pytest.mark.shows("F-08")),
        pytest.param("output.tags.exists(t, t == 'old')", False, marks=pytest.mark.shows("F-08")),
        pytest.param(
            "(output.score > 10 ? 'high' : 'low') == 'high'", True, marks=pytest.mark.shows("F-09")
        ),
        pytest.param(
            "ctx.enrich_data.output.revenue > 100000", True, marks=pytest.mark.shows("F-03", "F-10")
        ),
        pytest.param('ctx["fetch-user"].output == 7', True, marks=pytest.mark.shows("F-10")),
        ("ctx.`fetch-user`.output == 7", True),
        ("ctx.?absent.output.orValue(3) == 3", True),
        ("output['content-type'] == 'text/plain'", True),
        ("output.user.age == null", True),
        ("has(output.user.name) && !has(output.user.phone)", True),
        ("output.tags[1] == 'vip' && output.tags[?5].orValue('-') == '-'", True),
        ("output.score >= input.limit && run.id == 'run-1'", True),
        ("iteration < 3 && item.sku == 'a'", True),
        ("type(output.score) == int", True),
        ("output != output.user && [output.status].join() == 'success'", True),
        ("output.status.matches('^suc+ess$')", True),
        ("math.greatest(output.score, 90) == 90", True),
        ("output.status.upperAscii().replace('S', 'x').split('x').join('-') == '-UCCE--'", True),
        ("[1, 2].map(x, x + 1) + [4] == [2, 3, 4]", True),
        ("timestamp('2024-03-01T00:00:00Z').getMonth() == 2", True),
        ("[ // a comment\n output\t.\r\n score\f,\n2 ] [ 0 ]//\n== 85 // end", True),
        ("cel.bind(n, output.tags.size(), n > 1 && n < 3)", True),
        ("output.?user.name.orValue('') == 'Ann' && output.?nobody.name.orValue('-') == '-'", True),
        ("output.?score.optMap(s, s + 1).orValue(0) == 86", True),
        ("output.tags.transformList(i, t, string(i) + t) == ['0new', '1vip']", True),
        ("output.user.transformMap(k, v, k != 'age', k) == {'name': 'name'}", True),
        ("'%s: %.1f'.format([output.status, output.ratio]) == 'success: 0.5'", True),
        ("output.score == 85u && 1 == 1.0 && [1] == [1.0]", True),
        ("-7 / 2 == -3 && -7 % 2 == -1", True),
        ("0xff == 255 && -1 < 0 && 1.5 > 1.0 && true && 2u == 2u && b'a' == b'a'", True),
    ],
)
def test_condition_decides(expression: str, expected: bool) -> None:
    assert compile_condition(expression).evaluate(VARIABLES) is expected


def test_object_form_means_the_same_as_text() -> None:
    condition = compile_condition({"type": "cel", "expression": "output.score > 1"})

    assert condition is compile_condition("output.score > 1")
    assert condition.source == "output.score > 1"


@pytest.mark.parametrize(
    ("expression", "references"),
    [
        ("output.score > 1", set()),
        ("ctx.a.output > 1 && ctx['b-c'].output < ctx.a.output", {"a", "b-c"}),
        ("has(ctx.a.output.x) || ctx.?b.output.orValue(1) == 1", {"a", "b"}),
        ("'ctx.zzz' == output && output == \"ctx['y']\"", set()),
        ("output.ctx.zzz == 1", set()),
        (
            "[1].exists(x, ctx.a.output == x) ? ctx.b.output : {'k': ctx.c.output}.k",
            {"a", "b", "c"},
        ),
        (".ctx.a.output == 1", {"a"}),
    ],
)
def test_references_are_the_nodes_that_are_read(expression: str, references: set[str]) -> None:
    assert compile_condition(expression).references == references


@pytest.mark.shows("F-11")
@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "is empty"),
        ("output.a >", "expected an expression, not the end (line 1, column 11)"),
        ("output.a > 'x' +", "line 1, column 17"),
        ("output.a ==\n  output.b +", "line 2, column 13"),
        ("true ? 1", "expected ':'"),
        ("[1, 2", "expected ','"),
        ("output.a.b(", "expected an expression"),
        ("'abc", "the text is not closed"),
        ("'\\q' == output", "unknown escape"),
        ("99999999999999999999 == 1", "64 bits"),
        ("if == 1", "reserved word"),
        ("has(output)", "has() needs a field"),
        ("output.all(1, true)", "all() needs a name"),
        ("{[1]: 2} == {}", "a key is a string, a whole number or a boolean, not list"),
        ("{'a': 1, 'a': 2} == {}", "there twice"),
        ("output.matches('(')", "missing )"),
        ("size(1) == 1", "there is no size(int), but size(map)"),
        ("'a'.contains('a', 'b')", "there is no string.contains(string, string)"),
        ("contains('a', 'b')", "write x.contains(…)"),
        ("output.startswith('a')", "did you mean 'startsWith'?"),
        ("output.all(x, 1)", "all() needs true or false, not int"),
        ("1 && true", "'&&' needs true or false, not int"),
        ("1 == 'a'", "'==' does not work on int and string"),
        ("2 * 1.5 > 1.0", "do not mix"),
        ("1 > 'a'", "double(x)"),
        ("outptu.score > 1", "unknown variable 'outptu': did you mean 'output'?"),
        ("enrich.revenue > 1", "a node is ctx.enrich"),
        ("ctx.fetch-user.output > 1", 'did you mean ctx["fetch-user"]?'),
        ("ctx == output", "ctx needs the id of a node"),
        ("ctx[output.name].output == 1", "ctx needs the id of a node"),
        ("ctx[0] == 1", "ctx needs the id of a node"),
        ("[1].exists(ctx, ctx == 1)", "'ctx' is taken"),
        ("output.all(output, true)", "'output' is taken"),
        ("nosuch(1)", "there is no function 'nosuch'"),
        ("google.protobuf.Struct{} == output", "messages (google.protobuf.Struct)"),
    ],
)
def test_condition_that_does_not_compile_is_an_error(expression: str, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        compile_condition(expression)

    assert message in str(caught.value)


@pytest.mark.shows("F-12")
@pytest.mark.parametrize("expression", ["1 + 1", "output.score > 1 ? 'high' : 'low'", "input"])
def test_condition_that_cannot_be_boolean_is_an_error(expression: str) -> None:
    with pytest.raises(ConditionError, match="a condition needs true or false"):
        compile_condition(expression).evaluate(VARIABLES)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("output.missing > 1", 'there is no field "missing"'),
        ("output.score.deeper > 1", 'the field "deeper" of something that is not an object'),
        ("output.score > 'x'", "double(x)"),
        ("output.score ? true : false", "'?' needs true or false before it"),
        ("output.score.all(x, true)", "can only loop over a list or an object"),
        ("output.tags[9] == 1", "there is no item 9: the list has 2"),
        ("output.score / 0 == 1", "divide by zero"),
        ("ctx.absent.output == 1", 'there is no field "absent"'),
        ("dyn(optional.of(output))", "an optional: use orValue"),
        ("dyn({'name': input.?limit})", "the result is map"),
        ("output.score > 1 &&\n output.missing", "line 2, column 8"),
        ("output.score + 1.5 > 1.0", "do not mix"),
        ("9223372036854775807 + iteration > 1", "64 bits"),
        ("output.status.matches(output.status + '(')", "missing )"),
        ("output.?score.value().x == 1", "not an object"),
        ("output.?nothing.value() == 1", "use orValue"),
    ],
)
def test_evaluation_error_is_raised_with_the_source(expression: str, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        compile_condition(expression).evaluate(VARIABLES)

    assert message in str(caught.value)
    assert caught.value.source == expression


def test_variable_without_a_value_is_an_error() -> None:
    with pytest.raises(ConditionError, match="'item' has no value here"):
        compile_condition("item == 1").evaluate({"output": 1})


def test_what_is_not_read_is_not_looked_at() -> None:
    variables = {"output": {"score": 5, "odd": 2**70}, "ctx": {"a": object()}, "input": object()}

    assert compile_condition("output.score == 5").evaluate(variables) is True


def test_explanation_has_source_result_and_operands() -> None:
    condition = compile_condition(
        "output.score >= 80 && output.tags[1] == 'vip' && !has(output.user.phone)"
        " && ctx['fetch-user'].output > 5"
    )

    assert condition.explain(VARIABLES) == {
        "type": "cel",
        "source": condition.source,
        "result": True,
        "operands": {'ctx["fetch-user"].output': 7, "output.score": 85, "output.tags[1]": "vip"},
        "missing": ["output.user.phone"],
        "parts": [
            {"source": "output.score >= 80", "result": True, "values": {"output.score": 85}},
            {
                "source": "output.tags[1] == 'vip'",
                "result": True,
                "values": {"output.tags[1]": "vip"},
            },
            {"source": "!has(output.user.phone)", "result": True},
            {
                "source": "ctx['fetch-user'].output > 5",
                "result": True,
                "values": {"ctx['fetch-user'].output": 7},
            },
        ],
    }


def test_explanation_says_which_parts_were_false_and_which_were_not_looked_at() -> None:
    condition = compile_condition(
        "!(output.score > 90 || size(output.tags) > 5) && output.tags.exists(t, t == 'old')"
        " && output.missing"
    )

    assert condition.explain(VARIABLES)["parts"] == [
        {
            "source": "!(output.score > 90 || size(output.tags) > 5)",
            "result": True,
            "parts": [
                {"source": "output.score > 90", "result": False, "values": {"output.score": 85}},
                {
                    "source": "size(output.tags) > 5",
                    "result": False,
                    "values": {"size(output.tags)": 2},
                },
            ],
        },
        {
            "source": "output.tags.exists(t, t == 'old')",
            "result": False,
            "values": {"output.tags": ["new", "vip"]},
        },
        {"source": "output.missing", "skipped": True},
    ]


def test_explanation_shows_values_that_are_not_json_as_text() -> None:
    condition = compile_condition(
        "timestamp(output.at) - duration('1h') > timestamp(0) && output.?x == optional.none()"
    )

    told = condition.explain({"output": {"at": "2026-01-01T00:00:00Z"}})

    assert [part.get("values") for part in told["parts"]] == [
        {
            "timestamp(output.at) - duration('1h')": 'timestamp("2025-12-31T23:00:00Z")',
            "timestamp(0)": 'timestamp("1970-01-01T00:00:00Z")',
        },
        {"output.?x": "optional.none()", "optional.none()": "optional.none()"},
    ]


def test_explanation_has_a_bounded_number_of_parts() -> None:
    condition = compile_condition(" && ".join(f"output.a{i} + 1 > {i}" for i in range(100)))

    told = condition.explain({"output": {f"a{i}": i for i in range(100)}})

    assert told["result"] is True
    assert 5 < len(told["parts"]) <= 20
    assert len(told["operands"]) == 20


def test_explanation_of_an_error_has_the_error_and_what_is_missing() -> None:
    explanation = compile_condition("output.score.x > 1 && item > 2").explain(
        {"output": {"score": 1}}
    )

    assert 'it reads the field "x"' in explanation["error"]
    assert "result" not in explanation
    assert [part["source"] for part in explanation["parts"]] == ["output.score.x > 1", "item > 2"]
    assert "'item' has no value here" in explanation["parts"][1]["error"]
    assert explanation["missing"] == ["item", "output.score.x"]


def test_explanation_is_short_whatever_the_data() -> None:
    variables = {"output": {"text": "x" * 5000, "bad": 2**70}}

    explanation = compile_condition("output.text == output.bad").explain(variables)

    assert len(explanation["operands"]["output.text"]) < 250
    assert (
        explanation["operands"]["output.bad"]
        == "(there is an integer that does not fit into 64 bits)"
    )


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("output.score * 2", 170),
        ("double(output.score) * 1.5", 127.5),
        (
            "output.tags.map(t, {'tag': t, 'by': output.user.name})",
            [{"tag": "new", "by": "Ann"}, {"tag": "vip", "by": "Ann"}],
        ),
        ("output.tags.filter(t, t != 'new')", ["vip"]),
        ("{'b': null, 'a': true}", {"a": True, "b": None}),
        ("output.user", {"name": "Ann", "age": None}),
        ("'x' + output.status", "xsuccess"),
        ("output.score > 80 ? 'high' : 'low'", "high"),
    ],
)
def test_expression_yields_json(expression: str, expected: object) -> None:
    assert compile_expression(expression).evaluate(VARIABLES) == expected


def test_expression_keeps_whole_and_decimal_numbers_apart() -> None:
    values = compile_expression("[output, 1.0]").evaluate({"output": 1})

    assert [type(v) for v in values] == [int, float]


def test_object_that_an_expression_builds_has_its_keys_as_they_are_written() -> None:
    names = [f"k{i}" for i in reversed(range(9))]
    source = "{" + ", ".join(f"'{n}': 1" for n in names) + "}"

    assert list(compile_expression(source).evaluate({})) == names


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("{1: 2}", "a key that is not a string: 1; use string"),
        ("[b'x']", "use base64.encode"),
        ("[18446744073709551615u]", "64 bits"),
        ("{'name': input.?name}", "an optional: use orValue"),
        ("[optional.of(1)]", "an optional: use orValue"),
        ("type(1)", "has a type"),
        ("duration('1h')", "use string"),
        ("0.0 / 0.0", "not valid JSON: nan"),
        ("optional.none()", "use orValue"),
        ("output.missing", "no field"),
    ],
)
def test_expression_that_yields_no_json_is_an_error(expression: str, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        compile_expression(expression).evaluate(VARIABLES)


def test_expression_must_be_text() -> None:
    with pytest.raises(ConditionError, match="not int"):
        compile_expression(5)  # type: ignore[arg-type]
