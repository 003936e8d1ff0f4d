"""Plans as bytes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from minuet.errors import StoreUnusableError
from minuet.plan.digest import decode_plan, digest_plan, encode_plan

DOCUMENT: list[dict[str, Any]] = [
    {"id": "a", "config": {"b": 1, "a": {"z": 1, "y": 2}}, "secrets": ["x", "y"]},
    {"id": "b", "dependencies": ["a"], "loop": {"condition": "output.x", "timeout_path": ["c"]}},
    {"id": "c"},
    {"id": "d", "dependencies": ["a"], "join": "each"},
]


@pytest.mark.shows("A-01")
def test_a_plan_survives_its_encoding(compiled: Any) -> None:
    plan = compiled(*DOCUMENT).plan

    again = decode_plan(encode_plan(plan))

    assert again == plan
    assert {node.id for node in again.nodes} == {*"abcd"}
    assert {(node.id, edge.target) for node in again.nodes for edge in node.edges} == {
        *(("a", "b"), ("a", "d"), ("b", "c"), ("b", "b"))
    }


def test_a_digest_names_the_content(compiled: Any) -> None:
    data = encode_plan(compiled(*DOCUMENT).plan)

    assert digest_plan(data) == f"cas://sha256:{hashlib.sha256(data).hexdigest()}"
    assert digest_plan(encode_plan(compiled(*DOCUMENT[:1]).plan)) != digest_plan(data)


def test_the_order_of_keys_does_not_matter(compiled: Any) -> None:
    turned = {**DOCUMENT[0], "config": {"a": {"y": 2, "z": 1}, "b": 1}}

    assert encode_plan(compiled(turned, *DOCUMENT[1:]).plan) == encode_plan(
        compiled(*DOCUMENT).plan
    )


def test_the_format_is_always_written(compiled: Any) -> None:
    assert encode_plan(compiled(*DOCUMENT).plan).startswith(b'{"format":1,')


def test_a_plan_of_a_newer_format_is_refused(compiled: Any) -> None:
    newer = msgspec.structs.replace(compiled(*DOCUMENT).plan, format=5)

    with pytest.raises(StoreUnusableError, match=r"format 5.*up to format 4"):
        decode_plan(encode_plan(newer))


@pytest.mark.parametrize("data", [b"", b"{}", b'{"format":1,"plan":{}}', b'{"format":1,"plan":'])
def test_a_damaged_plan_is_refused(data: bytes) -> None:
    with pytest.raises(StoreUnusableError, match="damaged"):
        decode_plan(data)


PROGRAM = """
from minuet.model.document import read_mapping
from minuet.plan.catalog import NodeKind
from minuet.plan.compile import compile_workflow
from minuet.plan.digest import digest_plan, encode_plan

names = [f"n{n}" for n in range(20)]
nodes = [{"id": "start", "dependents": names, "type": "noop"}]
nodes += [{"id": name, "type": "noop", "on_error": ["end"]} for name in names]
nodes += [{"id": "loop", "type": "noop", "dependencies": names, "join": "any",
           "join_rest": "cancel", "loop": {"condition": " || ".join(
               f"ctx.{name}.output.x" for name in names), "loop_back_to": "start"}}]
nodes = [node | {"on_error": "fail"} for node in nodes]
document = read_mapping({"name": "x", "nodes": nodes})
catalog = {"noop": NodeKind(name="noop", queue="noop")}
print(digest_plan(encode_plan(compile_workflow(document, catalog).plan)))
"""


@pytest.mark.slow
def test_the_digest_is_the_same_in_every_process() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }

    assert len(digests) == 1
    assert digests.pop().startswith("cas://sha256:")
