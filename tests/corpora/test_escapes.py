"""Every attempt of the corpus in a real worker: none succeeds, each ends, and the worker lives."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from minuet.app.app import App
from minuet.app.compiling import compile_source
from minuet.conditions import compile_condition
from minuet.errors import ConditionError, DocumentError

from . import escapes

#: Seconds of CPU for one attempt: without the limits it takes minutes, or all memory.
SOON = 10

#: What an attempt that has no effect leaves as it was.
OUTPUT: dict[str, Any] = {"a": 1, "text": escapes.BLOWN}


def code(text: str) -> dict[str, Any]:
    lines = "\n".join(f"    {line}" for line in text.splitlines())
    body = f"def evaluate(output, context):\n{lines}\n"
    return {"type": "python_sandbox", "code": body, "timeout_ms": 300}


def query(text: str) -> dict[str, Any]:
    return {"type": "jsonpath", "query": text, "operator": "exists", "value": True}


def schema(value: Any) -> dict[str, Any]:
    return {"type": "schema_validation", "schema": value}


CONDITIONS: dict[str, list[Any]] = {
    "cel": [*escapes.CEL_ESCAPES, *escapes.CEL_EXPENSIVE],
    "jsonpath": [query(text) for text in escapes.JSONPATH_ESCAPES],
    "schema": [schema(value) for value in escapes.SCHEMA_ESCAPES],
    "sandbox": [
        code(text)
        for listed in (
            escapes.SANDBOX_ESCAPES,
            escapes.SANDBOX_REFUSED,
            escapes.SANDBOX_SLOW,
            escapes.SANDBOX_LARGE,
        )
        for text in listed
    ],
}

TEMPLATES = [f"{{{{ {text} }}}}" for text in escapes.TEMPLATE_ESCAPES + escapes.TEMPLATE_EXPENSIVE]


def deciding(condition: Any) -> dict[str, Any]:
    """A document whose branch goes to `escaped` if the attempt succeeds."""
    return {
        "name": "attempt",
        "nodes": [
            {
                "id": "a",
                "type": "transform",
                "config": {"value": "{{ input }}"},
                "branch": {
                    "rules": [{"condition": condition, "next_nodes": ["escaped"]}],
                    "default": ["kept"],
                },
            },
            {"id": "escaped", "type": "noop"},
            {"id": "kept", "type": "noop"},
        ],
    }


def rendering(template: str) -> dict[str, Any]:
    """A document that renders the attempt."""
    return {
        "name": "attempt",
        "nodes": [
            {"id": "a", "type": "transform", "config": {"value": "{{ input }}"}},
            {
                "id": "escaped",
                "type": "transform",
                "config": {"value": template},
                "dependencies": ["a"],
            },
        ],
    }


def compiled(documents: list[dict[str, Any]]) -> Iterator[Any]:
    """The documents that the compiler does not refuse."""
    for document in documents:
        try:
            yield compile_source(document)
        except DocumentError:
            continue


@pytest.mark.shows("F-31", "F-34")
@pytest.mark.parametrize("kind", [*CONDITIONS, "templates"])
async def test_no_attempt_succeeds_and_the_worker_lives(kind: str) -> None:
    documents = (
        [rendering(text) for text in TEMPLATES]
        if kind == "templates"
        else [deciding(condition) for condition in CONDITIONS[kind]]
    )
    async with App("memory://") as app:
        for workflow in compiled(documents):
            started = time.process_time()
            result = await app.wait(await app.start(workflow, OUTPUT), timeout=60)
            assert result.nodes["escaped"].status != "COMPLETED", workflow.document
            assert time.process_time() - started < SOON
        after = await app.wait(await app.start(deciding("output.a == 1"), OUTPUT), timeout=60)

    assert after.nodes["escaped"].status == "COMPLETED"


@pytest.mark.parametrize("pattern", escapes.BLOW_UPS)
@pytest.mark.parametrize(
    "make",
    [
        lambda pattern: f"output.text.matches({pattern!r})",
        lambda pattern: query(f"$[?match(@, '{pattern}')]"),
        lambda pattern: query(f"$[?search(@, '{pattern}')]"),
        lambda pattern: schema({"properties": {"text": {"pattern": pattern}}}),
        lambda pattern: schema({"patternProperties": {pattern: False}}),
    ],
    ids=["cel", "match", "search", "schema", "names"],
)
def test_a_regular_expression_ends_in_time(make: Any, pattern: str) -> None:
    started = time.process_time()

    try:
        compile_condition(make(pattern)).evaluate({"output": OUTPUT, "ctx": {}})
    except ConditionError:
        pass  # Refused, which is an end too.

    assert time.process_time() - started < SOON


def test_there_are_more_than_two_hundred_attempts() -> None:
    assert sum(map(len, CONDITIONS.values())) + len(TEMPLATES) > 200
