"""Which secrets a document may read, and where."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.app.compiling import compile_source
from minuet.errors import DocumentError


def document(**fields: Any) -> dict[str, Any]:
    return {"name": "w", "nodes": [{"id": "a", "handler": "h", **fields}]}


def refused(source: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    with pytest.raises(DocumentError) as caught:
        compile_source(source)
    return [(d.code, d.path, d.hint) for d in caught.value.diagnostics]


@pytest.mark.parametrize(
    "text", ["{{ secrets.KEY }}", "Bearer {{ secrets.KEY }}", '{{ secrets["KEY"] | upper }}']
)
def test_a_declared_secret_may_be_read_in_the_config(text: str) -> None:
    compiled = compile_source(document(config={"x": [{"y": text}]}, secrets=["KEY"]))

    assert compiled.warnings == ()
    assert compiled.plan.nodes[0].secrets == ("KEY",)


def test_an_undeclared_secret_is_refused_with_its_place_and_a_hint() -> None:
    config = {"x": [{"y": "{{ secrets.KEY }}"}], "z": "{{ secrets.OTHR }}"}

    assert refused(document(config=config, secrets=["OTHER"])) == [
        ("undeclared-secret", "nodes[0].config.x[0].y", "add 'secrets: [KEY]' to the node"),
        ("undeclared-secret", "nodes[0].config.z", 'did you mean "OTHER"?'),
    ]


@pytest.mark.parametrize("text", ["{{ secrets }}", "{{ secrets[input.x] }}", "{{ secrets[0] }}"])
def test_which_secret_is_read_must_be_written_out(text: str) -> None:
    ((code, path, _),) = refused(document(config={"x": text}, secrets=["KEY"]))

    assert (code, path) == ("bad-template", "nodes[0].config.x")


@pytest.mark.parametrize(
    ("source", "path"),
    [
        (document(concurrency={"key": "{{ secrets.KEY }}"}, secrets=["KEY"]), "concurrency.key"),
        (
            document(type="transform", handler=None, config={"value": "{{ secrets.KEY }}"}),
            "config.value",
        ),
    ],
)
def test_a_secret_is_refused_where_what_it_becomes_is_kept(
    source: dict[str, Any], path: str
) -> None:
    source["nodes"][0] = {k: v for k, v in source["nodes"][0].items() if v is not None}

    ((code, where, _),) = refused(source)

    assert (code, where) == ("secret-not-available", f"nodes[0].{path}")


def test_a_secret_is_refused_in_the_output() -> None:
    ((code, path, _),) = refused({**document(), "output": {"x": "{{ secrets.KEY }}"}})

    assert (code, path) == ("secret-not-available", "output.x")


def test_secrets_of_a_node_that_reads_none_are_pointed_out() -> None:
    source = {"name": "w", "nodes": [{"id": "a", "type": "noop", "secrets": ["KEY"]}]}

    (found,) = compile_source(source).warnings

    assert (found.code, found.path) == ("no-effect", "nodes[0].secrets")


def test_conditions_do_not_know_secrets() -> None:
    source = document(secrets=["KEY"], loop={"while": "secrets.KEY == 'x'", "max_iterations": 2})

    ((code, _, _),) = refused(source)

    assert code == "bad-condition"
