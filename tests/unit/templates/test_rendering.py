"""What templates mean."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from minuet.errors import TemplateError
from minuet.templates import compile_template

OUTPUTS = {
    "a": {
        "n": 3,
        "price": 1.0,
        "yes": True,
        "none": None,
        "name": "Ann",
        "items": [{"name": "b", "p": 2.5}, {"name": "C", "p": 1}, {"name": "a", "p": 4}],
        "keys": "shadow",
        "output": "inner",
        "content-type": "text/plain",
    },
    "fetch-user": {"name": "Bob"},
    "step-1": [10, 20],
    "text": "{{ secrets.token }}",
    "input": {"x": "a node called input"},
}
VARIABLES = {
    "input": {"x": 5, "field": "name"},
    "run": {"id": "run-1"},
    "iteration": 2,
    "item": "it",
}


def render(value: Any) -> Any:
    return compile_template(value).render(OUTPUTS, VARIABLES)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param("{{ a.output }}", OUTPUTS["a"], marks=pytest.mark.shows("G-01")),
        pytest.param("{{ step-1.output }}", [10, 20], marks=pytest.mark.shows("G-01")),
        pytest.param("{{ a.output.n }}", 3, marks=pytest.mark.shows("G-01")),
        pytest.param("{{ a.n }}", 3, marks=pytest.mark.shows("G-02")),
        pytest.param("{{a.name}}", "Ann", marks=pytest.mark.shows("G-02")),
        ("{{ a.output.output }}", "inner"),
        ("{{ a.output.items[0].name }}", "b"),
        ("{{ a.items.1.p }}", 1),
        ("{{ a.items[-1]['name'] }}", "a"),
        ("{{ a['content-type'] }}", "text/plain"),
        ('{{ a.output["content-type"] }}', "text/plain"),
        ("{{ fetch-user.output.name }}", "Bob"),
        ("{{ step-1[1] }}", 20),
        ('{{ nodes["fetch-user"].output.name }}', "Bob"),
        ('{{ nodes["fetch-user"].name | upper }}', "BOB"),
        ("{{ nodes['input'].output.x }}", "a node called input"),
        ("{{ input.x }}", 5),
        ("{{ input }}", VARIABLES["input"]),
        ("{{ run.id }}", "run-1"),
        ("{{ item }}", "it"),
        ("{{ iteration }}", 2),
        ("{{ iteration-1 }}", 1),
    ],
)
def test_path_gives_the_value_itself(template: str, expected: Any) -> None:
    assert render(template) == expected


@pytest.mark.parametrize("field", ["n", "price", "yes", "none", "name", "items"])
def test_lone_expression_keeps_its_type(field: str) -> None:
    assert render(f"{{{{ a.{field} }}}}") is OUTPUTS["a"][field]  # type: ignore[index]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("Hi {{ a.name }}!", "Hi Ann!"),
        ("{{ a.n }} {{ a.price }} {{ a.yes }} {{ a.none }}", "3 1.0 true null"),
        ("= {{ a.items[:1] }}", '= [{"name":"b","p":2.5}]'),
        ("{{ fetch-user.output }}.", '{"name":"Bob"}.'),
        (" {{ item }}", " it"),
        ("{{ item }}{{ item }}", "itit"),
        ("}} { {x} %}", "}} { {x} %}"),
        ('{{ "{{" }} {{ "{%" }} {{ \'}}\' }}', "{{ {% }}"),
        ('{{ {"a": {"b": {}}}}}', {"a": {"b": {}}}),
    ],
)
def test_text_around_expressions_makes_a_text(template: str, expected: Any) -> None:
    assert render(template) == expected


@pytest.mark.shows("G-03")
@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ a.n + 1 }}", 4),
        ("{{ (a.n - 1) * 2 / 4 }}", 1.0),
        ("{{ a.n // 2 + a.n % 2 }}", 2),
        ("{{ -a.n }}", -3),
        ("{{ +a.n }}", 3),
        ("{{ a.name + '!' }}", "Ann!"),
        ("{{ [1] + [2] }}", [1, 2]),
        ("{{ a.name ~ a.n ~ none }}", "Ann3null"),
        ("{{ (1, 'x', a.n) }}", [1, "x", 3]),
        ("{{ {'k': a.n, 'l': [a.name]} }}", {"k": 3, "l": ["Ann"]}),
        ("{{ 1 < a.n <= 3 }}", True),
        ("{{ 1 < a.n < 3 }}", False),
        ("{{ 'a' < a.name or a.n > 2 }}", True),
        ("{{ a.n == 3 and a.n != 4 and a.n >= 3 }}", True),
        ("{{ 'n' in a.name and 3 in [a.n] and 'n' in a.output }}", True),
        ("{{ 'z' not in a.name }}", True),
        ("{{ not a.yes }}", False),
        ("{{ 'x' if a.yes else 'y' }}", "x"),
        ("{{ 'x' if a.none else 'y' }}", "y"),
        ("{{ a.name[0] ~ a.name[1:] ~ a.name[::2] }}", "AnnAn"),
        ("{{ a.output[input.field] }}", "Ann"),
        ("{{ (a.items | first).name }}", "b"),
        ("{{ true }}", True),
        ("{{ none }}", None),
        ("{{ not true }}", False),
        ("{{ 3.0 }}", 3.0),
    ],
)
def test_expression_follows_jinja(template: str, expected: Any) -> None:
    result = render(template)

    assert result == expected
    assert type(result) is type(expected)


def test_field_of_the_data_is_found_before_any_method() -> None:
    assert render("{{ a.output.items }}") == OUTPUTS["a"]["items"]  # type: ignore[index]
    assert render("{{ a.keys }}") == "shadow"


def test_templates_are_rendered_wherever_they_stand() -> None:
    template = {"url": "/{{ run.id }}", "list": [1, "{{ a.n }}", {"x": "{{ item }}"}], "k": "v"}

    assert render(template) == {"url": "/run-1", "list": [1, 3, {"x": "it"}], "k": "v"}
    assert list(render(template)) == list(template)


def test_keys_are_not_templates() -> None:
    assert render({"{{ item }}": "{{ item }}"}) == {"{{ item }}": "it"}


def test_rendering_leaves_the_template_unchanged() -> None:
    value = {"list": ["{{ a.n }}", {"x": "{{ item }}"}]}
    template = compile_template(value)

    template.render(OUTPUTS, VARIABLES)

    assert value == {"list": ["{{ a.n }}", {"x": "{{ item }}"}]}
    assert template.source is value


@pytest.mark.parametrize("value", ["plain", 5, None, [1, {"a": "b"}], {}, ""])
def test_constant_is_returned_as_it_is(value: Any) -> None:
    template = compile_template(value)

    assert template.is_constant
    assert template.render({}, {}) is value
    assert not template.references
    assert not template.uses


def test_references_and_uses_are_known_without_rendering() -> None:
    template = compile_template(
        {
            "a": "{{ x.output }} {{ y-z.f }}",
            "b": ["{{ nodes['w'].v | default(input.d) }}", "{{ item }}"],
            "c": "{{ 'fake.output' ~ run.id if q.ok is defined else [r.s][iteration] }}",
        }
    )

    assert template.references == {"x", "y-z", "w", "q", "r"}
    assert template.uses == {"input", "item", "run", "iteration"}
    assert not template.is_constant


@pytest.mark.shows("G-05")
def test_every_output_can_be_read() -> None:
    outputs = {f"node-{i}": {"v": i} for i in range(50)}
    template = compile_template([f"{{{{ node-{i}.output.v }}}}" for i in range(50)])

    assert template.render(outputs, {}) == list(range(50))


def test_what_is_rendered_in_is_never_a_template_again() -> None:
    assert render("{{ text.output }}") == "{{ secrets.token }}"
    assert render("a {{ text.output }} {{ text.output | upper }}") == (
        "a {{ secrets.token }} {{ SECRETS.TOKEN }}"
    )
    assert render("{{ '{' ~ '{ secrets.token }}' }}") == "{{ secrets.token }}"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ a.nam }}", "there is no field 'nam' in the output of 'a': did you mean 'name'?"),
        ("{{ fetch-user.zzz }}", "(there are: name)"),
        ("{{ a.items[7] }}", "there is no item 7 in the output of 'a' at items, which has 3"),
        ("{{ a.items[0].price.x }}", "no field 'price' in the output of 'a' at items[0]"),
        ("{{ a.name.x }}", "which is a text"),
        ("{{ a.n.x }}", "which is a number"),
        ("{{ a.none.x }}", "which is null"),
        ("{{ a.yes.x }}", "which is a boolean"),
        ("{{ a.items.name }}", "which is a list"),
        ("{{ b.output }}", "node 'b' has no output here"),
        ("{{ fetch-usr.output }}", "did you mean 'fetch-user'?"),
        ("{{ input.y }}", "there is no field 'y' in input"),
        ("x {{ a.missing }} y", "no field 'missing'"),
        ("{{ [a.missing] }}", "no field 'missing'"),
        ("{{ {'k': [1, a.missing]} }}", "no field 'missing'"),
        ("{{ a.missing or 'x' }}", "no field 'missing'"),
        ("{{ a.output['missing'] | upper }}", "no field 'missing'"),
        ("{{ [1][5] }}", "there is no item 5"),
        ("{{ 'abc'[5] }}", "there is no item 5 in the value, which has 3"),
        ("{{ [1][a.yes] }}", "a boolean is not a field or index"),
        ("{{ [] | first }}", "the list is empty"),
        ("{{ 'x' if a.none }}", "no 'else'"),
    ],
)
def test_what_is_missing_is_an_error(template: str, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(template)

    assert message in str(caught.value)
    assert caught.value.source == template


def test_variable_without_a_value_is_an_error() -> None:
    with pytest.raises(TemplateError, match="'item' has no value here"):
        compile_template("{{ item }}").render({}, {})


def test_empty_output_has_no_hint() -> None:
    with pytest.raises(TemplateError, match="no field 'x' in the output of 'a', in"):
        compile_template("{{ a.x }}").render({"a": {}}, {})


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ a.missing | default('q') }}", "q"),
        ("{{ a.missing.deeper[0] | default([]) }}", []),
        ("{{ absent.output | d(default_value=1) }}", 1),
        ("{{ a.missing | default }}", ""),
        ("{{ a.none | default('q') }}", None),
        ("{{ a.none | default('q', true) }}", "q"),
        ("{{ a.name | default('q', boolean=true) | upper }}", "ANN"),
        ("{{ [] | first | default(0) }}", 0),
        ("{{ a.missing is defined }}", False),
        ("{{ a.name is defined }}", True),
        ("{{ absent.output is not defined }}", True),
        ("{{ a.missing is undefined }}", True),
        ("{{ 1 if a.missing is defined else 2 }}", 2),
    ],
)
def test_author_can_ask_for_what_may_be_missing(template: str, expected: Any) -> None:
    assert render(template) == expected


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ a }}", "'a' alone says nothing: write a.output"),
        ("{{ a-b }}", "'a-b' alone says nothing"),
        ("{{ a[input.x] }}", "alone says nothing"),
        ("{{ fetch-user.name | upper }}", 'nodes["fetch-…"]'),
        ("{{ nodes }}", "nodes needs the id of a node"),
        ("{{ nodes[item].output }}", "nodes needs the id of a node"),
        ("{{ nodes[0].output }}", "nodes needs the id of a node"),
        ("{{ nodes['x'] }}", "'x' alone says nothing"),
        ("{{ a.x", "'{{' without '}}'"),
        ("{{ '}} ", "a text that begins with ' has no end"),
        ("{{ '}}'", "'{{' without '}}'"),
        ("{{ 1e999 }}", "too large"),
        ("{{ 9223372036854775808 }}", "too large"),
        (r"{{ '\ud800' }}", "lone surrogate"),
        ("{{ } }}", "unexpected '}'"),
        ("{{}}", "unexpected 'end of template'"),
        ("{{ a.x b.y }}", "unexpected 'b'"),
        ("{{ a. }}", "expected name or number"),
        ("{{- a.x }}", "whitespace control"),
        ("{{ a.x -}}", "whitespace control"),
        ("{% if a %}", "only {{ … }} is available"),
        ("text {# comment #}", "only {{ … }} is available"),
        ("{{ a.x | nosuch }}", "there is no filter 'nosuch'"),
        ("{{ a.x | uper }}", "did you mean 'upper'?"),
        ("{{ a.x is nosuch }}", "there is no test 'nosuch'"),
        ("{{ a.x | default(*a.items) }}", "* and ** arguments"),
        ("{{ a.x | default(**a.output) }}", "* and ** arguments"),
        ("{{ f(1) }}", "calling a function or method"),
        ("{{ 2 ** 3 }}", "'**' is not available"),
    ],
)
def test_template_that_does_not_compile_is_an_error(template: str, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_template({"deep": [template]})

    assert message in str(caught.value)
    assert caught.value.source == template


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ a.name + 1 }}", "'+' needs two numbers, not a text and a number"),
        ("{{ a.yes * 2 }}", "'*' needs two numbers, not a boolean and a number"),
        ("{{ -a.name }}", "needs two numbers"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ 1e308 * 10 }}", "too large"),
        ("{{ a.n < a.name }}", "a number and a text have no order"),
        ("{{ 1 in a.n }}", "in: "),
        ("{{ a.n[1:] }}", "a number has no parts"),
        ("{{ a.items['x':] }}", "[:]: "),
        ("{{ {a.n: 1} }}", "the keys of an object are texts, not a number"),
        ("{{ {[1]: 2} }}", "the keys of an object are texts, not a list"),
        ("{{ a.name | upper(name='x') }}", "upper: "),
        ("{{ a.name is eq(scope=1) }}", "eq: "),
        ("{{ 9223372036854775807 + 1 }}", "too large"),
        ("x {{ '9223372036854775808' | int }}", "too large"),
        ("{{ [1e308, 1e308] | sum }}", "too large"),
        ("{{ [1] is lt [2] }}", "have no order"),
    ],
)
def test_operation_on_the_wrong_values_is_an_error(template: str, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(template)

    assert message in str(caught.value)


def test_texts_are_compiled_once_and_shared_by_threads() -> None:
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda n: render(f"{{{{ a.n + {n % 5} }}}}"), range(200)))

    assert results == [3 + n % 5 for n in range(200)]


@pytest.mark.parametrize("code", ["", "; compile_template('{{ a.b }} {{ c-d.output[0] }}')"])
def test_paths_need_no_template_library(code: str) -> None:
    program = f"from minuet.templates import compile_template; import sys{code}"
    program += "; sys.exit('jinja2' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
