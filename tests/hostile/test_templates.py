"""Templates and expressions that want more than values, inside a running workflow."""

from __future__ import annotations

import time
from typing import Any

import pytest

from minuet.errors import DocumentError
from minuet.model import Diagnostic

from ..scenario.harness import node, task, workflow

ESCAPES = [
    "{{ ''.__class__ }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ input.__class__ }}",
    "{{ input['__class__'] }}",
    "{{ input|attr('__class__') }}",
    "{{ [].__class__ }}",
    "{{ '{0.__class__}'.format(input) }}",
    "{{ '%s' % input }}",
    "{{ 'x'.format_map(input) }}",
    "{{ self }}",
    "{{ self._TemplateReference__context }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ lipsum.__globals__ }}",
    "{{ range(10) }}",
    "{{ config }}",
    "{{ run.__init__ }}",
    "{{ namespace(x=1) }}",
    "{% for x in range(10) %}{{ x }}{% endfor %}",
    "{% import 'os' as os %}",
    "{% set x = 1 %}{{ x }}",
    "{% raw %}x{% endraw %}",
    "{{ (lambda: 1)() }}",
    "{{ input.items() }}",
    "{{ _ }}",
    "{{ \uff3f\uff3fclass\uff3f\uff3f }}",
]

GREEDY = [
    "{{ 9**9**9 }}",
    "{{ 2 ** 100000000 }}",
    "{{ 'a' * 1000000000 }}",
    "{{ [0] * 1000000000 }}",
    "{{ 'x' ~ 'a' * 100000000 }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ 1 << 100000000 }}",
    "{{ " + "(" * 500 + "1" + ")" * 500 + " }}",
    "{{ " + "1+" * 5000 + "1 }}",
    "{{ " + "not " * 5000 + "true }}",
]


def refused(s: Any, document: Any) -> Diagnostic | None:
    """The first problem of a document that does not compile."""
    try:
        s.app.workflows.compile(document)
    except DocumentError as error:
        return error.diagnostics[0]
    return None


@pytest.mark.parametrize("text", [*ESCAPES, *GREEDY], ids=lambda text: text[:40])
async def test_a_template_that_wants_more_than_values_is_refused(scene: Any, text: str) -> None:
    begun = time.process_time()
    document = workflow(node("a", type="transform", config={"value": text}), node("b", "a"))
    async with scene() as s:
        refusal = refused(s, document)
        if refusal is not None:
            assert refusal.path.startswith("nodes[0].config")
        else:
            result = await s.run(document, {"items": 1})
            assert result.status == "FAILED", result.output
            assert result.error["code"] == "template-error"
            assert len(result.error["message"]) < 5_000
        assert time.process_time() - begun < 5
        assert (await s.run(workflow(node("a")))).status == "COMPLETED"


CONDITIONS = [
    "output.__class__ == 1",
    "__import__('os').system('id') == 0",
    "eval('1')",
    "output.matches('(a+)+$')",
    "input.long.matches('(a+)+$')",
    "[1,2,3].map(x, [1,2,3].map(y, [1,2,3].map(z, x*y*z))).size() > 0",
    "input.many.all(a, input.many.all(b, input.many.all(c, input.many.all(d, a+b+c+d >= 0))))",
    "input.many.map(a, input.many.map(b, input.many.map(c, input.many))).size() > 0",
    "(" * 300 + "true" + ")" * 300,
    " || ".join(["false"] * 5000),
    "output.x.y.z",
    "1 / 0 == 1",
    "9223372036854775807 + 1 > 0",
]


@pytest.mark.parametrize("text", CONDITIONS, ids=lambda text: text[:40])
async def test_a_condition_that_is_wrong_or_greedy_never_stops_the_run(
    scene: Any, text: str
) -> None:
    begun = time.process_time()
    document = workflow(
        node(
            "a",
            branch={"rules": [{"condition": text, "next_nodes": ["yes"]}], "default": ["no"]},
        ),
        node("yes"),
        node("no"),
    )
    async with scene() as s:
        refusal = refused(s, document)
        if refusal is not None:
            assert refusal.path.startswith("nodes[0].branch")
        else:
            result = await s.run(document, {"long": "a" * 40 + "!", "many": list(range(100))})
            assert result.status == "COMPLETED"
            assert len(result.output) == 1
        assert time.process_time() - begun < 5


async def test_a_value_that_looks_like_a_template_is_never_evaluated(scene: Any) -> None:
    payload = "{{ input.secret }}{% if 1 %}x{% endif %}"

    async def make() -> dict[str, str]:
        return {"text": payload, "condition": "true"}

    async def show(text: str, again: str, name: str) -> list[str]:
        return [text, again, name]

    document = workflow(
        task("make"),
        node("copy", "make", type="transform", config={"value": {"inner": "{{ make.text }}"}}),
        task(
            "show",
            "copy",
            config={
                "text": "{{ make.text }}",
                "again": "{{ copy.inner }}",
                "name": "<{{ copy.inner }}> {{ input.other }}",
            },
        ),
        output={"shown": "{{ show.output }}", "again": "{{ show.output[0] }}"},
    )
    async with scene({"make": make, "show": show}) as s:
        result = await s.run(document, {"secret": "s3cr3t", "other": payload})

        assert result.status == "COMPLETED"
        assert result.output == {
            "shown": [payload, payload, f"<{payload}> {payload}"],
            "again": payload,
        }
        assert "s3cr3t" not in repr(result.nodes)


@pytest.mark.parametrize(
    "text", ["{{ input.nothing }}", "{{ input.list[9] }}", "{{ input.text.deep }}", "{{ 1 / 0 }}"]
)
async def test_a_template_without_a_value_is_an_error_and_no_empty_text(
    scene: Any, text: str
) -> None:
    document = workflow(node("a", type="transform", config={"value": f"x {text}"}))
    async with scene() as s:
        result = await s.run(document, {"list": [], "text": "t"})

        assert result.status == "FAILED"
        assert result.error is not None
        assert result.error["code"] == "template-error"


async def test_a_template_that_makes_too_much_text_fails_its_node(scene: Any) -> None:
    async def show(text: str) -> int:
        return len(text)

    document = workflow(task("show", config={"text": "{{ input.text }}" * 20 + "."}))
    async with scene({"show": show}) as s:
        result = await s.run(document, {"text": "x" * 1_000_000})

        assert result.status == "FAILED"
        assert result.error is not None
        assert result.error["code"] == "template-error"
